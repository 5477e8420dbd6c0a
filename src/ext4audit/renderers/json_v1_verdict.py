"""JSON, version 1: verdicts, with their findings, remedies and holes."""

from __future__ import annotations

from typing import Any

from ext4audit.evidence import Unknown
from ext4audit.finding import Citation, Finding, Remedy, Step, Suppression
from ext4audit.report import Verdict


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """Return one verdict; `evidence` is what a pass rests on."""
    return {
        "rule": verdict.rule.code,
        "name": verdict.rule.name,
        "filesystem": verdict.filesystem_id,
        "outcome": verdict.outcome.value,
        "findings": [_finding(finding) for finding in verdict.findings],
        "unknowns": [unknown_object(unknown) for unknown in verdict.unknowns],
        "note": verdict.note,
        "suppression": _of_all(verdict),
        "evidence": [_citation(citation) for citation in verdict.evidence],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "evidence": [_citation(citation) for citation in finding.citations],
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
        "fact": finding.fact,
        "suppression": _suppression(finding.suppression),
        "known": finding.known,
    }


def _of_all(verdict: Verdict) -> dict[str, Any] | None:
    """Return the suppression of a verdict all of whose findings are suppressed: the first's."""
    said = [finding.suppression for finding in verdict.findings]
    return _suppression(said[0]) if said and None not in said else None


def _suppression(suppression: Suppression | None) -> dict[str, Any] | None:
    if suppression is None:
        return None
    return {
        "reason": suppression.reason,
        "expires": suppression.expires,
        "owner": suppression.owner,
    }


def _citation(citation: Citation) -> dict[str, Any]:
    return {"label": citation.label, "value": citation.value, "origin": citation.origin}


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "summary": remedy.summary,
        "disruption": remedy.disruption.value,
        "destructive": remedy.destructive,
        "trade_off": remedy.trade_off,
        "steps": [_step(step) for step in remedy.steps],
    }


def _step(step: Step) -> dict[str, Any]:
    return {"phase": step.phase.value, "command": step.command}


def unknown_object(unknown: Unknown) -> dict[str, Any]:
    """Return one hole: what is not known, why, and how to make it known."""
    return {
        "what": unknown.what,
        "why": unknown.why.value,
        "detail": unknown.detail,
        "hint": unknown.hint,
    }

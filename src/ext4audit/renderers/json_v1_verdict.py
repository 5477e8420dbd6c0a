"""JSON, version 1: verdicts, with their findings, remedies and holes."""

from __future__ import annotations

from typing import Any

from ext4audit.evidence import Unknown
from ext4audit.finding import Citation, Finding, Remedy, Step
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
        "suppression": None,
        "evidence": [_citation(citation) for citation in verdict.evidence],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "message": finding.message,
        "evidence": [_citation(citation) for citation in finding.citations],
        "remedies": [_remedy(remedy) for remedy in finding.remedies],
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

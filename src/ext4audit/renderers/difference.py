"""The output of `ext4audit diff`: the difference of two reports, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ext4audit.policy.baseline import Difference, KnownFinding
from ext4audit.renderers import json_text, visible


def render_text(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a line for each finding by kind, the new ones first; each host's totals are last."""
    lines = [line for host, found in differences for line in _host(host, found)]
    return "".join(f"{visible(line)}\n" for line in lines)


def _host(host: str, found: Difference) -> Iterator[str]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "not checked again": found.unchecked,
        "unchanged": found.unchanged,
    }
    for kind, findings in kinds.items():
        for finding in findings:
            yield f"{kind}: {_finding_text(finding)}"
    totals = ", ".join(f"{len(findings)} {kind}" for kind, findings in kinds.items())
    yield f"host {host}: {totals}"


def _finding_text(finding: KnownFinding) -> str:
    severity = finding.severity.value.upper()
    accepted = " (suppressed)" if finding.suppressed else ""
    return f"{severity} {finding.rule} on {finding.subject}{accepted}: {finding.message}"


def render_json(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a list of hosts with their findings by kind, and a newline; the text is ASCII."""
    return json_text([{"host": host, **_kinds(found)} for host, found in differences])


def _kinds(found: Difference) -> dict[str, Any]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "unchanged": found.unchanged,
        "unchecked": found.unchecked,
    }
    return {kind: [_finding(each) for each in findings] for kind, findings in kinds.items()}


def _finding(finding: KnownFinding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "superblock": finding.superblock or None,
        "fact": finding.fact,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "message": finding.message,
        "suppressed": finding.suppressed,
    }

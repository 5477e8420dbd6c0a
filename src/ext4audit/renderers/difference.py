"""The difference of two reports: as text, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ext4audit.policy.baseline import Difference, KnownFinding
from ext4audit.renderers.shared.escape import visible, with_original_bytes


def render_text(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a line for each finding by its kind, what is new first; each host's sums last."""
    lines = [line for host, found in differences for line in _host(host, found)]
    return "".join(f"{visible(line)}\n" for line in lines)


def _host(host: str, found: Difference) -> Iterator[str]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "not checked again": found.unchecked,
        "unchanged": found.unchanged,
    }
    for word, findings in kinds.items():
        for finding in findings:
            yield f"{word}: {_words(finding)}"
    sums = ", ".join(f"{len(findings)} {word}" for word, findings in kinds.items())
    yield f"host {host}: {sums}"


def _words(finding: KnownFinding) -> str:
    severity = finding.severity.value.upper()
    accepted = " (suppressed)" if finding.suppressed else ""
    return f"{severity} {finding.rule} on {finding.subject}{accepted}: {finding.message}"


def render_json(differences: Sequence[tuple[str, Difference]]) -> str:
    """Return a list of hosts with their findings by kind, and a newline; the text is ASCII."""
    hosts = [{"host": host, **_kinds(found)} for host, found in differences]
    return json.dumps([with_original_bytes(host) for host in hosts], indent=2) + "\n"


def _kinds(found: Difference) -> dict[str, Any]:
    kinds = {
        "new": found.new,
        "fixed": found.fixed,
        "unchanged": found.unchanged,
        "unchecked": found.unchecked,
    }
    return {word: [_finding(each) for each in findings] for word, findings in kinds.items()}


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

"""The difference of two reports, for programs: an object for each host, by its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ext4audit.policy.difference import Difference
from ext4audit.policy.earlier import KnownFinding
from ext4audit.renderers.original_bytes import with_original_bytes


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

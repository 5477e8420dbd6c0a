"""GitLab Code Quality: an array of issues, in the part of Code Climate's format that GitLab reads.

Entries of one fingerprint are collapsed, so each finding has its own. GitLab knows no
suppressions: an accepted finding is an issue of severity "info" whose text begins with the
reason. It compares with the report of the target branch itself, so what a baseline knows stays
as it is: left out it would look fixed. What could not be judged is an "info" issue as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

from ext4audit.finding import Finding, Severity
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.page import Audited, Page
from ext4audit.renderers.shared.places import (
    Place,
    digest,
    fingerprints,
    place_of,
    place_of_subject,
)
from ext4audit.renderers.shared.rows import host_names, rows, where
from ext4audit.renderers.shared.subjects import BlindGroup, blind_groups, suppression_words
from ext4audit.report import Report

BLIND = "not-determined"
"""The check name of what could not be judged; no rule is called so."""
_SEVERITIES = MappingProxyType(
    {
        Severity.CRITICAL: "blocker",
        Severity.HIGH: "critical",
        Severity.MEDIUM: "major",
        Severity.LOW: "minor",
        Severity.INFO: "info",
    }
)


def render(hosts: Sequence[Audited], _page: Page) -> str:
    """Return the issues of all hosts; the text is ASCII."""
    issues: list[dict[str, Any]] = []
    for name, host in zip(host_names(hosts), hosts, strict=True):
        if host.report is not None:
            issues += _findings(name, host.report)
        issues += [_blind(name, group) for group in blind_groups(host, name)]
    return json.dumps(issues, ensure_ascii=True, indent=2) + "\n"


def _findings(name: str, report: Report) -> Iterator[dict[str, Any]]:
    found = rows(name, report)
    for row, known_by in zip(found, fingerprints(found), strict=True):
        subject = f"{row.rule.code} {row.rule.name}, {name}, {where(row.filesystem)}"
        text = f"{subject}: {row.finding.message}"
        accepted = row.finding.suppression
        reason = "" if accepted is None else f"[suppressed: {suppression_words(accepted)}] "
        place, severity = place_of(row, report), _severity(row.finding)
        yield _issue(row.rule.code, reason + text, severity, place, known_by)


def _severity(finding: Finding) -> str:
    return "info" if finding.suppression is not None else _SEVERITIES[finding.severity]


def _blind(name: str, group: BlindGroup) -> dict[str, Any]:
    place = place_of_subject(name, None, None)
    return _issue(BLIND, group.sentence, "info", place, digest(name, BLIND, group.key))


def _issue(check: str, text: str, severity: str, place: Place, known_by: str) -> dict[str, Any]:
    return {
        "description": visible(text),
        "check_name": check,
        "fingerprint": known_by,
        "severity": severity,
        "location": {"path": place.path, "lines": {"begin": place.line}},
    }

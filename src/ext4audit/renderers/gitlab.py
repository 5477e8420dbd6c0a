"""GitLab Code Quality: an array of issues, in the part of Code Climate's format that GitLab reads.

GitLab merges entries with the same fingerprint, so each finding has a unique one. GitLab has no
suppressions: an accepted finding is an issue of severity "info" whose text begins with the
reason. GitLab itself compares the report with that of the target branch, so baseline findings
are included unchanged: an omitted one would look fixed. A gap is an "info" issue as well. A
finding fixed since the baseline is an "info" issue with a different fingerprint, so that GitLab
still sees the original finding disappear.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ext4audit.finding import Severity
from ext4audit.renderers import (
    Audited,
    Page,
    in_force,
    json_text,
    visible,
)
from ext4audit.renderers.shared import suppression_text
from ext4audit.renderers.shared.rows import (
    GapGroup,
    Location,
    digest,
    fingerprints,
    gap_groups,
    location_of,
    location_of_subject,
    rows,
)
from ext4audit.report import PlanAdvice, PlanLine, Report

NOT_DETERMINED = "not-determined"
"""The check name of a gap; no rule has this name."""
IN_FORCE = {"policy": "The policy in force is {}.", "knowledge": "Newer data in force: {}."}
FIXED = "fixed"
PLAN = "plan"
_SEVERITIES: Mapping[Severity, str] = {
    Severity.CRITICAL: "blocker",
    Severity.HIGH: "critical",
    Severity.MEDIUM: "major",
    Severity.LOW: "minor",
    Severity.INFO: "info",
}


def render(hosts: Sequence[Audited], _page: Page) -> str:
    """Return the issues of all hosts; the text is ASCII."""
    return json_text(_issues(hosts))


def render_plan(report: Report, advice: PlanAdvice, _page: Page) -> str:
    """Return the issues of a plan's report, and one for each recommended command."""
    issues = _issues([Audited(report.source.label, report)])
    return json_text([*issues, *(_plan_line(line) for line in advice.lines)])


def _issues(hosts: Sequence[Audited]) -> list[dict[str, Any]]:
    issues: list[dict[str, Any]] = []
    for host in hosts:
        if host.report is not None:
            issues += _findings(host.name, host.report)
            issues += _fixed(host.name, host.report)
        issues += [_gap(host.name, group) for group in gap_groups(host)]
    return [*issues, *(_in_force(what, names) for what, names in in_force(hosts).items())]


def _plan_line(line: PlanLine) -> dict[str, Any]:
    location = location_of_subject("ext4audit", None, None)
    text = f"Command to use: {line.purpose}: {line.command}"
    return _issue(PLAN, text, "info", location, digest("", PLAN, line.key, line.command))


def _in_force(check: str, names: str) -> dict[str, Any]:
    """Return an issue that names the policy or data files; the format has no other place."""
    location = location_of_subject("ext4audit", None, None)
    text = IN_FORCE[check].format(names)
    return _issue(check, text, "info", location, digest("", check, names))


def _findings(name: str, report: Report) -> Iterator[dict[str, Any]]:
    found = rows(name, report)
    for row, fingerprint in zip(found, fingerprints(found), strict=True):
        subject = f"{row.rule.title}, {name}, {row.where}"
        text = f"{subject}: {row.finding.message}"
        accepted = row.finding.suppression
        reason = "" if accepted is None else f"[suppressed: {suppression_text(accepted)}] "
        severity = _SEVERITIES[row.finding.severity] if accepted is None else "info"
        yield _issue(row.rule.code, reason + text, severity, location_of(row, report), fingerprint)


def _fixed(name: str, report: Report) -> Iterator[dict[str, Any]]:
    for gone in report.fixed or ():
        text = f"[fixed] {gone.rule}, {name}, {gone.subject}: {gone.message}"
        fingerprint = digest(name, FIXED, gone.rule, gone.subject, gone.fact)
        location = location_of_subject(name, None, None)
        yield _issue(FIXED, text, "info", location, fingerprint)


def _gap(name: str, group: GapGroup) -> dict[str, Any]:
    location = location_of_subject(name, None, None)
    fingerprint = digest(name, NOT_DETERMINED, group.key)
    return _issue(NOT_DETERMINED, group.sentence, "info", location, fingerprint)


def _issue(
    check: str, text: str, severity: str, location: Location, fingerprint: str
) -> dict[str, Any]:
    return {
        "description": visible(text),
        "check_name": check,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": location.path, "lines": {"begin": location.line}},
    }

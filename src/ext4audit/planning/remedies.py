"""Remedies for a plan, where there is nothing to remount or to recreate."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.plan import Plan
from ext4audit.finding import Citation, Disruption, Finding, Remedy, Severity
from ext4audit.planning.changes import Change, Judge, improvements, weights_of
from ext4audit.records import replace
from ext4audit.report import Report, Verdict

ORIGIN = "the plan"


def with_plan_remedies(plan: Plan, report: Report, judge: Judge) -> Report:
    """Return the report with remedies that speak of the plan: nothing exists to be remounted.

    Each finding gets the single changes that were tried and cure it or make it milder.
    """
    cures = _cures(plan, report, judge, Severity.LOW)
    notes = _cures(plan, report, judge, Severity.INFO)

    def planned(verdict: Verdict) -> Verdict:
        code = verdict.rule.code
        changes = cures.get(code) or notes.get(code) or ()
        evidence = tuple(_cited(each) for each in verdict.evidence)
        findings = tuple(_planned(each, changes) for each in verdict.findings)
        return replace(verdict, findings=findings, evidence=evidence)

    return replace(report, verdicts=tuple(planned(each) for each in report.verdicts))


def _cures(
    plan: Plan, report: Report, judge: Judge, least: Severity
) -> dict[str, tuple[Change, ...]]:
    """Return the changes by the rules whose findings they take away or make milder.

    A cure of a finding may bring a note: without nodelalloc, a rename may wait again.
    """
    before = weights_of(report, least)
    found: dict[str, tuple[Change, ...]] = {}
    for change, judged in improvements(plan, report, judge, least):
        after = weights_of(judged, least)
        for code in before:
            if after.get(code, 0) < before[code]:
                found[code] = (*found.get(code, ()), change)
    return found


def _planned(finding: Finding, changes: Sequence[Change]) -> Finding:
    """Return a finding with the changes as its remedies, and what else is true of a plan.

    Steps are left out: they act on a device, a mount or a queue that is not there. A way that
    needs a remount or a new mkfs is what the changes say.
    """
    remedies = [Remedy(f"{each.summary}.", Disruption.ONLINE) for each in changes]
    if not any(each.remakes for each in changes):
        others = (each for each in finding.remedies if _holds(each, is_cured=bool(changes)))
        remedies += [replace(each, steps=()) for each in others]
    citations = tuple(_cited(each) for each in finding.citations)
    return replace(finding, remedies=tuple(remedies), citations=citations)


def _holds(remedy: Remedy, *, is_cured: bool) -> bool:
    """Whether a remedy for a running filesystem is one for a plan as well."""
    fits = remedy.disruption in {Disruption.ONLINE, Disruption.REBOOT}
    return fits and not (is_cured and remedy.steps)


def _cited(citation: Citation) -> Citation:
    """Return a citation whose origin is no file: nobody has read /proc or fstab for a plan."""
    return replace(citation, origin=ORIGIN) if citation.origin.startswith("/") else citation

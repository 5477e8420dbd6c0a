"""SAMPLE: pages of hosts for the formats of machines: clean, blind, unread, treated, hostile."""

from __future__ import annotations

from collections.abc import Callable

from builders import host, kernel, known
from ext4audit.finding import Finding, Severity, Suppression
from ext4audit.records import replace
from ext4audit.renderers.page import Audited, Page
from ext4audit.report import GoneFinding, Report, Verdict
from sample_reports import (
    barriers,
    boot,
    hotspot,
    md127,
    murky_report,
    night_report,
    old_kernel,
    renames,
    report,
    root,
)

PAGE = Page("0.1.0", "2026-01-02T03:04:05Z", seconds=1.25)
NIGHT = Audited("fleet/night", night_report())
CLEAN = Audited("fleet/clean", report(host(root(), name="web1"), barriers))
MURKY = Audited("fleet/murky", replace(murky_report(), host=replace(murky_report().host, name="m")))
UNREAD = Audited("fleet/bad.tar.gz", None, "fleet/bad.tar.gz: not a snapshot")
SUPPRESSION = Suppression("replaced in May", "storage team", "2026-05-31")
GONE = GoneFinding("CAP001", "/dev/sdz on /old", "", "Only 1 inode is left.")
NOTICE = "the suppression of DUR004 for '/x' expired on 2026-01-01"


def changed(of: Report, change: Callable[[Verdict, Finding], Finding]) -> Report:
    """Return the report with each finding changed."""
    verdicts = [
        replace(v, findings=tuple(change(v, finding) for finding in v.findings))
        for v in of.verdicts
    ]
    return replace(of, verdicts=tuple(verdicts))


def treated_report() -> Report:
    """Audit what has one finding suppressed, one known, one that counts, and one fixed since."""
    subjects = host(md127("/srv/a"), boot("renames"), name="db9", kernel=known(kernel()))

    def treat(verdict: Verdict, finding: Finding) -> Finding:
        if verdict.rule.code == "DUR001":
            return replace(finding, suppression=SUPPRESSION)
        return replace(finding, known=verdict.rule.code == "LAY001")

    judged = report(subjects, barriers, hotspot, renames, old_kernel)
    return replace(changed(judged, treat), fixed=(GONE,), notices=(NOTICE,))


def rated_report(severity: Severity) -> Report:
    """Audit a host whose one finding has this severity."""
    judged = report(host(name="r1"), old_kernel)
    return changed(judged, lambda _, finding: replace(finding, severity=severity))


TREATED = Audited("fleet/treated", treated_report())
FLEET = (NIGHT, CLEAN, MURKY, UNREAD, TREATED)

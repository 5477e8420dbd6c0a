"""The exit codes: of a report in any format, and of a Nagios plugin."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.finding import Severity
from ext4audit.report import Report

EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_INCOMPLETE = 3
NAGIOS_OK, NAGIOS_WARNING, NAGIOS_CRITICAL, NAGIOS_UNKNOWN = range(4)


def exit_code(report: Report, fail_on: Severity | None, *, allow_incomplete: bool) -> int:
    """Return the exit code for every format: 1 precedes 3, and 3 precedes 0.

    `fail_on` None means "never".
    """
    if fail_on is not None and any(f.severity.at_least(fail_on) for f in report.counted):
        return EXIT_FINDINGS
    if not report.complete and not allow_incomplete:
        return EXIT_INCOMPLETE
    return EXIT_CLEAN


def nagios_code(
    reports: Sequence[Report | None], fail_on: Severity | None, *, allow_incomplete: bool
) -> int:
    """Return the exit code of `-f nagios`: 1 for a finding that fails, 2 from severity high on.

    A gap is 3 (UNKNOWN), which never hides a finding (Monitoring Plugins Development
    Guidelines, "Plugin Return Codes"). None stands for a host without a report.
    """
    failing = [
        finding.severity
        for report in reports
        for finding in (report.counted if report else ())
        if fail_on is not None and finding.severity.at_least(fail_on)
    ]
    if any(severity.at_least(Severity.HIGH) for severity in failing):
        return NAGIOS_CRITICAL
    if failing:
        return NAGIOS_WARNING
    complete = all(report is not None and report.complete for report in reports)
    return NAGIOS_OK if complete or allow_incomplete else NAGIOS_UNKNOWN

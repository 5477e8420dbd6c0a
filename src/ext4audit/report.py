"""The report of an audit: its source, its host, and one verdict for each rule and subject.

The exit codes are computed here too: the usual ones, and those of a Nagios plugin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from ext4audit.evidence import CAPTURE_AGAIN, CaptureHint, Unknown, Why
from ext4audit.facts.host import AT_LEAST, Filesystem, Host
from ext4audit.finding import Citation, Finding, Severity
from ext4audit.rule import Rule


class Outcome(Enum):
    """The outcome of a verdict. PASS: all needed evidence is known, and nothing is wrong."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"
    UNDETERMINED = "undetermined"
    ERROR = "error"


class Verdict(NamedTuple):
    """The result of one rule for one subject.

    `filesystem_id` is None when the subject is the host. `unknowns` are those that stopped the
    rule, possibly after it yielded findings. `note` is the reason of a NOT_APPLICABLE or the
    traceback of an ERROR. `evidence` are the citations that justify a PASS.
    """

    rule: Rule
    filesystem_id: str | None
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    evidence: tuple[Citation, ...] = ()
    note: str | None = None

    @property
    def is_undetermined(self) -> bool:
        """Whether the rule did not run to its end, so that it may have missed findings."""
        outcome = self.outcome
        is_open = outcome is Outcome.UNDETERMINED or outcome is Outcome.ERROR
        return is_open or bool(self.unknowns)


class FixedFinding(NamedTuple):
    """A finding of a baseline that no longer occurs: rule code, label of the subject, fact.

    `superblock` is its key in the baseline (policy.baseline), empty for the host. The label is
    from the time of the baseline: its names may belong to another filesystem now.
    """

    rule: str
    subject: str
    fact: str
    message: str
    superblock: str = ""


class ReportSource(NamedTuple):
    """The kind of source of the evidence ("live", "snapshot", …) and its label for people.

    `key` is the operator's name for the host, empty if only the host's own name is known. `groups`
    are the host's groups in the inventory of a fleet run. `has_path` is false if the label is not
    a path that can be read again.
    """

    kind: str
    label: str
    key: str = ""
    groups: tuple[str, ...] = ()
    has_path: bool = True


ARCHIVES = frozenset({"sosreport", "insights", "supportconfig"})
"""The kinds of sources captured by other programs: no command can be run on their host."""


def as_captured(unknown: Unknown) -> Unknown:
    """Return an unknown from an archive with a hint that fits a capture.

    Hints of the archive readers name what to capture (`CaptureHint`) and are kept. Those of
    assembly and rules are for live hosts, such as "run as root", and are replaced.
    """
    fits = isinstance(unknown.hint, CaptureHint)
    needs_no_hint = not unknown.hint and unknown.why is not Why.NOT_CAPTURED
    return unknown if fits or needs_no_hint else replace(unknown, hint=CAPTURE_AGAIN)


class DataFile(NamedTuple):
    """A data file that is newer than the built-in data: its path, its table, and its date."""

    path: str
    table: str
    dated: str


class Report(NamedTuple):
    """The result of an audit, with one verdict for each selected rule and subject.

    `fixed` are the findings of the baseline that no longer occur, None without a baseline.
    `notices` report problems of the policy file: suppressions that expired or match nothing.
    `policy` is the path of that file, None if there is none. `knowledge` are the data files in
    force in addition to the built-in data. `options` are the command-line arguments that decide
    what is found and what counts.
    """

    source: ReportSource
    host: Host
    verdicts: tuple[Verdict, ...]
    fixed: tuple[FixedFinding, ...] | None = None
    notices: tuple[str, ...] = ()
    policy: str | None = None
    knowledge: tuple[DataFile, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The identity of the host in every format, independent of the other hosts of a run."""
        return self.source.key or self.host.name or self.source.label

    @property
    def complete(self) -> bool:
        """Whether no verdict lacks evidence, no rule raised an error, and the host has no gaps."""
        return not self.host.gaps and not any(v.is_undetermined for v in self.verdicts)

    def complete_for(self, fail_on: Severity | None) -> bool:
        """Whether no missing evidence could hide a finding of severity `fail_on` or worse.

        None ("never") requires all evidence. A gap of the host can hide a filesystem, and the
        declared worst severity of a rule that raised an error cannot be trusted.
        """
        if self.complete or fail_on is None or self.host.gaps:
            return self.complete
        return not any(
            v.outcome is Outcome.ERROR or (v.is_undetermined and self._reaches(v, fail_on))
            for v in self.verdicts
        )

    def _reaches(self, verdict: Verdict, fail_on: Severity) -> bool:
        """Whether the rule can have a finding of severity `fail_on` or worse, also by a profile."""
        code = verdict.rule.code
        rates = [dict(active.profile.rate).get(code) for active in self.host.profiles]
        raised = [Severity(rate.removeprefix(AT_LEAST)) for rate in rates if rate]
        return any(each.at_least(fail_on) for each in (verdict.rule.severity, *raised))

    @property
    def judged(self) -> Iterator[tuple[Verdict, Filesystem | None]]:
        """Each verdict with its filesystem, or None if its subject is the host."""
        by_id = {fs.id: fs for fs in self.host.filesystems}
        return ((v, by_id.get(v.filesystem_id or "")) for v in self.verdicts)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of all verdicts."""
        return tuple(finding for verdict in self.verdicts for finding in verdict.findings)

    @property
    def counted(self) -> tuple[Finding, ...]:
        """The findings that affect the exit code: neither suppressed nor in the baseline."""
        return tuple(finding for finding in self.findings if finding.counts)

    def failing(self, fail_on: Severity | None) -> tuple[Finding, ...]:
        """Return the counted findings of severity `fail_on` or worse; none for None ("never")."""
        return tuple(f for f in self.counted if fail_on and f.severity.at_least(fail_on))

    @property
    def suppressed(self) -> int:
        """The number of findings that the policy suppresses."""
        return sum(finding.suppression is not None for finding in self.findings)


def filesystems_by_fact(host: Host) -> dict[str, Filesystem]:
    """Return the filesystems by UUID and mount point, the facts that host findings may have."""
    named = ((fact, fs) for fs in host.filesystems for fact in (fs.uuid, *fs.mount_points))
    return {fact: fs for fact, fs in named if fact}


def subject_of(
    finding: Finding, fs: Filesystem | None, by_fact: Mapping[str, Filesystem]
) -> Filesystem | None:
    """Return the filesystem of a finding: `fs`, or the one that the fact of a host finding names.

    `by_fact` is the result of `filesystems_by_fact`. Returns None if there is no such filesystem.
    """
    return fs or (None if finding.device else by_fact.get(finding.fact))


class PlanLine(NamedTuple):
    """One shell command of a plan, with its key ("mkfs") and its purpose."""

    key: str
    purpose: str
    command: str


class PlanAdvice(NamedTuple):
    """The result of a plan besides verdicts: how it was predicted, and the commands to use.

    `basis` is "simulated" (made by the real mke2fs, in memory) or "computed" (by a closed form).
    `assumed` are sentences. `changes` turn the judged plan into the corrected plan that `lines`
    implement; `clean` means that this plan, judged by the same rules, has no finding of low
    severity or worse and nothing undetermined; `left` names what it still has.
    """

    basis: str
    assumed: tuple[str, ...]
    changes: tuple[str, ...]
    clean: bool
    left: tuple[str, ...]
    lines: tuple[PlanLine, ...]


EXIT_CLEAN = 0
EXIT_FINDINGS = 1
EXIT_INCOMPLETE = 3
NAGIOS_OK, NAGIOS_WARNING, NAGIOS_CRITICAL, NAGIOS_UNKNOWN = range(4)


def exit_code(report: Report, fail_on: Severity | None, *, allow_incomplete: bool) -> int:
    """Return the exit code for every format but Nagios: 1 for findings, 3 if incomplete, or 0.

    A `fail_on` of None means "never". Evidence that only rules below `fail_on` lack is ignored.
    """
    if report.failing(fail_on):
        return EXIT_FINDINGS
    if not allow_incomplete and not report.complete_for(fail_on):
        return EXIT_INCOMPLETE
    return EXIT_CLEAN


def nagios_code(
    reports: Sequence[Report | None], fail_on: Severity | None, *, allow_incomplete: bool
) -> int:
    """Return the exit code of `-f nagios`: 1 for failing findings, 2 if any is high or critical.

    Without failing findings, missing evidence gives 3 (UNKNOWN) (Monitoring Plugins Development
    Guidelines, "Plugin Return Codes"). None stands for a host without a report.
    """
    failing = [finding for report in reports if report for finding in report.failing(fail_on)]
    if any(finding.severity.at_least(Severity.HIGH) for finding in failing):
        return NAGIOS_CRITICAL
    if failing:
        return NAGIOS_WARNING
    complete = all(report is not None and report.complete_for(fail_on) for report in reports)
    return NAGIOS_OK if complete or allow_incomplete else NAGIOS_UNKNOWN

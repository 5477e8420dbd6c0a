"""A report grouped for rendering: its verdicts by subject, and its findings by cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule

OF_SITE_RULES = "ext4audit.policy.site_rules.SiteRuleError: "
"""Start of the last traceback line if a site's rules could not be loaded."""


class Subject(NamedTuple):
    """A filesystem, or the host (None), and the verdicts on it."""

    filesystem: Filesystem | None
    verdicts: tuple[Verdict, ...]

    @property
    def findings(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that count, with their rules, worst first, then by code."""
        return tuple(pair for pair in self._all if pair[1].counts)

    @property
    def set_aside(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings that do not count: suppressed, or in the baseline."""
        return tuple(pair for pair in self._all if not pair[1].counts)

    @property
    def _all(self) -> list[tuple[Rule, Finding]]:
        pairs = [
            (verdict.rule, finding) for verdict in self.verdicts for finding in verdict.findings
        ]
        return sorted(pairs, key=lambda pair: (pair[1].severity.rank, pair[0].code))

    @property
    def problems(self) -> tuple[tuple[Rule, Finding], ...]:
        """The findings above severity info."""
        return tuple(pair for pair in self.findings if pair[1].severity is not Severity.INFO)

    @property
    def undetermined(self) -> tuple[Verdict, ...]:
        """The verdicts that could not be determined, wholly or in part."""
        return tuple(each for each in self.verdicts if each.is_undetermined)

    @property
    def no_rule_applies(self) -> bool:
        """Whether every verdict is "not applicable"; true without verdicts."""
        return all(each.outcome is Outcome.NOT_APPLICABLE for each in self.verdicts)

    def with_outcome(self, outcome: Outcome) -> tuple[Verdict, ...]:
        """Return the verdicts with this outcome, by code."""
        chosen = [verdict for verdict in self.verdicts if verdict.outcome is outcome]
        return tuple(sorted(chosen, key=lambda verdict: verdict.rule.code))


def subjects(report: Report) -> tuple[Subject, ...]:
    """Return the subjects of the report, the one with the worst finding first.

    Subjects of equal severity keep the order of the filesystems, with the host last.
    """
    verdicts: dict[str | None, list[Verdict]] = {}
    for verdict in report.verdicts:
        verdicts.setdefault(verdict.filesystem_id, []).append(verdict)
    every: tuple[Filesystem | None, ...] = (*report.host.filesystems, None)
    made = [Subject(fs, tuple(verdicts.get(fs.id if fs else None, ()))) for fs in every]
    return tuple(sorted(made, key=_worst_rank))


def _worst_rank(subject: Subject) -> int:
    ranks = [finding.severity.rank for _, finding in subject.findings]
    return min(ranks, default=len(Severity))


def verdict_counts(report: Report) -> Counter[Outcome]:
    """Return the number of verdicts by outcome; partly determined ones count as undetermined.

    Their outcome is FAIL, for which a summary counts the findings instead.
    """
    return Counter(
        Outcome.UNDETERMINED
        if each.is_undetermined and each.outcome is not Outcome.ERROR
        else each.outcome
        for each in report.verdicts
    )


def traceback_lines(verdict: Verdict) -> list[str]:
    """Return the traceback of a rule that raised an exception, as at least one line."""
    *lines, last = (verdict.note or "no traceback").strip().split("\n")
    return [*lines, last.removeprefix(OF_SITE_RULES)]


def whose_error(rule: Rule) -> str:
    """Return a phrase that attributes a rule's exception to the site or to ext4audit."""
    return "an error in a rule of the site" if rule.is_of_site else "a bug in ext4audit"


class SetAside(NamedTuple):
    """The numbers of findings that do not count, and of those that are fixed since the baseline.

    `known` are in the baseline and not suppressed; `fixed` is None without a baseline.
    """

    suppressed: int = 0
    known: int = 0
    fixed: int | None = None

    def plus(self, other: SetAside) -> SetAside:
        """Return the sums of both."""
        fixed = [each.fixed for each in (self, other) if each.fixed is not None]
        return SetAside(
            self.suppressed + other.suppressed,
            self.known + other.known,
            sum(fixed) if fixed else None,
        )

    def texts(self) -> tuple[str, ...]:
        """Return a text for each number, those of the baseline only with one."""
        suppressed = [f"{self.suppressed} suppressed"] if self.suppressed else []
        if self.fixed is None:
            return tuple(suppressed)
        return (*suppressed, f"{self.known} in the baseline", f"{self.fixed} fixed")


def set_aside_of(report: Report) -> SetAside:
    """Return the numbers of a report."""
    known = sum(finding.known and finding.suppression is None for finding in report.findings)
    return SetAside(report.suppressed, known, None if report.fixed is None else len(report.fixed))


def is_shut_down(fs: Filesystem) -> bool:
    """Return whether the kernel refuses all writes, even if the state still reads as writable."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    return bool(options and (options.find("emergency_ro") or options.find("shutdown")))


def no_filesystem_text(report: Report, host: str) -> str:
    """Return why the report has no filesystem: there is none, or gaps may hide one."""
    if report.host.gaps:
        return f"No ext4 filesystem could be seen on {host}."
    return f"There is no ext4 filesystem on {host}: nothing to audit."


class Found(NamedTuple):
    """One finding and its subject; `filesystem` is None for the host."""

    filesystem: Filesystem | None
    finding: Finding


class Cause(NamedTuple):
    """The findings of one rule with the same severity, confidence and short text.

    They either all count, or are all set aside for the same reason.
    """

    rule: Rule
    found: tuple[Found, ...]

    @property
    def first(self) -> Finding:
        """The finding on the first subject."""
        return self.found[0].finding

    @property
    def messages(self) -> tuple[str, ...]:
        """The distinct messages of the findings."""
        return tuple(dict.fromkeys(finding.message for _, finding in self.found))

    @property
    def filesystems(self) -> tuple[Filesystem | None, ...]:
        """The distinct subjects; None is the host."""
        by_id = {fs.id if fs else None: fs for fs, _ in self.found}
        return tuple(by_id.values())


def causes(report: Report) -> tuple[Cause, ...]:
    """Return the findings that count, grouped by cause, worst first, then by code."""
    return _grouped((each, *pair) for each in subjects(report) for pair in each.findings)


def causes_set_aside(report: Report) -> tuple[Cause, ...]:
    """Return the findings that the policy or a baseline sets aside, grouped by cause."""
    return _grouped((each, *pair) for each in subjects(report) for pair in each.set_aside)


def key_of_cause(rule: Rule, finding: Finding) -> object:
    """Return a hashable key that is equal for findings with the same cause."""
    text = (finding.severity, finding.confidence, finding.short)
    return rule.code, *text, finding.suppression, finding.known


def _grouped(found: Iterable[tuple[Subject, Rule, Finding]]) -> tuple[Cause, ...]:
    groups: dict[object, tuple[Rule, list[Found]]] = {}
    for subject, rule, finding in found:
        _, same = groups.setdefault(key_of_cause(rule, finding), (rule, []))
        same.append(Found(subject.filesystem, finding))
    made = (Cause(rule, tuple(same)) for rule, same in groups.values())
    return tuple(sorted(made, key=lambda each: (each.first.severity.rank, each.rule.code)))

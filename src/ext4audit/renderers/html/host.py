"""The section of one host in the HTML report: banner, facts, findings, and each subject."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import UNDATED, Known, Unknown, for_wording
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity, few, listed
from ext4audit.renderers import Page, in_force_of
from ext4audit.renderers.html.filesystem import (
    FilesystemLine,
    FilesystemPart,
    filesystem_line,
    filesystem_part,
)
from ext4audit.renderers.html.finding import (
    Badge,
    FindingPart,
    FindingParts,
    FindingStyle,
    Place,
)
from ext4audit.renderers.shared import OUTCOME_TEXT, counted
from ext4audit.renderers.shared.rows import INCOMPLETE, completeness, where
from ext4audit.renderers.shared.subjects import (
    Cause,
    Subject,
    causes,
    causes_set_aside,
    no_filesystem_text,
    set_aside_of,
    subjects,
    traceback_lines,
    verdict_counts,
    whose_error,
)
from ext4audit.report import EXIT_FINDINGS, FixedFinding, Outcome, Report, Verdict, exit_code
from ext4audit.rule import Rule


class HostSection(NamedTuple):
    """One host; `anchor` is the target of links to it.

    `no_filesystem` is why there is no filesystem, and empty if there is one.
    `fixed` has the baseline findings that are fixed, or is None without a baseline.
    `brief` is true for one of many hosts.
    """

    anchor: str
    banner: Badge
    facts: tuple[tuple[str, str], ...]
    findings: tuple[FindingPart, ...]
    set_aside: tuple[FindingPart, ...]
    no_filesystem: str
    gaps: tuple[UnknownRow, ...]
    subjects: tuple[SubjectSection, ...]
    fixed: tuple[FixedFinding, ...] | None
    notices: tuple[str, ...]
    brief: bool


def host_section(report: Report, page: Page, anchor: str, *, brief: bool = False) -> HostSection:
    """Return the section of one host; `brief` is true for one of many hosts."""
    every = [each for each in subjects(report) if each.filesystem or each.verdicts]
    anchors = [f"{anchor}:{number}" for number, _ in enumerate(every, 1)]
    parts = FindingParts(_style(page, [*zip(every, anchors, strict=True)], brief=brief))
    found = causes(report)
    findings = parts.of(found, f"{anchor}:f")
    entries = _entries(found, findings)
    return HostSection(
        anchor=anchor,
        banner=_banner(report, page),
        facts=tuple(_facts(report)),
        findings=findings,
        set_aside=parts.of(causes_set_aside(report), f"{anchor}:a"),
        no_filesystem=("" if report.host.filesystems else no_filesystem_text(report, "this host")),
        gaps=tuple(UnknownRow(gap, "") for gap in dict.fromkeys(report.host.gaps)),
        subjects=tuple(
            subject_section(each, name, entries.get(_id(each), ()), brief=brief)
            for each, name in zip(every, anchors, strict=True)
        ),
        fixed=report.fixed,
        notices=report.notices,
        brief=brief,
    )


def _style(page: Page, named: Sequence[tuple[Subject, str]], *, brief: bool) -> FindingStyle:
    """Return the style of a host's entries; threshold "never" folds like the default threshold."""
    places = {_id(each): Place(where(each.filesystem), anchor) for each, anchor in named}
    return FindingStyle(page.threshold or Severity.MEDIUM, brief, places)


def _id(subject: Subject) -> str | None:
    return subject.filesystem.id if subject.filesystem else None


def _entries(
    found: Sequence[Cause], parts: Sequence[FindingPart]
) -> dict[str | None, tuple[Place, ...]]:
    """Return links to the findings of each subject, by filesystem id."""
    entries: dict[str | None, tuple[Place, ...]] = {}
    for cause, part in zip(found, parts, strict=True):
        for fs in cause.filesystems:
            key = fs.id if fs else None
            entries[key] = (*entries.get(key, ()), Place(part.rule.code, part.anchor))
    return entries


def finding_chips(report: Report, page: Page) -> tuple[Badge, ...]:
    """Return the number of active findings by severity, and whether the audit is complete."""
    badges = list(severity_chips(Counter(finding.severity for finding in report.counted)))
    is_complete = completeness(report, page.threshold) != INCOMPLETE
    if not badges and is_complete:
        badges = [Badge("no findings", "fine")]
    badges += aside_chips((report,))
    return (*badges, *(() if is_complete else (Badge(INCOMPLETE, "open"),)))


def severity_chips(found: Mapping[Severity, int]) -> Iterator[Badge]:
    """Yield the number of findings of each severity that occurs, worst first."""
    for severity in Severity:
        if found.get(severity):
            yield Badge(f"{found[severity]} {severity.value}", severity.value)


def aside_chips(reports: Iterable[Report]) -> Iterator[Badge]:
    """Yield the numbers of findings that do not count, by reason."""
    for number, state in _aside(reports):
        yield Badge(f"{number} {state}", "info")


def _aside(reports: Iterable[Report]) -> Iterator[tuple[int, str]]:
    found = [set_aside_of(report) for report in reports]
    numbers = (
        (sum(each.suppressed for each in found), "suppressed"),
        (sum(each.known for each in found), "in the baseline"),
    )
    yield from ((number, state) for number, state in numbers if number)


def _banner(report: Report, page: Page) -> Badge:
    """Return the meaning of the exit code, which `exit_code` determines for every format."""
    code = exit_code(report, page.threshold, allow_incomplete=page.allow_incomplete)
    worse = f"findings {worse_findings(page)}"
    if code == EXIT_FINDINGS:
        failing = counted(len(report.failing(page.threshold)), "finding")
        return Badge(f"Failed: {failing} {worse_findings(page)}.", "critical")
    if not report.complete_for(page.threshold):
        return Badge(f"Incomplete: no {worse}, but some evidence is missing.", "open")
    if page.threshold is None:
        return Badge("Complete. No severity fails this audit.", "info")
    if not report.complete:
        return Badge(f"Passed: no {worse}. Only milder rules lack evidence.", "fine")
    return Badge(f"Passed: complete, and no {worse}.", "fine")


def worse_findings(page: Page) -> str:
    """Return a phrase for the findings that fail the audit: "at medium or worse"."""
    return f"at {page.threshold.value} or worse" if page.threshold else "that fail the audit"


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield names and values of facts about the host; one with an empty value is not shown."""
    host = report.host
    if report.source.kind == "plan":
        yield "Plan", f"{report.source.label}: does not exist yet, audited as planned"
    else:
        yield "Image" if report.source.kind == "image" else "Host", report.key
        yield "Host name", host.name if host.name != report.key else ""
    if isinstance(host.os, Known):
        yield "System", host.os.value.pretty_name or host.os.value.id
    kernel = host.kernel.value.release if isinstance(host.kernel, Known) else "not known"
    yield "Kernel", kernel
    yield "Virtualization", for_wording(host.virtualization, None) or ""
    yield "Container", for_wording(host.container, None) or ""
    dated = "undated" if host.taken_at == UNDATED else f"taken at {host.taken_at}"
    source = f"{report.source.kind} ({report.source.label}), {dated}"
    yield "Evidence", source
    profiles = (f"{each.profile.name} on {each.place or '*'}" for each in host.profiles)
    yield "Profiles", ", ".join(profiles)
    for what, names in in_force_of(report.policy, report.knowledge).items():
        yield what.capitalize(), names
    yield "Verdicts", _verdicts(report)


def _verdicts(report: Report) -> str:
    outcomes = verdict_counts(report)
    parts = [f"{outcomes[each]} {text}" for each, text in OUTCOME_TEXT.items() if outcomes[each]]
    parts += [f"{counted(number, 'finding')} {state}" for number, state in _aside((report,))]
    return ", ".join(parts)


class NothingFound(NamedTuple):
    """Why a subject has no findings: a badge and a sentence."""

    badge: Badge
    sentence: str


class UnknownRow(NamedTuple):
    """An unknown, and the codes of the rules that need it."""

    unknown: Unknown
    needed_by: str


class BrokenRule(NamedTuple):
    """A rule that raised an exception: the error, the traceback, and who is responsible."""

    rule: Rule
    error: str
    traceback: tuple[str, ...]
    whose: str


class Undetermined(NamedTuple):
    """Undetermined verdicts: their number, the unknowns, and the rules that raised exceptions."""

    number: int
    unknowns: tuple[UnknownRow, ...]
    broken: tuple[BrokenRule, ...]


class SubjectSection(NamedTuple):
    """One subject of rules; `filesystem` is None for the host itself, and in a fleet.

    `line` is the filesystem in one line, for a fleet. `entries` has links to its findings.
    `nothing_found` is set if there are none, `undetermined` if a verdict could not be determined.
    `passed` and `not_applicable` are empty in a fleet.
    """

    anchor: str
    name: str
    worst: Badge
    entries: tuple[Place, ...]
    filesystem: FilesystemPart | None
    line: FilesystemLine | None
    nothing_found: NothingFound | None
    undetermined: Undetermined | None
    passed: tuple[Verdict, ...]
    not_applicable: tuple[Verdict, ...]


def subject_section(
    subject: Subject, anchor: str, entries: Sequence[Place], *, brief: bool
) -> SubjectSection:
    """Return the section of a subject; `brief` is true for one of many hosts."""
    fs = subject.filesystem
    return SubjectSection(
        anchor=anchor,
        name=subject_name(fs),
        worst=_worst_badge(subject),
        entries=tuple(entries),
        filesystem=None if fs is None or brief else filesystem_part(fs),
        line=filesystem_line(fs) if fs is not None and brief else None,
        nothing_found=None if subject.findings else _nothing_found(subject),
        undetermined=_undetermined(subject) if subject.undetermined else None,
        passed=() if brief else subject.with_outcome(Outcome.PASS),
        not_applicable=() if brief else subject.with_outcome(Outcome.NOT_APPLICABLE),
    )


def subject_name(fs: Filesystem | None) -> str:
    """Return the name of a subject: its device and mount points, or "The host itself"."""
    if fs is None:
        return "The host itself"
    where = f" on {few(fs.mount_points)}" if fs.mount_points else ""
    return f"{fs.device}{where}"


def _worst_badge(subject: Subject) -> Badge:
    """Return a badge for the worst finding; a subject with gaps is never shown as fine."""
    if subject.problems:
        return _severity_badge(subject.problems[0][1].severity)
    if subject.undetermined:
        return Badge("INCOMPLETE", "open")
    if subject.findings:  # only of severity info
        return _severity_badge(Severity.INFO)
    if subject.set_aside:
        return Badge("SET ASIDE", "info")
    passed = subject.with_outcome(Outcome.PASS)
    return Badge("OK", "fine") if passed else Badge("NOT JUDGED", "info")


def _severity_badge(severity: Severity) -> Badge:
    return Badge(severity.value.upper(), severity.value)


def _nothing_found(subject: Subject) -> NothingFound:
    """Return why there are no findings, which is fine only if every rule was determined."""
    if subject.no_rule_applies:
        return NothingFound(Badge("NOT JUDGED", "info"), "No rule applies.")
    if subject.undetermined:
        sentence = (
            f"No findings, but {counted(len(subject.undetermined), 'rule')} could not be judged."
        )
        return NothingFound(Badge("INCOMPLETE", "open"), sentence)
    if subject.set_aside:
        sentence = "All findings are suppressed or in the baseline."
        return NothingFound(Badge("SET ASIDE", "info"), sentence)
    return NothingFound(Badge("NO FINDINGS", "fine"), "All rules that apply passed.")


def _undetermined(subject: Subject) -> Undetermined:
    broken = subject.with_outcome(Outcome.ERROR)
    return Undetermined(
        number=len(subject.undetermined),
        unknowns=_unknown_rows(subject.undetermined),
        broken=tuple(_broken(verdict) for verdict in broken),
    )


def _unknown_rows(verdicts: Sequence[Verdict]) -> tuple[UnknownRow, ...]:
    """Return the distinct unknowns, each with the codes of the rules that need it."""
    codes: dict[Unknown, dict[str, None]] = {}
    for verdict in verdicts:
        for unknown in verdict.unknowns:
            codes.setdefault(unknown, {})[verdict.rule.code] = None
    return tuple(UnknownRow(unknown, listed(sorted(need))) for unknown, need in codes.items())


def _broken(verdict: Verdict) -> BrokenRule:
    lines = traceback_lines(verdict)
    traceback = tuple(line for line in lines if line)
    return BrokenRule(verdict.rule, lines[-1], traceback, whose_error(verdict.rule))

"""The section of one host in the HTML report, from the banner to its subjects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Known, for_wording
from ext4audit.finding import Severity
from ext4audit.renderers import Page, data_files
from ext4audit.renderers.html.finding import (
    Badge,
    FindingPart,
    FindingParts,
    FindingStyle,
    Place,
)
from ext4audit.renderers.html.subject import SubjectSection, UnknownRow, subject_section
from ext4audit.renderers.shared.causes import Cause, causes, causes_set_aside
from ext4audit.renderers.shared.rows import INCOMPLETE, completeness, where
from ext4audit.renderers.shared.subjects import (
    Subject,
    known_count,
    no_filesystem_text,
    subjects,
    verdict_counts,
)
from ext4audit.renderers.shared.terms import OUTCOME_TEXT, counted
from ext4audit.report import EXIT_FINDINGS, FixedFinding, Report, exit_code


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and its value; a fact without a value is not shown."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class HostSection:
    """One host; `anchor` is the target of links to it.

    `no_filesystem` is why there is no filesystem below, and empty where there is one.
    `fixed` are the findings of the baseline that are fixed, None without a baseline.
    `brief` is set for one of many hosts.
    """

    anchor: str
    banner: Badge
    facts: tuple[Fact, ...]
    findings: tuple[FindingPart, ...]
    set_aside: tuple[FindingPart, ...]
    no_filesystem: str
    gaps: tuple[UnknownRow, ...]
    subjects: tuple[SubjectSection, ...]
    fixed: tuple[FixedFinding, ...] | None
    notices: tuple[str, ...]
    brief: bool


def host_section(report: Report, page: Page, anchor: str, *, brief: bool = False) -> HostSection:
    """Return the section of one host; `brief` is for one of many hosts."""
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
    """Return how the entries are made; "never" folds like the default threshold."""
    places = {_id(each): Place(where(each.filesystem), anchor) for each, anchor in named}
    return FindingStyle(page.threshold or Severity.MEDIUM, brief, places)


def _id(subject: Subject) -> str | None:
    return subject.filesystem.id if subject.filesystem else None


def _entries(
    found: Sequence[Cause], parts: Sequence[FindingPart]
) -> dict[str | None, tuple[Place, ...]]:
    """Return the entries of each subject by the id of the filesystem."""
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
    badges += [Badge(f"{number} {state}", "info") for number, state in _aside(report) if number]
    return (*badges, *(() if is_complete else (Badge(INCOMPLETE, "open"),)))


def severity_chips(found: Mapping[Severity, int]) -> Iterator[Badge]:
    """Yield the number of findings of each severity that has some, worst first."""
    for severity in Severity:
        if found.get(severity):
            yield Badge(f"{found[severity]} {severity.value}", severity.value)


def _aside(report: Report) -> tuple[tuple[int, str], ...]:
    """Return the number of findings that do not count, by reason."""
    return (report.suppressed, "suppressed"), (known_count(report), "in the baseline")


def _banner(report: Report, page: Page) -> Badge:
    """Return the meaning of the exit code, which one function decides for every format."""
    code = exit_code(report, page.threshold, allow_incomplete=page.allow_incomplete)
    worse = f"findings {worse_findings(page)}"
    if code == EXIT_FINDINGS:
        failing = _failing(report, page)
        return Badge(f"Failed: {counted(failing, 'finding')} {worse_findings(page)}.", "critical")
    if not report.complete_for(page.threshold):
        return Badge(f"Incomplete: no {worse}, but some evidence is missing.", "open")
    if page.threshold is None:
        return Badge("Complete. No severity fails this audit.", "info")
    if not report.complete:
        return Badge(f"Passed: no {worse}. Only milder rules lack evidence.", "fine")
    return Badge(f"Passed: complete, and no {worse}.", "fine")


def worse_findings(page: Page) -> str:
    """Return which findings fail the audit: "at medium or worse"."""
    return f"at {page.threshold.value} or worse" if page.threshold else "that fail the audit"


def _failing(report: Report, page: Page) -> int:
    worst = page.threshold
    return sum(worst is not None and each.severity.at_least(worst) for each in report.counted)


def _facts(report: Report) -> Iterator[Fact]:
    host = report.host
    if report.source.kind == "plan":
        yield Fact("Plan", f"{report.source.label}: does not exist yet, audited as planned")
    else:
        yield Fact("Image" if report.source.kind == "image" else "Host", report.key)
        yield Fact("Host name", host.name if host.name != report.key else "")
    if isinstance(host.os, Known):
        yield Fact("System", host.os.value.pretty_name or host.os.value.id)
    kernel = host.kernel.value.release if isinstance(host.kernel, Known) else "not known"
    yield Fact("Kernel", kernel)
    yield Fact("Virtualization", for_wording(host.virtualization, None) or "")
    yield Fact("Container", for_wording(host.container, None) or "")
    source = f"{report.source.kind} ({report.source.label}), taken at {host.taken_at}"
    yield Fact("Evidence", source)
    profiles = (f"{each.profile.name} on {each.place or '*'}" for each in host.profiles)
    yield Fact("Profiles", ", ".join(profiles))
    yield Fact("Policy", report.policy or "")
    yield Fact("Knowledge", data_files(report.knowledge))
    yield Fact("Verdicts", _verdicts(report))


def _verdicts(report: Report) -> str:
    outcomes = verdict_counts(report)
    parts = [f"{outcomes[each]} {text}" for each, text in OUTCOME_TEXT.items() if outcomes[each]]
    parts += [f"{counted(number, 'finding')} {state}" for number, state in _aside(report) if number]
    return ", ".join(parts)

"""The HTML report: the section of one host, with its filesystems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known, Unknown
from ext4audit.finding import Severity
from ext4audit.policy.exit_codes import EXIT_FINDINGS, exit_code
from ext4audit.renderers.html_filesystem import subject_name, subject_part, worst_badge
from ext4audit.renderers.html_markup import NEWLINE, NOTHING, Html, lines, tag
from ext4audit.renderers.html_parts import badge, chips, facts, fold
from ext4audit.renderers.html_verdicts import holes_table
from ext4audit.renderers.shared.page import Page
from ext4audit.renderers.shared.subjects import Subject, subjects
from ext4audit.renderers.shared.words import counted
from ext4audit.report import Outcome, Report

_OUTCOMES = (
    (Outcome.PASS, "passed"),
    (Outcome.NOT_APPLICABLE, "not applicable"),
    (Outcome.UNDETERMINED, "undetermined"),
    (Outcome.ERROR, "stopped with an error"),
)


def host_part(report: Report, page: Page, anchor: str) -> Html:
    """Return all that is known of one host; `anchor` is what links to it point to."""
    every = tuple(each for each in subjects(report) if each.filesystem or each.verdicts)
    sections = (
        subject_part(each, f"{anchor}-{number}") for number, each in enumerate(every, start=1)
    )
    inside = (*_head(report, page), _contents(every, anchor), *_gaps(report), *sections)
    return tag("div", NEWLINE, lines((*inside, *_policy(report))), id=anchor)


def finding_chips(report: Report) -> Html:
    """Return how many findings count, by severity, and whether the audit is complete."""
    found = Counter(finding.severity for finding in report.counted)
    made = [
        badge(f"{found[severity]} {severity.value}", severity.value)
        for severity in Severity
        if found[severity]
    ]
    if not made and report.complete:
        made = [badge("no findings", "fine")]
    made += [badge(f"{number} {state}", "info") for number, state in _aside(report) if number]
    return chips([*made, *([] if report.complete else [badge("incomplete", "open")])])


def _head(report: Report, page: Page) -> Iterator[Html]:
    yield _banner(report, page)
    yield facts(_facts(report))
    if not report.host.filesystems:
        yield tag("p", _no_filesystems(report))


def _banner(report: Report, page: Page) -> Html:
    """Say what the exit code says: one function decides for every format."""
    code = exit_code(report, page.threshold, allow_incomplete=page.allow_incomplete)
    worse = f"findings {_threshold(page)}"
    if code == EXIT_FINDINGS:
        return tag("p", f"Failed: there are {worse}.", class_="banner critical")
    if not report.complete:
        words = f"Incomplete: no {worse}, but not everything could be seen."
        return tag("p", words, class_="banner open")
    if page.threshold is None:
        return tag("p", "Complete. No severity fails this audit.", class_="banner info")
    return tag("p", f"Passed: complete, and no {worse}.", class_="banner fine")


def _threshold(page: Page) -> str:
    return f"at {page.threshold.value} or worse" if page.threshold else "that fail the audit"


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    host = report.host
    if report.source.kind == "plan":
        yield "Plan", f"{report.source.label}: judged as if it ran, nothing of it exists yet"
    else:
        yield ("Image" if report.source.kind == "image" else "Host"), host.name
    if isinstance(host.os, Known):
        yield "System", host.os.value.pretty_name or host.os.value.id
    yield "Kernel", host.kernel.value.release if isinstance(host.kernel, Known) else "not known"
    yield "Virtualization", host.virtualization or ""
    yield "Container", host.container or ""
    yield "Evidence", f"{report.source.kind} ({report.source.label}), taken at {host.taken_at}"
    yield "Profiles", ", ".join(f"{p.profile.name} on {p.place or '*'}" for p in host.profiles)
    yield "Verdicts", _verdicts(report)


def _verdicts(report: Report) -> str:
    outcomes = Counter(verdict.outcome for verdict in report.verdicts)
    words = [f"{outcomes[outcome]} {said}" for outcome, said in _OUTCOMES if outcomes[outcome]]
    words += [f"{counted(number, 'finding')} {state}" for number, state in _aside(report) if number]
    return ", ".join(words)


def _aside(report: Report) -> tuple[tuple[int, str], ...]:
    """Count the findings that do not count, by why."""
    known = sum(finding.known and finding.suppression is None for finding in report.findings)
    return (report.suppressed, "suppressed"), (known, "in the baseline")


def _no_filesystems(report: Report) -> str:
    """Say that there is no ext4; with gaps, that none could be seen, which is not the same."""
    if report.host.gaps:
        return "No ext4 filesystem could be seen on this host."
    return "There is no ext4 filesystem on this host: nothing to audit."


def _contents(every: Sequence[Subject], anchor: str) -> Html:
    """Return links to the subjects, each with the worst that was found there."""
    links = [
        tag("li", worst_badge(each), " ", tag("a", subject_name(each), href=f"#{anchor}-{number}"))
        for number, each in enumerate(every, start=1)
    ]
    if len(links) <= 1:
        return NOTHING
    return tag("nav", tag("ul", NEWLINE, lines(links), class_="contents"), aria_label="Subjects")


def _gaps(report: Report) -> Iterator[Html]:
    """Yield what could not be seen of the host as a whole."""
    holes: dict[Unknown, dict[str, None]] = {gap: {} for gap in report.host.gaps}
    if holes:
        yield tag(
            "h3", badge("?", "open"), f" {counted(len(holes), 'gap')} in the view of the host"
        )
        yield tag("p", "What lies behind a gap was not audited.")
        yield holes_table(holes)


def _policy(report: Report) -> Iterator[Html]:
    """Yield what is fixed since the baseline, and what the policy file must be told of."""
    if report.fixed is not None:
        fixed = [f"{each.rule} on {each.subject}: {each.message}" for each in report.fixed]
        items = tag("ul", *(tag("li", words) for words in fixed)) if fixed else NOTHING
        summary = f"{counted(len(fixed), 'finding')} of the baseline fixed"
        yield fold(summary, items, shown=bool(fixed), printed=True)
    if report.notices:
        notices = (tag("li", f"{notice}.") for notice in report.notices)
        yield fold("Notices on the policy file", tag("ul", *notices), shown=True, printed=True)

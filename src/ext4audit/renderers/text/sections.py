"""The sections of the text format: subjects, their findings and remedies, and the gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Finding, Remedy
from ext4audit.renderers.shared.commands import phases
from ext4audit.renderers.shared.subjects import Subject, is_shut_down, traceback_lines
from ext4audit.renderers.shared.terms import (
    PHASE_TEXT,
    counted,
    disruption_text,
    doubt_text,
    held_text,
    listed,
    remedy_label,
    stack_text,
    type_text,
    why_text,
)
from ext4audit.renderers.text.blocks import (
    DIFF_STYLES,
    NOT_APPLICABLE_MARKER,
    SEVERITY_STYLES,
    STEP,
    UNKNOWN_MARKER,
    Blank,
    Blocks,
    Look,
    Prose,
    Span,
    Table,
    Verbatim,
)
from ext4audit.report import Outcome, Report, Verdict
from ext4audit.rule import Rule

_MOUNT_POINTS_SHOWN = 3
_NAMES_SHOWN = 3
_HOST = "the host"


def subject_blocks(subject: Subject, host: Host, look: Look) -> Blocks:
    """Yield a subject: one line without problems, a section with them."""
    if subject.problems or (look.verbose and subject.verdicts):
        yield from _section(subject, host, look)
    elif subject.filesystem is not None or subject.notes:
        found = Span(f"; {_found(subject)}")
        title = (*_subject_title(subject, host, look), found, _undetermined(subject))
        yield Prose(title, 0, _marker(subject, look))


def _section(subject: Subject, host: Host, look: Look) -> Blocks:
    title = (*_subject_title(subject, host, look), _undetermined(subject))
    yield Prose(title, 0, _marker(subject, look))
    for rule, finding in subject.findings if look.verbose else subject.problems:
        yield Blank()
        yield from finding_blocks(rule, finding, look, STEP)
    if subject.notes and not look.verbose:
        yield Blank()
        yield from (note_block(rule, finding, look, STEP) for rule, finding in subject.notes)
    if look.verbose:
        yield from (set_aside_block(rule, f, STEP) for rule, f in subject.set_aside)
        yield from _judged(subject, look)


def _marker(subject: Subject, look: Look) -> Span:
    """Return the marker of the worst finding; a gap never has the marker of a pass."""
    if subject.problems:
        return look.severity_marker(subject.problems[0][1].severity)
    return UNKNOWN_MARKER if subject.undetermined else look.fine_marker()


def _subject_title(subject: Subject, host: Host, look: Look) -> tuple[Span, ...]:
    if subject.filesystem is None:
        return (Span(f"host {host.name}", "bold"), Span(_host_facts(host)))
    fs = subject.filesystem
    limit = None if look.verbose else _MOUNT_POINTS_SHOWN
    where = f" on {listed(fs.mount_points, limit)}" if fs.mount_points else ""
    return (Span(fs.device, "bold"), Span(where, "bold"), Span(f": {_filesystem_facts(fs)}"))


def _filesystem_facts(fs: Filesystem) -> str:
    facts = [type_text(fs), stack_text(fs)]
    if is_shut_down(fs):
        facts.append("shut down after an error: it refuses all writes")
    elif for_wording(fs.read_only, default=False):
        facts.append("read-only")
    if not fs.alive:
        facts.append("not mounted")
    elif not fs.mounts:
        facts.append(
            "where it is mounted is not known"
            if fs.unlisted
            else f"not mounted here ({held_text(fs)})"
        )
    return ", ".join(facts)


def _host_facts(host: Host) -> str:
    facts = []
    if isinstance(host.os, Known):
        facts.append(host.os.value.pretty_name or host.os.value.id)
    if isinstance(host.kernel, Known):
        facts.append(f"Linux {host.kernel.value.release}")
    kinds = (for_wording(kind, None) for kind in (host.virtualization, host.container))
    shown = [fact for fact in (*facts, *kinds) if fact]
    return f": {', '.join(shown)}" if shown else ""


def _found(subject: Subject) -> str:
    """Return what was found on a subject without problems."""
    codes = [rule.code for rule, _ in subject.notes]
    if subject.verdicts and subject.no_rule_applies:
        # "No findings" would read as a pass, but no rule has judged anything.
        return "no rule applies (-v shows why)"
    if not codes:
        return "no findings"
    pronoun = "it" if len(codes) == 1 else "them"
    return f"{counted(len(codes), 'note')}: {listed(sorted(set(codes)))} (-v shows {pronoun})"


def _undetermined(subject: Subject) -> Span:
    """Return how many rules could not be determined, wholly or in part."""
    text = f"; {counted(len(subject.undetermined), 'rule')} not determined"
    return Span(text if subject.undetermined else "", "magenta")


def _judged(subject: Subject, look: Look) -> Blocks:
    """Yield the rules that passed with their evidence, and those that do not apply with why."""
    passed = subject.with_outcome(Outcome.PASS)
    not_applicable = subject.with_outcome(Outcome.NOT_APPLICABLE)
    if passed or not_applicable:
        yield Blank()
    for verdict in passed:
        yield Prose((Span(f"passed {_named(verdict)}"),), STEP, look.fine_marker())
        if verdict.evidence:
            yield Table(verdict.evidence, 3 * STEP)
    for verdict in not_applicable:
        reason = f"does not apply: {_named(verdict)}, {verdict.note}"
        yield Prose((Span(reason, "dim"),), STEP, NOT_APPLICABLE_MARKER)


def _named(verdict: Verdict) -> str:
    return f"{verdict.rule.code} {verdict.rule.name}"


def finding_blocks(rule: Rule, finding: Finding, look: Look, indent: int) -> Blocks:
    """Yield a finding: the rule, the consequence, the evidence, and each remedy."""
    yield Prose((*_finding_title(rule, finding),), indent, look.severity_marker(finding.severity))
    yield Prose((Span(finding.message),), indent + STEP)
    if finding.citations:
        yield Blank()
        yield Table(finding.citations, indent + 2 * STEP)
    for index, remedy in enumerate(finding.remedies):
        yield Blank()
        yield from _remedy(remedy, remedy_label(index), indent + STEP)


def note_block(rule: Rule, finding: Finding, look: Look, indent: int) -> Prose:
    """Return a finding of severity info in one line."""
    spans = (*_finding_title(rule, finding), Span(f": {finding.message}"))
    return Prose(spans, indent, look.severity_marker(finding.severity))


def set_aside_block(rule: Rule, finding: Finding, indent: int) -> Prose:
    """Return a finding that does not count, and why, in one line."""
    why = "in the baseline"
    if finding.suppression is not None:
        why = f"suppressed: {finding.suppression.reason}"
    text = f"{finding.severity.value.upper()}  {rule.code} {rule.name} ({why}): {finding.message}"
    return Prose((Span(text, "dim"),), indent)


def _finding_title(rule: Rule, finding: Finding) -> tuple[Span, ...]:
    return (
        Span(finding.severity.value.upper(), SEVERITY_STYLES[finding.severity]),
        Span("  "),
        Span(rule.code, "bold"),
        Span(f" {rule.name}"),
        Span(doubt_text(finding)),
    )


def _remedy(remedy: Remedy, label: str, indent: int) -> Blocks:
    """Yield a remedy with its steps in order, because a later one may depend on an earlier one."""
    style = "bold red" if remedy.destructive else "bold"
    title = Span(f"{label} ({disruption_text(remedy)}): ", style)
    yield Prose((title, Span(remedy.summary)), indent)
    for part in phases(remedy):
        yield Prose((Span(f"{PHASE_TEXT[part.phase]}:", "dim"),), indent + STEP)
        yield from (Verbatim(text, indent + 2 * STEP, DIFF_STYLES[k]) for k, text in part.diff)
        yield from (Verbatim(command, indent + 2 * STEP, "bold") for command in part.commands)
    if remedy.trade_off is not None:
        yield Prose((Span("Trade-off: ", "dim"), Span(remedy.trade_off)), indent + STEP)


@dataclass(slots=True)
class _Gap:
    """One thing that is unknown, with the rules and subjects that it affects."""

    unknown: Unknown
    reasons: dict[str, None] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    subjects: dict[str, None] = field(default_factory=dict)


def gap_blocks(report: Report, look: Look) -> Blocks:
    """Yield every gap once, with the rules that it affects, then the rules that raised."""
    gaps, errors = _gaps(report), _errors(report)
    if not gaps and not errors:
        return
    yield Prose((Span("Not determined", "bold"),))
    yield Blank()
    for gap in gaps:
        yield from _gap(gap)
    for same in errors:
        yield from _error(same, _devices(report), look)


def _gaps(report: Report) -> tuple[_Gap, ...]:
    """Group what is unknown by what it is and its hint; the gaps of the host stand first."""
    gaps: dict[tuple[str, str], _Gap] = {}
    for unknown in report.host.gaps:
        _add(gaps, unknown)
    devices = _devices(report)
    for verdict in report.verdicts:
        for unknown in verdict.unknowns:
            gap = _add(gaps, unknown)
            gap.rules.add(verdict.rule.code)
            gap.subjects[_subject(verdict, devices)] = None
    return tuple(gaps.values())


def _add(gaps: dict[tuple[str, str], _Gap], unknown: Unknown) -> _Gap:
    gap = gaps.setdefault((unknown.what, unknown.hint), _Gap(unknown))
    gap.reasons[why_text(unknown)] = None
    return gap


def _devices(report: Report) -> dict[str, str]:
    return {fs.id: fs.device for fs in report.host.filesystems}


def _subject(verdict: Verdict, devices: dict[str, str]) -> str:
    return devices.get(verdict.filesystem_id or "", _HOST)


def _gap(gap: _Gap) -> Blocks:
    reasons = f" ({_some(gap.reasons)})"
    yield Prose((Span(gap.unknown.what, "bold"), Span(reasons)), STEP, UNKNOWN_MARKER)
    if gap.rules:
        affected = f"needed by {listed(sorted(gap.rules))} on {_some(gap.subjects)}"
    else:
        affected = "a gap in the view of the host: what lies behind it was not audited"
    yield Prose((Span(affected),), 2 * STEP)
    if gap.unknown.hint:
        yield Prose((Span(f"to know it: {gap.unknown.hint}"),), 2 * STEP)


def _some(names: Iterable[str]) -> str:
    return listed(list(names), _NAMES_SHOWN)


def _errors(report: Report) -> tuple[tuple[Verdict, ...], ...]:
    """Group the rules that raised: the same bug on forty filesystems is one entry."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.ERROR:
            key = (verdict.rule.code, traceback_lines(verdict)[-1])
            groups.setdefault(key, []).append(verdict)
    return tuple(map(tuple, groups.values()))


def _error(verdicts: Sequence[Verdict], devices: dict[str, str], look: Look) -> Blocks:
    """Yield a rule that raised: its last line, and with -v the first whole traceback."""
    first = verdicts[0]
    lines = traceback_lines(first)
    subjects = _some([_subject(verdict, devices) for verdict in verdicts])
    stopped = f" stopped with an error on {subjects}: {lines[-1]}"
    yield Prose((Span(_named(first), "bold"), Span(stopped)), STEP, UNKNOWN_MARKER)
    yield Prose((Span("this is a bug in ext4audit"),), 2 * STEP)
    if look.verbose:
        # The bar precedes text from the host: GitHub executes a line that begins with "::error".
        yield from (Verbatim(f"| {line}", 3 * STEP, "dim") for line in lines)

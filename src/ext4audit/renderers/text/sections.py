"""Sections of the text format: filesystems, findings, and what is not determined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from ext4audit.evidence import Known, Unknown, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Remedy
from ext4audit.renderers.shared.subjects import Subject
from ext4audit.renderers.shared.words import (
    PHASE_WORDS,
    counted,
    disruption_words,
    listed,
    stack_words,
    why_words,
)
from ext4audit.renderers.text.blocks import (
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


def finding_blocks(rule: Rule, finding: Finding, look: Look, indent: int) -> Blocks:
    """Show a finding: what, the consequence, the evidence, and each way to cure it."""
    yield Prose((*_finding_title(rule, finding),), indent, look.severity_marker(finding.severity))
    yield Prose((Span(finding.message),), indent + STEP)
    if finding.citations:
        yield Blank()
        yield Table(finding.citations, indent + 2 * STEP)
    for number, remedy in enumerate(finding.remedies):
        yield Blank()
        yield from _remedy(remedy, "Remedy" if number == 0 else "Or", indent + STEP)


def note_block(rule: Rule, finding: Finding, look: Look, indent: int) -> Prose:
    """Show a finding that only informs, in one line."""
    spans = (*_finding_title(rule, finding), Span(f": {finding.message}"))
    return Prose(spans, indent, look.severity_marker(finding.severity))


def set_aside_block(rule: Rule, finding: Finding, indent: int) -> Prose:
    """Show a finding that does not count, and why, in one line."""
    why = "in the baseline"
    if finding.suppression is not None:
        why = f"suppressed: {finding.suppression.reason}"
    words = f"{finding.severity.value.upper()}  {rule.code} {rule.name} ({why}): {finding.message}"
    return Prose((Span(words, "dim"),), indent)


def _finding_title(rule: Rule, finding: Finding) -> tuple[Span, ...]:
    style = SEVERITY_STYLES[finding.severity]
    sure = finding.confidence is Confidence.CONFIRMED
    return (
        Span(finding.severity.value.upper(), style),
        Span("  "),
        Span(rule.code, "bold"),
        Span(f" {rule.name}"),
        Span("" if sure else f" ({finding.confidence.value})"),
    )


def _remedy(remedy: Remedy, label: str, indent: int) -> Blocks:
    """Show a remedy; its steps keep their order, because a later one may need an earlier."""
    style = "bold red" if remedy.destructive else "bold"
    words = (Span(f"{label} ({disruption_words(remedy)}): ", style), Span(remedy.summary))
    yield Prose(words, indent)
    for phase, steps in groupby(remedy.steps, key=lambda step: step.phase):
        yield Prose((Span(f"{PHASE_WORDS[phase]}:", "dim"),), indent + STEP)
        for step in steps:
            yield Verbatim(step.command, indent + 2 * STEP, "bold")
    if remedy.trade_off is not None:
        yield Prose((Span("Trade-off: ", "dim"), Span(remedy.trade_off)), indent + STEP)


_SHOWN = 3
_HOST = "the host"


@dataclass(slots=True)
class _Hole:
    """One thing that is not known, and all that it keeps from being judged."""

    unknown: Unknown
    reasons: dict[str, None] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    places: dict[str, None] = field(default_factory=dict)


def unknown_blocks(report: Report, look: Look) -> Blocks:
    """Show every hole once, with the rules that it affects, then the rules that broke."""
    holes, errors = _holes(report), _errors(report)
    if not holes and not errors:
        return
    yield Prose((Span("Not determined", "bold"),))
    yield Blank()
    for hole in holes:
        yield from _hole(hole)
    for same in errors:
        yield from _error(same, _devices(report), look)


def _holes(report: Report) -> tuple[_Hole, ...]:
    """Group what is unknown by what it is and how to know it; the gaps of the host first."""
    holes: dict[tuple[str, str], _Hole] = {}
    for gap in report.host.gaps:
        _add(holes, gap)
    devices = _devices(report)
    for verdict in report.verdicts:
        for unknown in verdict.unknowns:
            hole = _add(holes, unknown)
            hole.rules.add(verdict.rule.code)
            hole.places[_place(verdict, devices)] = None
    return tuple(holes.values())


def _add(holes: dict[tuple[str, str], _Hole], unknown: Unknown) -> _Hole:
    hole = holes.setdefault((unknown.what, unknown.hint), _Hole(unknown))
    hole.reasons[why_words(unknown)] = None
    return hole


def _devices(report: Report) -> dict[str, str]:
    return {fs.id: fs.device for fs in report.host.filesystems}


def _place(verdict: Verdict, devices: dict[str, str]) -> str:
    return devices.get(verdict.filesystem_id or "", _HOST)


def _hole(hole: _Hole) -> Blocks:
    reasons = f" ({_some(hole.reasons)})"
    yield Prose((Span(hole.unknown.what, "bold"), Span(reasons)), STEP, UNKNOWN_MARKER)
    if hole.rules:
        affected = f"needed by {listed(sorted(hole.rules))} on {_some(hole.places)}"
    else:
        affected = "a gap in the view of the host: what lies behind it was not audited"
    yield Prose((Span(affected),), 2 * STEP)
    if hole.unknown.hint:
        yield Prose((Span(f"to know it: {hole.unknown.hint}"),), 2 * STEP)


def _some(names: Iterable[str]) -> str:
    return listed(list(names), _SHOWN)


def _errors(report: Report) -> tuple[tuple[Verdict, ...], ...]:
    """Group the rules that raised: the same bug on forty filesystems is one entry."""
    groups: dict[tuple[str, str], tuple[Verdict, ...]] = {}
    for verdict in report.verdicts:
        if verdict.outcome is Outcome.ERROR:
            key = (verdict.rule.code, _traceback(verdict)[-1])
            groups[key] = (*groups.get(key, ()), verdict)
    return tuple(groups.values())


def _traceback(verdict: Verdict) -> list[str]:
    return (verdict.note or "no traceback").strip().split("\n")


def _error(verdicts: Sequence[Verdict], devices: dict[str, str], look: Look) -> Blocks:
    """Show a rule that raised: its last line, and with -v the first whole traceback."""
    first = verdicts[0]
    lines = _traceback(first)
    places = _some([_place(verdict, devices) for verdict in verdicts])
    stopped = f" stopped with an error on {places}: {lines[-1]}"
    name = Span(f"{first.rule.code} {first.rule.name}", "bold")
    yield Prose((name, Span(stopped)), STEP, UNKNOWN_MARKER)
    yield Prose((Span("this is a bug in ext4audit"),), 2 * STEP)
    if look.verbose:
        # The bar keeps a line of the host's words from standing first: GitHub obeys "::error".
        yield from (Verbatim(f"| {line}", 3 * STEP, "dim") for line in lines)


_MOUNT_POINTS_SHOWN = 3


def subject_blocks(subject: Subject, host: Host, look: Look) -> Blocks:
    """Show a subject: one line where all is well, a section where something was found."""
    if subject.problems or (look.verbose and subject.verdicts):
        yield from _section(subject, host, look)
    elif subject.filesystem is not None or subject.notes:
        title = (*_subject_title(subject, host, look), Span(f"; {_found(subject)}"), _open(subject))
        yield Prose(title, 0, _marker(subject, look))


def _section(subject: Subject, host: Host, look: Look) -> Blocks:
    yield Prose((*_subject_title(subject, host, look), _open(subject)), 0, _marker(subject, look))
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
    """Mark a subject by the worst that was found; unknown is never shown as fine."""
    if subject.problems:
        return look.severity_marker(subject.problems[0][1].severity)
    return UNKNOWN_MARKER if subject.open else look.fine_marker()


def _subject_title(subject: Subject, host: Host, look: Look) -> tuple[Span, ...]:
    if subject.filesystem is None:
        return (Span(f"host {host.name}", "bold"), Span(_host_facts(host)))
    fs = subject.filesystem
    limit = None if look.verbose else _MOUNT_POINTS_SHOWN
    where = f" on {listed(fs.mount_points, limit)}" if fs.mount_points else ""
    return (Span(fs.device, "bold"), Span(where, "bold"), Span(f": {_filesystem_facts(fs)}"))


def _filesystem_facts(fs: Filesystem) -> str:
    facts = [value_or(fs.fstype, "type not known"), stack_words(fs)]
    if _shut_down(fs):
        facts.append("shut down after an error: it refuses all writes")
    elif value_or(fs.read_only, default=False):
        facts.append("read-only")
    if not fs.alive:
        facts.append("not mounted")
    elif not fs.mounts:
        facts.append("not mounted here (another mount namespace holds it)")
    return ", ".join(facts)


def _shut_down(fs: Filesystem) -> bool:
    """Whether the kernel has stopped the filesystem, although it may still call it rw."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    return bool(options and (options.find("emergency_ro") or options.find("shutdown")))


def _host_facts(host: Host) -> str:
    facts = []
    if isinstance(host.os, Known):
        facts.append(host.os.value.pretty_name or host.os.value.id)
    if isinstance(host.kernel, Known):
        facts.append(f"Linux {host.kernel.value.release}")
    shown = [fact for fact in (*facts, host.virtualization, host.container) if fact]
    return f": {', '.join(shown)}" if shown else ""


def _found(subject: Subject) -> str:
    """Say in a few words what was found on a subject without problems."""
    codes = [rule.code for rule, _ in subject.notes]
    if subject.verdicts and len(subject.with_outcome(Outcome.NOT_APPLICABLE)) == len(
        subject.verdicts
    ):
        # "No findings" would read as a pass of what nobody has judged.
        return "no rule applies (-v shows why)"
    if not codes:
        return "no findings"
    pronoun = "it" if len(codes) == 1 else "them"
    return f"{counted(len(codes), 'note')}: {listed(sorted(set(codes)))} (-v shows {pronoun})"


def _open(subject: Subject) -> Span:
    """Say how many rules could not be judged, or not wholly."""
    words = f"; {counted(len(subject.open), 'rule')} not determined"
    return Span(words if subject.open else "", "magenta")


def _judged(subject: Subject, look: Look) -> Blocks:
    """Show what passed with its evidence, and what does not apply with its reason."""
    passed = subject.with_outcome(Outcome.PASS)
    spared = subject.with_outcome(Outcome.NOT_APPLICABLE)
    if passed or spared:
        yield Blank()
    for verdict in passed:
        yield Prose((Span(f"passed {_named(verdict)}"),), STEP, look.fine_marker())
        if verdict.evidence:
            yield Table(verdict.evidence, 3 * STEP)
    for verdict in spared:
        reason = f"does not apply: {_named(verdict)}, {verdict.note}"
        yield Prose((Span(reason, "dim"),), STEP, NOT_APPLICABLE_MARKER)


def _named(verdict: Verdict) -> str:
    return f"{verdict.rule.code} {verdict.rule.name}"

"""The text format: the section of one filesystem, or of the host."""

from __future__ import annotations

from ext4audit.evidence import Known, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.renderers.stack_words import stack_words
from ext4audit.renderers.subjects import Subject
from ext4audit.renderers.text_blocks import (
    NOT_APPLICABLE_MARKER,
    STEP,
    UNKNOWN_MARKER,
    Blank,
    Blocks,
    Look,
    Prose,
    Span,
    Table,
)
from ext4audit.renderers.text_findings import finding_blocks, note_block, set_aside_block
from ext4audit.renderers.words import counted, listed
from ext4audit.report import Outcome, Verdict

_MOUNT_POINTS_SHOWN = 3


def subject_blocks(subject: Subject, host: Host, look: Look) -> Blocks:
    """Show a subject: one line where all is well, a section where something was found."""
    if subject.problems or (look.verbose and subject.verdicts):
        yield from _section(subject, host, look)
    elif subject.filesystem is not None or subject.notes:
        title = (*_title(subject, host, look), Span(f"; {_found(subject)}"), _open(subject))
        yield Prose(title, 0, _marker(subject, look))


def _section(subject: Subject, host: Host, look: Look) -> Blocks:
    yield Prose((*_title(subject, host, look), _open(subject)), 0, _marker(subject, look))
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


def _title(subject: Subject, host: Host, look: Look) -> tuple[Span, ...]:
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

"""The default text report: the host, its findings by cause, and the `fix` command for them."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from ext4audit.evidence import Known, for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Disruption, Remedy, Severity, listed
from ext4audit.renderers.shared import PHASE_TEXT, doubt_text, remedy_label
from ext4audit.renderers.shared.commands import PhaseLines, changes
from ext4audit.renderers.shared.subjects import Cause, causes, no_filesystem_text, subjects
from ext4audit.renderers.text.blocks import (
    DIFF_STYLES,
    SEVERITY_STYLES,
    STEP,
    Block,
    Blocks,
    Columns,
    Look,
    Prose,
    Span,
    Verbatim,
)
from ext4audit.renderers.text.causes import (
    message_text,
    one_a_line,
    shared_facts,
    shown_remedies,
    subjects_text,
    without_remedy,
)
from ext4audit.renderers.text.sections import finding_title, remedy_title
from ext4audit.report import ARCHIVES, Report

_REMEDIES_SHOWN = 2
_NAMES_SHOWN = 3
_WIDEST_CELL = 48
"""Maximum columns of a rule with its name, or of the names of many filesystems."""
_NICKNAME = re.compile(r" \([^()]*\)")
"""The code name of a distribution, " (bookworm)"."""
_UNNAMED = "standard input"
"""The label of captured evidence that cannot be read a second time."""
_OPEN_FILE = re.compile(r"(?:[^/]+=)?/(?:dev/(?:stdin|fd/.*)|proc/[^/]+/fd/.*)")
"""Paths of files that only this process can read, such as those of `<(...)` in a shell."""
_MOST_TARGETS = 3


def host_name(report: Report) -> str:
    """Return the name of the host or image in a form that is safe at the start of a line.

    A host can be named "::error"; GitHub executes a log line that begins so, indented or not.
    """
    name = report.key
    if report.source.kind == "image":
        return f"image {name}"
    return name if name[:1].isalnum() else f"host {name}"


def header(report: Report) -> Prose:
    """Return the line that names the host and its system."""
    facts = _host_facts(report.host)
    return Prose((Span(host_name(report), "bold"), Span(f": {facts}" if facts else "")))


def _host_facts(host: Host) -> str:
    facts = []
    if isinstance(host.os, Known):
        facts.append(_NICKNAME.sub("", host.os.value.pretty_name) or host.os.value.id)
    if isinstance(host.kernel, Known):
        facts.append(f"Linux {host.kernel.value.release}")
    kinds = (for_wording(kind, None) for kind in (host.virtualization, host.container))
    return ", ".join(fact for fact in (*facts, *kinds) if fact)


def finding_paragraphs(report: Report, look: Look) -> Iterator[Sequence[Block]]:
    """Yield a paragraph for each cause at the threshold or worse, and one for all others."""
    has_script = any(script_blocks(report, look))
    page = _Page(len(report.host.filesystems), look, has_script)
    found = causes(report)
    whole = [each for each in found if look.is_whole(each.rule.code, each.first)]
    for cause in whole:
        script = script_blocks(report, look, STEP) if len(whole) == 1 else ()
        yield (*page.cause_blocks(cause), *script)
    if len(whole) > 1:
        yield tuple(script_blocks(report, look))
    others = [each for each in found if not look.is_whole(each.rule.code, each.first)]
    rows = tuple(page.row(cause) for cause in one_a_line(others))
    below: list[Block] = [Columns(rows, 0, fixed=3, widest=_WIDEST_CELL)] if rows else []
    yield (*below, *_not_judged(report))


def _not_judged(report: Report) -> Blocks:
    """Yield a note if there is no filesystem, and one on filesystems to which no rule applies."""
    if not report.host.filesystems:
        yield Prose((Span(no_filesystem_text(report, f"host {report.key}")),))
    names = [
        subject.filesystem.device
        for subject in subjects(report)
        if subject.filesystem is not None and subject.verdicts and subject.no_rule_applies
    ]
    if names:
        yield Prose((Span(f"No rule applies to {listed(names, _NAMES_SHOWN)} (-v shows why)."),))


@dataclass(slots=True)
class _Page:
    """State of one report: its number of filesystems, and the remedies already shown."""

    filesystems: int
    look: Look
    has_script: bool
    _shown: dict[tuple[PhaseLines, ...], str] = field(default_factory=dict)
    _files: set[tuple[str, PhaseLines]] = field(default_factory=set)

    def row(self, cause: Cause) -> tuple[Span, ...]:
        """Return a cause as one line."""
        severity = cause.first.severity
        return (
            Span(severity.value.upper(), SEVERITY_STYLES[severity]),
            Span(cause.rule.title),
            Span(subjects_text(cause, self.filesystems, self.look)),
            Span(f"{cause.first.short}{doubt_text(cause.first)}"),
        )

    def cause_blocks(self, cause: Cause) -> Blocks:
        """Yield a cause in full: subjects, message, facts, and the safest remedies."""
        names = subjects_text(cause, self.filesystems, self.look, full=True)
        where = Span(f" {self.look.dot} {names}", "bold")
        yield Prose((*finding_title(cause.rule, cause.first), where))
        yield Prose((Span(message_text(cause)),), STEP)
        subject, facts = shared_facts(cause)
        if subject:
            yield Prose((Span(f"For example, {subject}:"),), STEP)
        if facts:
            cells = ((Span(c.label), Span(c.value, "bold"), Span(c.origin, "dim")) for c in facts)
            yield Columns(tuple(cells), 2 * STEP, fixed=1)
        yield from self._remedies(cause)

    def _remedies(self, cause: Cause) -> Blocks:
        """Yield the first few remedies, and the number of the others."""
        remedies = shown_remedies(cause)
        titles = set()
        label = ""
        for remedy in remedies[:_REMEDIES_SHOWN]:
            if remedy.summary not in titles:
                titles.add(remedy.summary)
                label = ""
                yield remedy_title(remedy, remedy_label(0), STEP)
            label = yield from self._changes(remedy, cause.rule.code, label)
        yield from self._more(Counter(map(self._place, remedies[_REMEDIES_SHOWN:])))
        missing = without_remedy(cause)
        if missing:
            yield Prose((Span(f"No remedy for {missing} of them."),), STEP)
        yield from _others(cause)

    def _place(self, remedy: Remedy) -> str:
        """Return a sentence on where to find a remedy that is not shown, with {} for a number."""
        if not remedy.steps:
            return "Advice for {} more: -v."
        in_script = self.has_script and not remedy.destructive
        return f"Commands for {{}} more: {'in the script below' if in_script else '-v'}."

    def _more(self, places: Counter[str]) -> Blocks:
        """Yield sentences on where to find the remedies for other subjects."""
        for place, number in places.items():
            yield Prose((Span(place.format(number)),), STEP)

    def _changes(self, remedy: Remedy, code: str, label: str) -> Generator[Block, None, str]:
        """Yield the commands and diffs of a remedy, or a reference to the cause that shows them.

        `label` is the phase of the line above, and the return value is that of the last line, so
        that commands for several filesystems share one phase label. A file change that several
        filesystems have in common, such as a udev rule, is shown once for each rule.
        """
        parts = tuple(changes(remedy))
        before = self._shown.setdefault(parts, code) if parts else code
        if before != code:
            yield Prose((Span(f"The commands are those of {before} above."),), STEP)
            return ""
        for part in parts:
            if part.diff and (code, part) in self._files:
                continue
            self._files.add((code, part))
            phase = f"{PHASE_TEXT[part.phase].capitalize()}:"
            if phase != label:
                yield Prose((Span(phase),), STEP)
            label = phase
            yield from (Verbatim(text, 2 * STEP, DIFF_STYLES[kind]) for kind, text in part.diff)
            yield from (Verbatim(command, 2 * STEP, "bold") for command in part.commands)
        return label


def _others(cause: Cause) -> Blocks:
    """Yield the number of remedies besides the one that is shown, if there are any."""
    others = max(len(finding.remedies) for _, finding in cause.found) - 1
    if others > 0:
        noun = "other remedy" if others == 1 else "other remedies"
        text = f"{others} {noun}: -v, or ext4audit explain {cause.rule.code}"
        yield Prose((Span(text, "dim"),), STEP)


def script_blocks(report: Report, look: Look, indent: int = 0) -> Blocks:
    """Yield the command that creates one script from the remedies; it is never wrapped."""
    command = fix_command(report, look.threshold)
    if command:
        yield Verbatim(f"As a script: {command}", indent)


def fix_command(report: Report, threshold: Severity | None) -> str:
    """Return the `ext4audit fix` command that covers the findings at `threshold` or worse.

    It is empty if none of their remedies can be run, or if no script is possible: a plan and an
    image are not hosts, and standard input cannot be read again.
    """
    source = _source_words(report)
    if source is None or threshold is None:
        return ""
    found = list(_runnable(report, threshold))
    if not found:
        return ""
    words = ["ext4audit", "fix", *source, *report.options]
    most = max((remedy.disruption for _, remedy in found), key=lambda each: each.rank)
    if most is not Disruption.ONLINE:
        words += ["--disruption", most.value]
    words += _targets([fs for fs, _ in found])
    can_be_typed = all(map(_is_plain, words)) and not any(map(_OPEN_FILE.fullmatch, words))
    return " ".join(map(shlex.quote, words)) if can_be_typed else ""


def _source_words(report: Report) -> list[str] | None:
    """Return the arguments that name the host: [] for the local host, None if impossible."""
    kind, label, key, *_ = report.source
    if kind == "live":
        return []
    if kind not in {"snapshot", *ARCHIVES} or label == _UNNAMED or not report.source.has_path:
        return None
    is_of_path = any(f"{part}.".startswith(f"{key}.") for part in label.split("/")[-2:])
    return ["--from", f"{key}={label}" if key and not is_of_path else label]


def _runnable(report: Report, threshold: Severity) -> Iterator[tuple[Filesystem | None, Remedy]]:
    """Yield the safest remedy of each failing finding and its filesystem, except for images."""
    for verdict, fs in report.judged:
        for finding in verdict.findings:
            remedy = finding.safest_remedy
            fails = finding.counts and finding.severity.at_least(threshold)
            if fails and remedy is not None and not _is_image(fs):
                yield fs, remedy


def _is_image(fs: Filesystem | None) -> bool:
    return fs is not None and isinstance(fs.stack, Known) and fs.stack.value.image is not None


def _targets(found: Sequence[Filesystem | None]) -> list[str]:
    """Return a path for each filesystem; [], which means all, for many or without plain paths."""
    targets = dict.fromkeys(_target(fs) for fs in found if fs is not None)
    named = [target for target in targets if target is not None]
    return named if len(named) == len(targets) <= _MOST_TARGETS else []


def _target(fs: Filesystem) -> str | None:
    """Return a mount point that is not overmounted, or the device; None if neither is plain."""
    seen = {mount.mount_point for mount in fs.mounts if not mount.overmounted}
    paths = (*(each for each in fs.mount_points if each in seen), fs.device)
    return next((each for each in paths if _is_plain(each)), None)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isprintable()

"""The commands of a remedy as they are copied: chains that stop, and the diffs they make.

Also the call of `ext4audit fix` that makes one script of a report's remedies.

Lines that are pasted one by one go on after a failure: behind an e2fsck that refused, the next
line mounted the damaged filesystem. The commands of one phase are therefore one AND list of the
shell (POSIX, 2.9.3), in which the first failure is the last thing that happens.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, LineEdit, NewFile, Phase, Remedy, Severity, Step
from ext4audit.report import ARCHIVES, Report

FILE, BEFORE, AFTER = "file", "before", "after"
"""The kinds of lines of a diff."""
_PIECE = re.compile(
    r"""'[^']*' | "(?:[^"\\]|\\.)*" | \\.
      | [<>]& | && | \|\| | [;&|()\n]
      | [^\s'"\\<>;&|()]+ | [<>]""",
    re.VERBOSE | re.DOTALL,
)
_OPENING = frozenset({"{", "if", "while", "until", "for", "case"})
_CLOSING = frozenset({"}", "fi", "done", "esac"})
_OPERATORS = frozenset({"&&", "||", ";", "&", "|", "(", "\n"})
_LEADING = frozenset({"!", "{", "if", "then", "elif", "else", "while", "until", "do"})
"""Reserved words behind which a command begins, as it does behind an operator (POSIX, 2.4)."""
_IMAGES = frozenset({"image", "e2image"})
_UNNAMED = "standard input"
"""The label of captured evidence that no command can read a second time."""
_USUAL_THRESHOLD = Severity.MEDIUM
"""The --fail-on of a command that has none."""
_MOST_TARGETS = 3
_SEPARATING = frozenset({"||", ";", "&", "\n"})
"""Operators that would end an AND list, or bind its other members anew."""


class DiffLine(NamedTuple):
    """One line of a diff. Its text is not escaped yet; tabs are blanks."""

    kind: str
    text: str


class PhaseLines(NamedTuple):
    """Consecutive steps of one phase: what they change in files, and the lines to copy."""

    phase: Phase
    diff: tuple[DiffLine, ...]
    commands: tuple[str, ...]

    @property
    def diff_texts(self) -> tuple[str, ...]:
        """The diff without the kinds of its lines."""
        return tuple(line.text for line in self.diff)


def phases(remedy: Remedy) -> Iterator[PhaseLines]:
    """Yield the phases of a remedy in the order of execution, the rollback last."""
    for phase, same in groupby(remedy.lines, key=lambda step: step.phase):
        steps = tuple(same)
        diff = (line for step in steps for line in _diff(step))
        yield PhaseLines(phase, tuple(diff), chain([step.command for step in steps]))


def chain(commands: Sequence[str]) -> tuple[str, ...]:
    """Return lines of one command: the first of `commands` that fails stops all that follow.

    Each line but the last ends with `&&`, so that a shell reads on before it runs anything.
    """
    if len(commands) < 2:  # noqa: PLR2004 - one command needs no list
        return tuple(commands)
    *first, last = (_member(each) for each in commands)
    return (*(f"{each} &&" for each in first), last)


def _member(command: str) -> str:
    """Return a command as one member of an AND list: in braces where its operators would part it.

    `a && b || c && d` runs c and d where a has failed; `a && { b || c; } && d` does not.
    """
    return f"{{ {command}; }}" if _is_parted(command) else command


def _is_parted(command: str) -> bool:
    """Whether an operator outside quotes and compound commands separates parts of a command."""
    depth, at_start = 0, True
    for piece in _PIECE.findall(command):
        if depth == 0 and piece in _SEPARATING:
            return True
        if piece == "(" or (at_start and piece in _OPENING):
            depth += 1
        elif piece == ")" or (at_start and piece in _CLOSING):
            depth -= 1
        at_start = piece in _OPERATORS or (at_start and piece in _LEADING)
    return depth != 0


def _diff(step: Step) -> Iterator[DiffLine]:
    """Yield the lines of a file that a step changes; nothing for a change of another kind."""
    match step.change:
        case LineEdit(path, number, before, after):
            yield DiffLine(FILE, f"--- {path}, line {number}")
            yield DiffLine(BEFORE, f"- {before.expandtabs()}")
            yield DiffLine(AFTER, f"+ {after.expandtabs()}")
        case NewFile(path, content):
            yield DiffLine(FILE, f"+++ {path}, new file")
            lines = content.expandtabs().removesuffix("\n").split("\n") if content else ()
            yield from (DiffLine(AFTER, f"+ {line}") for line in lines)


def fix_command(report: Report, threshold: Severity | None) -> str:
    """Return the call of `ext4audit fix` that covers the findings at `threshold` or worse.

    Empty where no remedy of theirs can be run, and where no script could be: a plan and an image
    are no host, and standard input cannot be read again.
    """
    source = _source_words(report)
    if source is None or threshold is None:
        return ""
    found = list(_runnable(report, threshold))
    if not found:
        return ""
    words = ["ext4audit", "fix", *source]
    if threshold is not _USUAL_THRESHOLD:
        words += ["--fail-on", threshold.value]
    most = max((remedy.disruption for _, remedy in found), key=lambda each: each.rank)
    if most is not Disruption.ONLINE:
        words += ["--disruption", most.value]
    words += _targets([fs for fs, _ in found])
    return " ".join(map(shlex.quote, words)) if all(map(_is_plain, words)) else ""


def _source_words(report: Report) -> list[str] | None:
    """Return the words that name the host; none for this one, None where no words can."""
    kind, label = report.source
    if kind == "live":
        return []
    if kind not in {"snapshot", *ARCHIVES} or label == _UNNAMED:
        return None
    return ["--from", label]


def _runnable(report: Report, threshold: Severity) -> Iterator[tuple[Filesystem | None, Remedy]]:
    """Yield the safest remedy of each finding, with the filesystem; none of an image."""
    filesystems = {fs.id: fs for fs in report.host.filesystems}
    for verdict in report.verdicts:
        fs = filesystems.get(verdict.filesystem_id or "")
        for finding in verdict.findings:
            remedy = finding.safest_remedy
            counts = finding.counts and finding.severity.at_least(threshold)
            if counts and remedy is not None and not _is_image(fs):
                yield fs, remedy


def _is_image(fs: Filesystem | None) -> bool:
    return fs is not None and isinstance(fs.stack, Known) and fs.stack.value.kind in _IMAGES


def _targets(found: Sequence[Filesystem | None]) -> list[str]:
    """Return a path of each filesystem; none where they are many: all is then simpler to type."""
    targets = dict.fromkeys(_target(fs) for fs in found if fs is not None)
    named = [target for target in targets if target is not None]
    return named if len(named) == len(targets) <= _MOST_TARGETS else []


def _target(fs: Filesystem) -> str | None:
    """Return a mount point that leads to the filesystem, or its device; None if both are odd."""
    seen = {mount.mount_point for mount in fs.mounts if not mount.overmounted}
    paths = (*(each for each in fs.mount_points if each in seen), fs.device)
    return next((each for each in paths if _is_plain(each)), None)


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isprintable()

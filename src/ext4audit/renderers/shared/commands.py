"""The commands of a remedy in a form to copy: AND lists that stop on failure, and file diffs.

Lines pasted one by one continue after a failure: after an e2fsck that had refused, the next line
mounted the damaged filesystem. The commands of one phase are therefore one AND list of the shell
(POSIX, 2.9.3), which stops at the first failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ext4audit.finding import E2FSPROGS, Finding, LineEdit, NewFile, Phase, Remedy, Step, Unmount
from ext4audit.renderers import visible
from ext4audit.renderers.shared import PHASE_TEXT, disruption_text, remedy_label

FILE, BEFORE, AFTER = "file", "before", "after"
"""The kinds of diff lines."""
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
"""Reserved words after which a command begins, as it does after an operator (POSIX, 2.4)."""
_SEPARATING = frozenset({"||", ";", "&", "\n"})
"""Operators that would end an AND list or regroup its members."""


class DiffLine(NamedTuple):
    """One line of a diff. Its text is not escaped yet; tabs are expanded to blanks."""

    kind: str
    text: str


class PhaseLines(NamedTuple):
    """Consecutive steps of one phase: their file changes, and the lines to copy."""

    phase: Phase
    diff: tuple[DiffLine, ...]
    commands: tuple[str, ...]

    @property
    def diff_texts(self) -> tuple[str, ...]:
        """The texts of the diff lines."""
        return tuple(line.text for line in self.diff)


def phases(remedy: Remedy) -> Iterator[PhaseLines]:
    """Yield the phases of a remedy in the order of execution, the rollback last."""
    for phase, same in groupby(remedy.lines, key=lambda step: step.phase):
        steps = tuple(same)
        diff = (line for step in steps for line in _diff(step))
        yield PhaseLines(phase, tuple(diff), chain_of(steps))


def changes(remedy: Remedy) -> Iterator[PhaseLines]:
    """Yield the changes of a remedy without checks and rollback; a diff replaces its command."""
    for phase, same in groupby(remedy.steps, key=lambda step: step.phase):
        if phase is Phase.VERIFY:
            continue
        steps = [(step, tuple(_diff(step))) for step in same]
        diff = tuple(line for _, lines in steps for line in lines)
        yield PhaseLines(phase, diff, chain_of([step for step, lines in steps if not lines]))


def chain_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Join the commands of steps to the lines of one AND list.

    If one unmounts, it begins with a `type` command, which fails if a program is not in the PATH.
    A shell started by `su` has no /usr/sbin in its PATH (Debian 12): e2fsck was not found after
    the unmount, and nothing mounted the filesystem again.
    """
    commands = [step.command for step in steps]
    if any(step.unmounts or isinstance(step.change, Unmount) for step in steps):
        used = {program for step in steps for program in step.programs.command}
        if used := used & E2FSPROGS:
            commands.insert(0, f"type {' '.join(sorted(used))}")
    return chain(commands)


def chain(commands: Sequence[str]) -> tuple[str, ...]:
    """Join commands to the lines of one AND list: the first failure stops all that follow.

    Each line but the last ends with `&&`, so that a shell reads all lines before it runs any.
    """
    if len(commands) < 2:  # noqa: PLR2004 - one command needs no list
        return tuple(commands)
    *first, last = (_member(each) for each in commands)
    return (*(f"{each} &&" for each in first), last)


def _member(command: str) -> str:
    """Return a command as one member of an AND list, in braces if its operators would split it.

    `a && b || c && d` runs c and d if a fails; `a && { b || c; } && d` does not.
    """
    return f"{{ {command}; }}" if _is_parted(command) else command


def _is_parted(command: str) -> bool:
    """Return whether an operator outside quotes and compound commands splits a command.

    The text is what decides: the shell reads nothing else, and a site's rule gives nothing else.
    """
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
    """Yield the diff of a file that a step changes, or nothing for other kinds of change."""
    match step.change:
        case LineEdit(path, number, before, after, is_numbered):
            yield DiffLine(FILE, f"--- {path}, line {number}" if is_numbered else f"--- {path}")
            yield DiffLine(BEFORE, f"- {before.expandtabs()}")
            yield DiffLine(AFTER, f"+ {after.expandtabs()}")
        case NewFile(path, content):
            yield DiffLine(FILE, f"+++ {path}, new file")
            lines = content.expandtabs().removesuffix("\n").split("\n") if content else ()
            yield from (DiffLine(AFTER, f"+ {line}") for line in lines)


def remedy_lines(finding: Finding, *, commands: bool) -> Iterator[str]:
    """Yield the remedies of a finding, with their diffs and commands if `commands` is true."""
    for index, remedy in enumerate(finding.remedies):
        label = remedy_label(index)
        yield visible(f"{label} ({disruption_text(remedy)}): {remedy.summary}")
        if commands:
            yield from _command_lines(remedy)


def _command_lines(remedy: Remedy) -> Iterator[str]:
    for part in phases(remedy):
        yield f"  {PHASE_TEXT[part.phase]}:"
        yield from (visible(f"    {line}") for line in (*part.diff_texts, *part.commands))
    if remedy.trade_off is not None:
        yield visible(f"  Trade-off: {remedy.trade_off}")

"""Steps as short lines: what an edit of fstab changes, and all other commands as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ext4audit.finding import Disruption, LineEdit, Phase, Remedy, Step


def plain(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step: "persistent: fstab 7: noatime,nobarrier -> noatime"."""
    return [f"{step.phase.value}: {_told(step)}" for step in steps]


def there_and_back(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step, and for each undo, the last one first."""
    own = tuple(steps)
    back = [_taken_back(step) for step in reversed(own) if step.rollback]
    return plain((*own, *back))


UNOPENED = (
    "! find /proc/[0-9]*/fd -exec stat -Lc %t:%T {{}} + 2>/dev/null | "
    'grep -qx "$(stat -Lc %t:%T {device})" && '
)
"""How the first command for what is not mounted begins: no process may have the device open, or
what it is a part of, which follows it."""


def printed(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the lines of steps and of their rollback: phases and commands, and nothing else.

    That no process has /dev/sda open, which the first command asks, is left out.
    """
    lines = Remedy("", Disruption.ONLINE, tuple(steps)).lines
    opened = UNOPENED.format(device="/dev/sda")
    return tuple(Step(step.phase, step.command.replace(opened, "")) for step in lines)


def commands(steps: Iterable[Step], *phases: Phase) -> list[str]:
    """Return the commands of some phases, the rollback included, in their order."""
    return [step.command for step in printed(steps) if step.phase in phases]


def _taken_back(step: Step) -> Step:
    """Return the undo of a step, with the change that it makes where that is a line's."""
    undo = Step(Phase.ROLLBACK, step.rollback)
    if not isinstance(step.change, LineEdit):
        return undo
    before, after = step.change.before, step.change.after
    return undo._replace(change=step.change._replace(before=after, after=before))


def _told(step: Step) -> str:
    edit = step.change
    if not isinstance(edit, LineEdit):
        return step.command
    return f"fstab {edit.line_number}: {_changed(edit.before, edit.after)}"


def _changed(before: str, after: str) -> str:
    """Return the fields of fstab that differ, as they were and as they will be."""
    pairs = zip(re.split("[ \t]+", before), re.split("[ \t]+", after), strict=True)
    return ", ".join(f"{old} -> {new}" for old, new in pairs if old != new)

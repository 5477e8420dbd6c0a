"""Steps as short lines: an edit of fstab by what it changes, other commands unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ext4audit.finding import Disruption, LineEdit, Phase, Remedy, Step


def step_lines(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step: "persistent: fstab 7: noatime,nobarrier -> noatime"."""
    return [f"{step.phase.value}: {_step_line(step)}" for step in steps]


def step_and_undo_lines(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step, then one for each undo in reverse order."""
    own = tuple(steps)
    back = [_undo_of(step) for step in reversed(own) if step.rollback]
    return step_lines((*own, *back))


NOT_OPEN_CHECK = (
    "! find /proc/[0-9]*/fd -exec stat -Lc %t:%T {{}} + 2>/dev/null | "
    'grep -qx "$(stat -Lc %t:%T {device})" && '
)
"""The start of the first command for an unmounted filesystem: no process may have open the device,
or the devices that it is a part of, which follow it in the command."""


def printed_steps(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps and their rollback with phases and commands only.

    The check of the first command that no process has /dev/sda open is left out.
    """
    lines = Remedy("", Disruption.ONLINE, tuple(steps)).lines
    opened = NOT_OPEN_CHECK.format(device="/dev/sda")
    return tuple(Step(step.phase, step.command.replace(opened, "")) for step in lines)


def commands(steps: Iterable[Step], *phases: Phase) -> list[str]:
    """Return the commands of the given phases, which may include the rollback, in order."""
    return [step.command for step in printed_steps(steps) if step.phase in phases]


def _undo_of(step: Step) -> Step:
    """Return the undo of a step, with the change that it makes where that is a line's."""
    undo = Step(Phase.ROLLBACK, step.rollback)
    if not isinstance(step.change, LineEdit):
        return undo
    before, after = step.change.before, step.change.after
    return undo._replace(change=step.change._replace(before=after, after=before))


def _step_line(step: Step) -> str:
    edit = step.change
    if not isinstance(edit, LineEdit):
        return step.command
    return f"fstab {edit.line_number}: {_changed(edit.before, edit.after)}"


def _changed(before: str, after: str) -> str:
    """Return the fields of fstab that differ, each as "old -> new"."""
    pairs = zip(re.split("[ \t]+", before), re.split("[ \t]+", after), strict=True)
    return ", ".join(f"{old} -> {new}" for old, new in pairs if old != new)

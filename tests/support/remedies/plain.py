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
    back = [_taken_back(step) for step in reversed(own) if step.undo]
    return plain((*own, *back))


def rollback(steps: Iterable[Step]) -> list[str]:
    """Return the commands that take the steps back, in the order in which they run."""
    lines = Remedy("", Disruption.ONLINE, tuple(steps)).lines
    return [step.command for step in lines if step.phase is Phase.ROLLBACK]


def _taken_back(step: Step) -> Step:
    """Return the undo of a step, with the change that it makes where that is a line's."""
    undo = Step(Phase.ROLLBACK, step.undo)
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

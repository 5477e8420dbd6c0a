"""Steps as short lines: what an edit of fstab changes, and all other commands as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ext4audit.finding import Disruption, LineEdit, Phase, Remedy, Step


def plain(steps: Iterable[Step]) -> list[str]:
    """Return a line for each step: "persistent: fstab 7: noatime,nobarrier -> noatime".

    The rollback follows, the last step first.
    """
    own = tuple(steps)
    undone = (f"{Phase.ROLLBACK.value}: {_undo(step)}" for step in reversed(own) if step.undo)
    return [*(f"{step.phase.value}: {_command(step)}" for step in own), *undone]


def rollback(steps: Iterable[Step]) -> list[str]:
    """Return the commands that take the steps back, in the order in which they run."""
    lines = Remedy("", Disruption.ONLINE, tuple(steps)).lines
    return [step.command for step in lines if step.phase is Phase.ROLLBACK]


def _command(step: Step) -> str:
    return _field(step.change) if isinstance(step.change, LineEdit) else step.command


def _undo(step: Step) -> str:
    if not isinstance(step.change, LineEdit):
        return step.undo
    before, after = step.change.before, step.change.after
    return _field(step.change._replace(before=after, after=before))


def _field(edit: LineEdit) -> str:
    """Return the field that an edit changes: the options, or whichever else."""
    changed = list(_changed(edit))
    assert len(changed) == 1, edit
    before, after = changed[0]
    return f"fstab {edit.line_number}: {before} -> {after}"


def _changed(edit: LineEdit) -> Iterator[tuple[str, str]]:
    """Yield the pairs of fields that differ."""
    before, after = (re.split(r"[ \t]+", text.strip(" \t\r")) for text in (edit.before, edit.after))
    yield from (pair for pair in zip(before, after, strict=True) if pair[0] != pair[1])

"""Composition of remedies that change the same things, so that each builds on the previous ones.

Each remedy is computed separately from the audited state. If two edit the same line of fstab, the
second becomes an edit of the result of the first. Commands that mount again include the options
that earlier remedies changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ext4audit.facts.mount import CLEARED, MOUNT_FLAGS
from ext4audit.facts.options import option_name
from ext4audit.finding import (
    LineEdit,
    MountCommand,
    NewFile,
    NewMount,
    Remedy,
    Remount,
    Step,
    Unmount,
)
from ext4audit.fixing import ChosenRemedy, LeftOut
from ext4audit.remedies import Unquotable, mount_command
from ext4audit.remedies.configuration import COMMA, OPTIONS

WORD = re.compile(r"[^ \t\r]+")
T = TypeVar("T")


class Conflict(Exception):  # noqa: N818 - the message is shown to the user
    """Raised if a remedy contradicts an earlier one; the message names what both change."""


class Composition:
    """The changes of the remedies so far; `chains` are the successive states of edited lines.

    `_reverts` are the functions that revert what the last remedy has added.
    """

    def __init__(self) -> None:
        self.chains: dict[tuple[str, int], list[str]] = {}
        self._files: dict[str, str] = {}
        self._options: dict[str, dict[str, str]] = {}
        self._fields: dict[tuple[str, str], str] = {}
        self._reverts: list[Callable[[], object]] = []

    def add(self, remedy: Remedy) -> Remedy:
        """Return the remedy, adapted to the earlier ones; raises Conflict or Unquotable."""
        self._reverts.clear()
        try:
            return remedy._replace(steps=tuple(self._steps(remedy)))
        except (Conflict, Unquotable):
            for revert in reversed(self._reverts):
                revert()
            raise

    def _steps(self, remedy: Remedy) -> Iterator[Step]:
        self._claim(remedy)
        again: MountCommand | None = None
        for step in remedy.steps:
            change = step.change
            if isinstance(change, LineEdit):
                edit = self._edited(change)
                if edit.before != edit.after:
                    yield step._replace(change=edit)
                continue
            if isinstance(change, NewFile):
                self._set(self._files, change.path, change.content, change.path)
            if isinstance(change, Remount):
                # The changes of earlier remedies of this run are in force before this one.
                adapted = self._adapted(step)
                for word in change.after:
                    words = self._options.setdefault(change.mount_point, {})
                    self._set(words, name_of(word), word, f"{word} of {change.mount_point}")
                yield adapted
                continue
            if isinstance(change, Unmount):
                again = next(iter(step.mounts), None)
            yield self._mounting(step, again)

    def _mounting(self, step: Step, last: MountCommand | None) -> Step:
        """Return a step whose mount commands include the options of earlier remedies.

        `last` mounts as before what the remedy has unmounted.
        """
        adapted = self._adapted(step)
        if last is not None and isinstance(step.change, NewMount):
            for made in step.mounts:
                words = self._options.setdefault(made.mount_point, {})
                for name, word in _difference(last, made).items():
                    self._set(words, name, word, f"{word or name} of {made.mount_point}")
        return adapted

    def _adapted(self, step: Step) -> Step:
        """Return a step with the options that earlier remedies have put in force."""
        for mount in step.mounts:
            words = self._options.get(mount.mount_point)
            if words:
                step = _replaced(step, mount, words)
        return step

    def _edited(self, edit: LineEdit) -> LineEdit:
        line = edit.path, edit.line_number
        if line not in self.chains:
            self.chains[line] = [edit.before]
            self._reverts.append(partial(self.chains.pop, line))
        chain = self.chains[line]
        before = chain[-1]
        after = merged(edit.before, edit.after, before)
        if after in chain[:-1]:
            raise Conflict(edit.where)
        if after != before:
            chain.append(after)
            self._reverts.append(chain.pop)
        return edit._replace(before=before, after=after)

    def _claim(self, remedy: Remedy) -> None:
        """Record the superblock fields and settings that a remedy sets; raises Conflict."""
        for step in remedy.steps:
            for device, name, value in step.sets:
                what = name if device else "the same settings"
                self._set(self._fields, (device, name), value, what)

    def _set(self, known: dict[T, str], key: T, value: str, what: str) -> None:
        if key not in known:
            self._reverts.append(partial(known.pop, key))
        if known.setdefault(key, value) != value:
            raise Conflict(what)


def compose(
    chosen: Sequence[ChosenRemedy],
) -> tuple[tuple[ChosenRemedy, ...], tuple[LeftOut, ...], Mapping[tuple[str, int], list[str]]]:
    """Return the composed remedies, those in conflict, and the chain of each edited line."""
    composition = Composition()
    done: list[ChosenRemedy] = []
    left: list[LeftOut] = []
    for each in chosen:
        try:
            remedy = composition.add(each.remedy)
        except Conflict as conflict:  # noqa: PERF203 - each depends on the previous ones
            reason = (
                f"conflicts with an earlier remedy, which also changes {conflict}: apply the "
                "script, then run fix again"
            )
            left.append(LeftOut(each.rule, each.subject, reason))
        except Unquotable as reason:
            left.append(LeftOut(each.rule, each.subject, str(reason)))
        else:
            done.append(each._replace(remedy=remedy))
    return tuple(done), tuple(left), composition.chains


def name_of(word: str) -> str:
    """Return the name of an option of `mount -o`: a flag of mount(8), or an option of ext4."""
    flag = CLEARED.get(word, word)
    return flag if flag in MOUNT_FLAGS else option_name(word).partition("=")[0]


def merged(base: str, after: str, present: str) -> str:
    """Apply the changes from `base` to `after` to `present`; raises Conflict.

    All are lines of fstab. Options are merged one by one, other fields as a whole.
    """
    if present == base:
        return after
    old, new, now = ([match[0] for match in WORD.finditer(line)] for line in (base, after, present))
    if not len(old) == len(new) == len(now):
        raise Conflict("a line of fstab")
    for place, (was, wanted, seen) in enumerate(zip(old, new, now, strict=True)):
        if was == wanted:
            continue
        if place == OPTIONS:
            now[place] = _merged_options(was, wanted, seen)
        elif seen in (was, wanted):
            now[place] = wanted
        else:
            raise Conflict("a field of fstab")
    words = iter(now)
    return WORD.sub(lambda _: next(words), present)


def _merged_options(base: str, after: str, present: str) -> str:
    old, new, now = (re.split(COMMA, each) for each in (base, after, present))
    gone = [option for option in old if option not in new]
    added = [option for option in new if option not in old and option != "defaults"]
    others = {name_of(option): option for option in now if option not in old}
    if any(others.get(name_of(option), option) != option for option in added):
        raise Conflict("an option in fstab")
    kept = [option for option in now if option not in gone]
    return ",".join((*kept, *(option for option in added if option not in kept))) or "defaults"


def _difference(before: MountCommand, after: MountCommand) -> dict[str, str]:
    """Return the options that `after` changes compared with `before`, by name.

    An empty value stands for an option that `after` omits.
    """
    names = {name_of(word) for word in after.options}
    gone = {name_of(word): "" for word in before.options if name_of(word) not in names}
    added = (word for word in after.options if word not in before.options)
    return {**gone, **{name_of(word): word for word in added}}


def _replaced(step: Step, mount: MountCommand, words: Mapping[str, str]) -> Step:
    """Return a step with another mount command in its texts, whose options are `words` by name.

    delalloc is omitted because it is the default of ext4: with data=journal, which the superblock
    may set, the kernel refuses delalloc, and the filesystem would stay unmounted (6.18).
    """
    kept = (word for word in mount.options if name_of(word) not in words)
    default = "delalloc" if mount.fstype == "ext4" else ""
    options = (*kept, *(word for word in words.values() if word not in ("", default)))
    made = mount_command(mount.fstype, options, mount.device, mount.mount_point)
    texts = step.command, step.undo, step.undo_by_unmount
    command, undo, by_unmount = (text.replace(mount.text, made.text) for text in texts)
    change = step.change
    if isinstance(change, Unmount):
        change = change._replace(again=change.again.replace(mount.text, made.text))
    mounts = tuple(made if each == mount else each for each in step.mounts)
    return step._replace(
        command=command, undo=undo, undo_by_unmount=by_unmount, change=change, mounts=mounts
    )

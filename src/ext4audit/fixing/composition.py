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
from ext4audit.finding import LineEdit, NewFile, Remedy, Remount, Step, Unmount
from ext4audit.fixing import ChosenRemedy, LeftOut
from ext4audit.remedies import WORD_OF_SHELL, quote, unquote
from ext4audit.remedies.configuration import COMMA, OPTIONS

MOUNT = re.compile(rf"(?P<head>\bmount -t \S+ -o )(?P<options>{WORD_OF_SHELL})")
FIELD = re.compile(r"\btune2fs (?:-f )?(?P<option>-[eEcirmugUL]) (?P<value>\S+) (?P<device>\S+)")
STRING = re.compile(r"\b(?:s_mount_opts|mount_opts=)")
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
        """Return the remedy, adapted to the earlier ones; raises Conflict."""
        self._reverts.clear()
        try:
            return remedy._replace(steps=tuple(self._steps(remedy)))
        except Conflict:
            for revert in reversed(self._reverts):
                revert()
            raise

    def _steps(self, remedy: Remedy) -> Iterator[Step]:
        self._claim(remedy)
        again: Unmount | None = None
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
                undo = self._with_options(change.mount_point, step.undo_by_unmount)
                for word in change.after:
                    words = self._options.setdefault(change.mount_point, {})
                    self._set(words, name_of(word), word, f"{word} of {change.mount_point}")
                yield step._replace(undo_by_unmount=undo)
                continue
            if isinstance(change, Unmount):
                again = change
            yield self._mounting(step, again)

    def _mounting(self, step: Step, last: Unmount | None) -> Step:
        """Return a step whose mount commands include the options of earlier remedies."""
        if last is None:
            return step
        place = last.mount_point
        own = _difference(last.again, step.command)
        commands = step.command, step.undo, step.undo_by_unmount
        command, undo, by_unmount = (self._with_options(place, each) for each in commands)
        change = step.change
        if isinstance(change, Unmount):
            change = change._replace(again=self._with_options(place, change.again))
        for name, word in own.items():
            words = self._options.setdefault(place, {})
            self._set(words, name, word, f"{word or name} of {place}")
        return step._replace(command=command, undo=undo, undo_by_unmount=by_unmount, change=change)

    def _with_options(self, place: str, command: str) -> str:
        words = self._options.get(place)
        if not words:
            return command
        return MOUNT.sub(lambda found: _replaced(found["head"], found["options"], words), command)

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
            for found in FIELD.finditer(step.command):
                if found["option"] != "-E" or "mount_opts" not in found["value"]:
                    key = (found["device"], f"tune2fs {found['option']}")
                    self._set(self._fields, key, found["value"], f"tune2fs {found['option']}")
            if STRING.search(step.command):
                what = "the mount options in the superblock"
                self._set(self._fields, ("", "mount_opts"), step.command, what)
            if step.command.startswith("sysctl -w "):
                self._set(self._fields, ("", "sysctl"), step.command, "the same settings")

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


def _options_of(command: str) -> list[str]:
    found = MOUNT.search(command)
    return re.split(COMMA, unquote(found["options"])) if found else []


def _difference(again: str, command: str) -> dict[str, str]:
    """Return the options that `command` changes compared with `again`, by name.

    `again` mounts as before. An empty value stands for an option that `command` omits.
    """
    if not command.startswith("mount -t "):
        return {}
    before, after = _options_of(again), _options_of(command)
    if not before or not after:
        return {}
    names = {name_of(word) for word in after}
    gone = {name_of(word): "" for word in before if name_of(word) not in names}
    return {**gone, **{name_of(word): word for word in after if word not in before}}


def _replaced(head: str, options: str, words: Mapping[str, str]) -> str:
    """Return the start of a mount command, with options replaced by name.

    delalloc is omitted because it is the default of ext4: with data=journal, which the superblock
    may set, the kernel refuses delalloc, and the filesystem would stay unmounted (6.18).
    """
    present = re.split(COMMA, unquote(options))
    kept = [word for word in present if name_of(word) not in words]
    default = "delalloc" if "-t ext4 " in head else ""
    made = ",".join((*kept, *(word for word in words.values() if word not in ("", default))))
    return head + (quote(made) or options)

"""Change what no remount can change: flags of mount(8), and options that need a new mount.

Seen on Linux 4.19 to 7.2: a remount refuses every change of `data=`, and there is no word that
takes journal_async_commit or norecovery back.

fstab is corrected before the remount, which reads it: a word there would win over nothing, or
would stay in force beside another (noatime beside relatime, util-linux 2.38 on 6.18).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ext4audit.evidence import Known, Undetermined, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabEntry, Mount
from ext4audit.facts.options import Provenance
from ext4audit.finding import Disruption, Phase, Step
from ext4audit.remedies.fstab import FstabEdit, edit_options
from ext4audit.remedies.options import BINDS, change_options, option_of
from ext4audit.remedies.remount import (
    flags_in_force,
    mount_again,
    remount_command,
    typed,
    usable_mount,
    without_mount,
)
from ext4audit.remedies.shell import quote

NOT_SET = ""
"""The wanted token of an option that is in force only where it is listed."""


def change_by_new_mount(
    fs: Filesystem, wanted: Mapping[str, str], *, between: Sequence[str] = (), said: bool = False
) -> tuple[Step, ...]:
    """Return the commands that put options, by name, into the wanted states by a new mount.

    What sets them is corrected first, because the new mount reads it. `between` are commands to
    run while it is unmounted. `said` names the states in the mount too: what no default gives
    would not come where no fstab entry holds it. Where it cannot be unmounted by one command,
    only what sets the options is corrected; empty where there is nothing to correct.
    """
    steps = change_options(fs, wanted, remount=False)
    mount = single_mount(fs)
    lasting = tuple(step for step in steps if step.phase is Phase.PERSISTENT)
    if not steps or (mount is None and not lasting):
        return ()
    checks = tuple(step for step in steps if step.phase is Phase.VERIFY)
    undo = tuple(step for step in steps if step.phase is Phase.ROLLBACK)
    if mount is None:
        return steps
    new = [typed(token) for token in wanted.values()] if said else []
    there = (_unmount(mount), *between, mount_again(fs, mount, new, _names(fs, wanted)))
    old = [typed(token) for token in _in_force(fs, wanted)]
    back = (_unmount(mount), mount_again(fs, mount, old, _names(fs, wanted)))
    return (
        *lasting,
        *(Step(Phase.IMMEDIATE, command) for command in there),
        *checks,
        *undo,
        *(Step(Phase.ROLLBACK, command) for command in back),
    )


def single_mount(fs: Filesystem) -> Mount | None:
    """Return the mount whose end ends the superblock, as far as this namespace shows.

    None for the root, which nobody can unmount, and where several mounts share the superblock:
    a new mount beside another one gets the old options.
    """
    mount = usable_mount(fs)
    if mount is None or len(fs.mounts) > 1 or mount.mount_point == "/":
        return None
    return mount


def how(fs: Filesystem) -> str:
    """Return the sentence on what is left to do by hand; empty where the commands do it all."""
    if usable_mount(fs) is None:
        return f" It must be unmounted and mounted again {without_mount(fs)}."
    if "/" in fs.mount_points:
        return " Then restart: the root cannot be unmounted."
    if single_mount(fs) is None:
        return " Then unmount it from all its mount points and mount it again, or restart."
    return ""


def disruption_of_new_mount(fs: Filesystem) -> Disruption:
    """Return what must be stopped: all that uses it, or the host where it is the root."""
    return Disruption.REBOOT if "/" in fs.mount_points else Disruption.UNMOUNT


def _unmount(mount: Mount) -> str:
    return f"umount {quote(mount.mount_point)}"


def _names(fs: Filesystem, wanted: Mapping[str, str]) -> frozenset[str]:
    """Return the options that a mount must not repeat: the wanted, and what they imply.

    data=journal shows nodelalloc in the mount table, which would outlive it if it were repeated.
    """
    options = fs.options.value.options if isinstance(fs.options, Known) else ()
    implied = {option.name for option in options if option.set_by is Provenance.IMPLIED}
    return frozenset({*wanted, *implied})


def _in_force(fs: Filesystem, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens that the way back must bring."""
    for name, token in wanted.items():
        option = option_of(fs, name)
        if option is not None and option.token != token:
            yield option.token


ELSEWHERE = Unknown(
    "flags of its mounts",
    Why.ABSENT,
    "it is mounted in other mount namespaces only",
    "scan in the mount namespace that has it mounted",
)


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A mount as it is and as it shall be, and the words that lead there and back.

    `drop` are the words to take out of fstab, `add` those to write into it. `everywhere` says
    that the flags belong to the superblock, so that every entry of the device is corrected.
    """

    before: Mount
    after: Mount
    words: tuple[str, ...]
    back: tuple[str, ...]
    drop: Collection[str]
    add: tuple[str, ...] = ()
    everywhere: bool = False


def by_remount(fs: Filesystem, change: FlagChange, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return the commands that change flags by remount, verified by `checks`."""
    return _in_order(
        _edits(fs, change),
        (_remount(corrected(fs, change), change.after, change.words),),
        checks,
        (_remount(fs, change.before, change.back),),
    )


def by_new_mount(fs: Filesystem, change: FlagChange, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return the commands that change flags by an unmount and a mount."""
    end = f"umount {quote(change.before.mount_point)}"
    return _in_order(
        _edits(fs, change),
        (end, mount_again(corrected(fs, change), change.after, (), ())),
        checks,
        (end, mount_again(fs, change.before, (), ())),
    )


def corrected(fs: Filesystem, change: FlagChange) -> Filesystem:
    """Return the filesystem with the fstab that the change leaves behind."""
    if not isinstance(fs.fstab, Known):
        return fs
    entries = tuple(
        _without(entry, change) if _is_concerned(entry, change) else entry
        for entry in fs.fstab.value
    )
    return replace(fs, fstab=Known(entries, fs.fstab.origin))


def _remount(fs: Filesystem, mount: Mount, words: Sequence[str]) -> str:
    """Return the remount with these words, each once: it may have to say all flags anyway."""
    plain = remount_command(fs, mount, (), ())
    said = () if plain.startswith("mount -o remount ") else flags_in_force(mount)
    return remount_command(fs, mount, [word for word in words if word not in said], ())


def _without(entry: FstabEntry, change: FlagChange) -> FstabEntry:
    kept = [word for word in entry.line.options if word not in change.drop]
    more = [word for word in change.add if word not in kept]
    return replace(entry, line=replace(entry.line, options=(*kept, *more)))


def _is_concerned(entry: FstabEntry, change: FlagChange) -> bool:
    if change.everywhere:
        return BINDS.isdisjoint(entry.line.options)
    return entry.is_for(change.before)


def _edits(fs: Filesystem, change: FlagChange) -> Iterator[FstabEdit]:
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for entry in entries:
        if _is_concerned(entry, change):
            edit = edit_options(entry.line, change.drop, change.add)
            if edit is not None:
                yield edit


def _in_order(
    edits: Iterator[FstabEdit], now: Sequence[str], checks: Sequence[str], back: Sequence[str]
) -> tuple[Step, ...]:
    known = tuple(edits)
    undo = [command for edit in reversed(known) for command in edit.undo]
    return (
        *(Step(Phase.PERSISTENT, command) for edit in known for command in edit.apply),
        *(Step(Phase.IMMEDIATE, command) for command in now),
        *(Step(Phase.VERIFY, command) for command in checks),
        *(Step(Phase.ROLLBACK, command) for command in [*undo, *back]),
    )


def seen_here(fs: Filesystem) -> tuple[Mount, ...]:
    """Return the mounts in this namespace; Undetermined where only others show the filesystem."""
    if not fs.mounts:
        raise Undetermined((ELSEWHERE,))
    return fs.mounts


def remountable(mount: Mount) -> bool:
    """Whether a remount through this mount changes it, and nothing else of the superblock."""
    same = ("ro" in mount.mount_options) == ("ro" in mount.super_options)
    return (
        mount.root == "/"
        and not mount.overmounted
        and same
        and quote(mount.mount_point) is not None
    )

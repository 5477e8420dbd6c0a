"""The commands that change flags of mount(8) which are no options of ext4: sync, access times.

fstab is corrected before the remount, which reads it: a word there would win over nothing, or
would stay in force beside another (noatime beside relatime, util-linux 2.38 on 6.18).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ext4audit.evidence import Known, Undetermined, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabEntry, Mount
from ext4audit.finding import Phase, Step
from ext4audit.records import dataclass, replace
from ext4audit.rules._fstab import FstabEdit, edit_options
from ext4audit.rules._persist import BINDS
from ext4audit.rules._remount import flags_in_force, mount_again, remount_command
from ext4audit.rules._shell import quote

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
    return mount.root == "/" and not mount.covered and same and quote(mount.mount_point) is not None

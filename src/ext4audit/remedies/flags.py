"""Change flags of mount(8): access times, sync, and the flags that harden a mount.

fstab is corrected before the remount, which reads it: a flag there would win over nothing, or
would stay in force beside another (noatime beside relatime, util-linux 2.38 on 6.18).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Undetermined, Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import ATIME_OPTIONS, SUPERBLOCK_FLAGS, FstabEntry, Mount, flags_in_force
from ext4audit.finding import Phase, Step
from ext4audit.remedies import in_phase, quote
from ext4audit.remedies.fstab import FstabEdit, edit_options
from ext4audit.remedies.mounting import change_by_new_mount, single_mount
from ext4audit.remedies.options import BINDS, change_options
from ext4audit.remedies.remount import mount_again, remount_command, usable_mount

ELSEWHERE = Unknown(
    "flags of its mounts",
    Why.ABSENT,
    "it is mounted in other mount namespaces only",
    "scan in the mount namespace that has it mounted",
)


class FlagChange(NamedTuple):
    """A mount before and after a change of flags, with the options that make the change.

    `apply` are the options of the remount, `undo` those of its rollback. `drop` are removed from
    fstab, `add` written into it. `everywhere` is set for flags of the superblock: every entry of
    the device is then corrected.
    """

    before: Mount
    after: Mount
    apply: tuple[str, ...]
    undo: tuple[str, ...]
    drop: Collection[str]
    add: tuple[str, ...] = ()
    everywhere: bool = False


def _by_remount(fs: Filesystem, change: FlagChange, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that change flags by remount, verified by `checks`."""
    return _in_order(
        _edits(fs, change),
        (_remount(_corrected(fs, change), change.after, change.apply),),
        checks,
        (_remount(fs, change.before, change.undo),),
    )


def _by_new_mount(fs: Filesystem, change: FlagChange, checks: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that change flags by an unmount and a mount."""
    end = f"umount {quote(change.before.mount_point)}"
    return _in_order(
        _edits(fs, change),
        (end, mount_again(_corrected(fs, change), change.after, (), ())),
        checks,
        (end, mount_again(fs, change.before, (), ())),
    )


def _corrected(fs: Filesystem, change: FlagChange) -> Filesystem:
    """Return the filesystem with fstab as it is after the change."""
    if not isinstance(fs.fstab, Known):
        return fs
    entries = tuple(
        _edited(entry, change) if _is_concerned(entry, change) else entry
        for entry in fs.fstab.value
    )
    return fs._replace(fstab=Known(entries, fs.fstab.origin))


def _remount(fs: Filesystem, mount: Mount, options: Sequence[str]) -> str:
    """Return the remount with these options, each once: it may have to repeat all flags."""
    plain = remount_command(fs, mount, (), ())
    repeated = () if plain.startswith("mount -o remount ") else flags_in_force(mount)
    return remount_command(fs, mount, [option for option in options if option not in repeated], ())


def _edited(entry: FstabEntry, change: FlagChange) -> FstabEntry:
    kept = [option for option in entry.line.options if option not in change.drop]
    more = [option for option in change.add if option not in kept]
    return entry._replace(line=entry.line._replace(options=(*kept, *more)))


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
        *in_phase(Phase.PERSISTENT, (command for edit in known for command in edit.apply)),
        *in_phase(Phase.IMMEDIATE, now),
        *in_phase(Phase.VERIFY, checks),
        *in_phase(Phase.ROLLBACK, [*undo, *back]),
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


GENTLER = frozenset({"relatime", "noatime"})
STRICT = frozenset({"strictatime", "norelatime"})


def relax_access_times(fs: Filesystem, strict: Sequence[Mount], wanted: str) -> tuple[Step, ...]:
    """Return the steps that remount all strictatime mounts with relatime or noatime; all or none.

    relatime, the default, is not written into fstab.
    """
    if not all(remountable(mount) for mount in strict):
        return ()
    steps = [step for mount in strict for step in _relaxed(fs, mount, wanted)]
    order = Phase.PERSISTENT, Phase.IMMEDIATE, Phase.VERIFY, Phase.ROLLBACK
    return tuple(sorted(steps, key=lambda step: order.index(step.phase)))


def _relaxed(fs: Filesystem, mount: Mount, wanted: str) -> tuple[Step, ...]:
    change = FlagChange(
        before=mount,
        after=mount._replace(mount_options=(*mount.mount_options, wanted)),
        apply=(wanted,),
        undo=("strictatime",),
        drop=STRICT | (GENTLER - {wanted}),
        add=(wanted,) if wanted == "noatime" else (),
    )
    return _by_remount(fs, change, (_flag_check(mount, wanted),))


def _flag_check(mount: Mount, flag: str) -> str:
    """Return the command that fails where the mount does not show the flag."""
    return f"findmnt -no VFS-OPTIONS -M {quote(mount.mount_point)} | grep -qw {flag}"


SYNCHRONOUS = "sync", "dirsync"


def clear_sync(fs: Filesystem, *, dirsync: bool) -> tuple[Step, ...]:
    """Return the steps that clear sync and dirsync; a remount cannot clear `dirsync`.

    Empty where no mount can be changed without changing more.
    """
    mount = single_mount(fs) if dirsync else usable_mount(fs)
    if mount is None or not remountable(mount) or quote(fs.device) is None:
        return ()
    kept = tuple(option for option in mount.super_options if option not in SYNCHRONOUS)
    change = FlagChange(
        before=mount,
        after=mount._replace(super_options=kept),
        apply=("async",),
        undo=("sync",),
        drop=SYNCHRONOUS,
        everywhere=True,
    )
    shown = f"findmnt -no FS-OPTIONS -M {quote(mount.mount_point)}"
    checks = (f"{shown} | grep -q . && ! {shown} | grep -qwE 'sync|dirsync'",)
    return _by_new_mount(fs, change, checks) if dirsync else _by_remount(fs, change, checks)


def restore_flags(mount: Mount, flags: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that set per-mount flags by remount,bind, which leaves the superblock.

    Empty where another mount hides it, because no command can then reach it.
    """
    where = quote(mount.mount_point)
    if where is None or mount.overmounted:
        return ()
    before = _flags_of_the_mount(mount)
    shown = f"findmnt -no OPTIONS {where} | tr , '\\n'"
    return (
        Step(Phase.IMMEDIATE, _set_exactly((*before, *flags), where)),
        *in_phase(Phase.VERIFY, (f"{shown} | grep -qx {flag}" for flag in flags)),
        Step(Phase.ROLLBACK, _set_exactly(before, where)),
    )


def _set_exactly(flags: Sequence[str], where: str) -> str:
    """Return the command that gives a mount exactly these flags."""
    return f"mount --options-source=disable -o remount,bind,{','.join(flags)} {where}"


def _flags_of_the_mount(mount: Mount) -> tuple[str, ...]:
    """Return the flags as mount(8) takes them, without those of the superblock."""
    own = "ro" if "ro" in mount.mount_options else "rw"
    others = (flag for flag in flags_in_force(mount) if flag not in SUPERBLOCK_FLAGS | {"ro", "rw"})
    return own, *others


RESTORING = {"relatime": ("atime", "relatime"), "noatime": ("noatime",)}
"""The options that restore the access times of a mount; strictatime where it shows neither.

Seen with util-linux 2.38 on 6.18: relatime alone leaves the noatime of the mount table in force.
"""


def set_flags_and_options(
    fs: Filesystem,
    atime: Sequence[str],
    tokens: Mapping[str, str],
    *,
    by_new_mount: bool,
    places: Collection[str] | None = None,
) -> tuple[Step, ...]:
    """Return the steps that set access times and then ext4 options, by name; all or none.

    The rollback undoes them in the opposite order. `by_new_mount` is for options that a remount
    refuses. Access times are those of a mount: `places` are the mount points to set them on, by
    default all.
    """
    steps: list[Step] = []
    for wanted in atime:
        for mount in _without(fs, wanted, places):
            if not remountable(mount):
                return ()
            change = _atime_change(mount, wanted)
            steps = _joined(steps, _by_remount(fs, change, (_flag_check(mount, wanted),)))
            fs = _after(fs, change)
    if not tokens:
        return tuple(steps)
    change_them = _options_by_new_mount if by_new_mount else change_options
    options = change_them(fs, tokens)
    return tuple(_joined(steps, options)) if options else ()


def _without(fs: Filesystem, flag: str, places: Collection[str] | None) -> list[Mount]:
    here = [m for m in fs.mounts if places is None or m.mount_point in places]
    return [mount for mount in here if flag not in mount.mount_options]


def _options_by_new_mount(fs: Filesystem, tokens: Mapping[str, str]) -> tuple[Step, ...]:
    return change_by_new_mount(fs, tokens, explicit=True)


def _joined(first: Sequence[Step], then: Sequence[Step]) -> list[Step]:
    """Return two changes as one: forward, then checks, then the rollback of the later first."""
    return [
        *_forward(first),
        *_forward(then),
        *(step for step in (*first, *then) if step.phase is Phase.VERIFY),
        *(step for step in (*then, *first) if step.phase is Phase.ROLLBACK),
    ]


def _forward(steps: Sequence[Step]) -> Iterator[Step]:
    return (step for step in steps if step.phase not in {Phase.VERIFY, Phase.ROLLBACK})


def _atime_change(mount: Mount, wanted: str) -> FlagChange:
    before = next((undo for flag, undo in RESTORING.items() if flag in mount.mount_options), None)
    kept = tuple(each for each in mount.mount_options if each not in ATIME_OPTIONS)
    return FlagChange(
        before=mount,
        after=mount._replace(mount_options=(*kept, wanted)),
        apply=(wanted,),
        undo=before or ("strictatime",),
        drop=ATIME_OPTIONS.keys() - {wanted},
        add=(wanted,),
    )


def _after(fs: Filesystem, change: FlagChange) -> Filesystem:
    """Return the filesystem as the next commands find it: mount and fstab are changed."""
    mounts = (change.after if mount == change.before else mount for mount in fs.mounts)
    left = _corrected(fs, change)._replace(mounts=tuple(mounts))
    if not (isinstance(left.fstab, Known) and isinstance(fs.fstab, Known)):
        return left
    as_before = fs.fstab.value
    entries = (each if each in as_before else _written(each) for each in left.fstab.value)
    return left._replace(fstab=Known(tuple(entries), left.fstab.origin))


def _written(entry: FstabEntry) -> FstabEntry:
    """Return the entry with its options as an edit writes them."""
    options = ",".join(entry.line.options) or "defaults"
    return entry._replace(line=entry.line._replace(raw_options=options))

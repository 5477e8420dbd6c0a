"""Change flags of mount(8): access times, sync, and the flags that harden a mount.

fstab is corrected too, because every mount takes its flags from there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Undetermined, Unknown, Why, for_wording
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    BINDS,
    CLEARED,
    MOUNT_FLAGS,
    FstabEntry,
    FstabLine,
    Mount,
    flags_in_force,
)
from ext4audit.finding import LineEdit, Phase, Remount, Step
from ext4audit.remedies import (
    FINDMNT,
    Command,
    if_quotable,
    joined,
    mount_table,
    plain,
    quote,
    step,
    verify_steps,
)
from ext4audit.remedies.configuration import edit_options, merged
from ext4audit.remedies.mounting import change_by_new_mount, mount_anew
from ext4audit.remedies.options import change_options
from ext4audit.remedies.remount import (
    bind_command,
    remount_command,
    remount_step,
    single_mount,
    typed,
    usable_mount,
)

ELSEWHERE = Unknown(
    "flags of its mounts",
    Why.ABSENT,
    "it is mounted in other mount namespaces only",
    "run in its mount namespace",
)


class FlagChange(NamedTuple):
    """A mount before and after a change of flags, with the options that make the change.

    `apply` has the options of the remount, `undo` those of its rollback. `drop` is removed from
    fstab, and `add` is added to it. `everywhere` is true for flags of the superblock, for which
    every fstab entry of the device is corrected.
    """

    before: Mount
    after: Mount
    apply: tuple[str, ...]
    undo: tuple[str, ...]
    drop: Collection[str]
    add: tuple[str, ...] = ()
    everywhere: bool = False


def _by_remount(fs: Filesystem, change: FlagChange, checks: Sequence[Command]) -> tuple[Step, ...]:
    """Return the steps that change flags by a remount, verified by `checks`."""
    there = remount_step(change.before, change.apply, change.undo, checks)
    # Its undo starts from the flags that it leaves.
    back = remount_command(change.after, change.undo)
    programs = there.programs._replace(undo=back.programs)
    there = there._replace(undo=back.text, programs=programs)
    return (*_edits(fs, change), there, *verify_steps(checks))


def _by_new_mount(
    fs: Filesystem, change: FlagChange, checks: Sequence[Command]
) -> tuple[Step, ...]:
    """Return the steps that change flags by an unmount and a mount."""
    unmount, again = mount_anew(fs, change.before, (), (), (), after=change.after, checks=checks)
    return (
        *_edits(fs, change),
        unmount,
        again,
        *verify_steps(checks),
    )


def _is_concerned(entry: FstabEntry, change: FlagChange) -> bool:
    if change.everywhere:
        return BINDS.isdisjoint(entry.line.options)
    return entry.is_for(change.before)


def _edits(fs: Filesystem, change: FlagChange) -> Iterator[Step]:
    lines = (e.line for e in for_wording(fs.fstab, ()) if _is_concerned(e, change))
    yield from filter(None, (edit_options(line, change.drop, change.add) for line in lines))


def seen_here(fs: Filesystem) -> tuple[Mount, ...]:
    """Return the mounts in this namespace; raises Undetermined if there are none."""
    if not fs.mounts:
        raise Undetermined((ELSEWHERE,))
    return fs.mounts


def remountable(mount: Mount) -> bool:
    """Return whether a remount through this mount leaves the rest of the superblock unchanged."""
    same = ("ro" in mount.mount_options) == ("ro" in mount.super_options)
    return mount.root == "/" and not mount.overmounted and same


GENTLER = frozenset({"relatime", "noatime"})


@if_quotable
def relax_access_times(fs: Filesystem, strict: Sequence[Mount], wanted: str) -> tuple[Step, ...]:
    """Return the steps that remount all `strict` mounts with `wanted`: relatime or noatime.

    Empty unless all can be remounted. relatime, the default, is not written to fstab.
    """
    if not all(remountable(mount) for mount in strict):
        return ()
    add = (wanted,) if wanted == "noatime" else ()
    changes = (_atime_change(mount, wanted)._replace(add=add) for mount in strict)
    steps = [each for change in changes for each in _atime_steps(fs, change)]
    order = Phase.PERSISTENT, Phase.IMMEDIATE, Phase.VERIFY
    return tuple(sorted(steps, key=lambda each: order.index(each.phase)))


SYNCHRONOUS = "sync", "dirsync"


@if_quotable
def clear_sync(fs: Filesystem, *, dirsync: bool) -> tuple[Step, ...]:
    """Return the steps that clear sync and dirsync; a remount cannot clear `dirsync`.

    The result is empty if no mount can be changed without changing something else.
    """
    mount = single_mount(fs) if dirsync else usable_mount(fs)
    if mount is None or not remountable(mount):
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
    shown = mount_table(quote(mount.mount_point), "FS-OPTIONS")
    check = f"{shown} | grep -q . && ! {shown} | grep -qwE 'sync|dirsync'"
    checks = (Command(check, FINDMNT),)
    return _by_new_mount(fs, change, checks) if dirsync else _by_remount(fs, change, checks)


@if_quotable
def restore_flags(mount: Mount, flags: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps that set per-mount flags by remount,bind, not those of the superblock.

    The result is empty if another mount hides this one, because no command can reach it.
    """
    if mount.overmounted:
        return ()
    where = quote(mount.mount_point)
    checks = [flag_check(where, flag) for flag in flags]
    change = Remount(mount.mount_point, opposites_of(flags), tuple(flags), is_bind=True)
    apply, undo = bind_command(mount, flags), bind_command(mount, ())
    there = step(Phase.IMMEDIATE, apply, undo, joined(*checks), change=change)
    return (there, *verify_steps(checks))


@if_quotable
def remount_by_fstab(
    fs: Filesystem, mount: Mount, changed: Sequence[tuple[str, str]], flags: Sequence[str]
) -> tuple[Step, ...]:
    """Return the steps that put what an fstab entry sets in force.

    `changed` are the options that come into force, each with its present token; `flags` those of
    the mount. The result is empty if a remount would change another mount, or more than these.
    """
    if not remountable(mount):
        return ()
    where = quote(mount.mount_point)
    listed = quote(f"/proc/fs/ext4/{fs.name}/options")
    checks = [plain(f"grep -qx {quote(intended)} {listed}") for intended, _ in changed]
    checks += [flag_check(where, flag) for flag in flags]
    after = [*flags, *(typed(token) for token, _ in changed)]
    before = [*_opposites(mount, flags), *(typed(token) for _, token in changed)]
    return (remount_step(mount, after, before, checks), *verify_steps(checks))


def opposites_of(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the options that clear flags of mount(8), except access times."""
    opposites = {flag: opposite for opposite, flag in CLEARED.items()}
    return tuple(opposites[flag] for flag in flags if flag in MOUNT_FLAGS)


def _opposites(mount: Mount, flags: Sequence[str]) -> list[str]:
    """Return the options that take flags back: the opposites, and the access times in force."""
    atime = [flag for flag in flags_in_force(mount) if flag in ATIME_OPTIONS]
    return [*opposites_of(flags), *(() if ATIME_OPTIONS.keys().isdisjoint(flags) else atime)]


@if_quotable
def set_flags_and_options(
    fs: Filesystem,
    atime: Sequence[str],
    tokens: Mapping[str, str],
    *,
    by_new_mount: bool,
    places: Collection[str] | None = None,
) -> tuple[Step, ...]:
    """Return the steps that set access times and then ext4 options, by name; all or none.

    The rollback undoes them in reverse order. `by_new_mount` is for options that a remount
    rejects. Access times are set per mount: `places` has the mount points to set them on, by
    default all.
    """
    steps: list[Step] = []
    for wanted in atime:
        for mount in _without(fs, wanted, places):
            if not remountable(mount):
                return ()
            change = _atime_change(mount, wanted)
            steps += _atime_steps(fs, change)
            fs = _after(fs, change)
    if tokens:
        options = (
            change_by_new_mount(fs, tokens, explicit=True)
            if by_new_mount
            else change_options(fs, tokens)
        )
        if not options:
            return ()
        steps += options
    return tuple(sorted(merged(steps), key=lambda each: each.phase is Phase.VERIFY))


def _without(fs: Filesystem, flag: str, places: Collection[str] | None) -> list[Mount]:
    here = [m for m in fs.mounts if places is None or m.mount_point in places]
    return [mount for mount in here if flag not in mount.mount_options]


def _atime_change(mount: Mount, wanted: str) -> FlagChange:
    before = [flag for flag in flags_in_force(mount) if flag in ATIME_OPTIONS]
    kept = tuple(each for each in mount.mount_options if each not in ATIME_OPTIONS)
    return FlagChange(
        before=mount,
        after=mount._replace(mount_options=(*kept, wanted)),
        apply=(wanted,),
        undo=tuple(before),
        drop=ATIME_OPTIONS.keys() - {wanted},
        add=(wanted,),
    )


def _atime_steps(fs: Filesystem, change: FlagChange) -> tuple[Step, ...]:
    check = flag_check(quote(change.before.mount_point), change.apply[0])
    return _by_remount(fs, change, (check,))


def _after(fs: Filesystem, change: FlagChange) -> Filesystem:
    """Return the filesystem after a change, with its mount and fstab entries updated."""
    mounts = tuple(change.after if mount == change.before else mount for mount in fs.mounts)
    if not isinstance(fs.fstab, Known):
        return fs._replace(mounts=mounts)
    entries = tuple(
        entry._replace(line=_edited(entry.line, change)) if _is_concerned(entry, change) else entry
        for entry in fs.fstab.value
    )
    return fs._replace(mounts=mounts, fstab=Known(entries, fs.fstab.origin))


def _edited(line: FstabLine, change: FlagChange) -> FstabLine:
    """Return the line after its edit."""
    edit = edit_options(line, change.drop, change.add)
    if edit is None or not isinstance(edit.change, LineEdit):
        return line
    kept = [option for option in line.options if option not in change.drop]
    options = (*kept, *(option for option in change.add if option not in kept))
    raw = ",".join(options) or "defaults"
    return line._replace(options=options, raw_options=raw, text=edit.change.after)


def flag_check(where: str, flag: str) -> Command:
    """Return the command that fails if a mount does not have a flag.

    The mount table shows strictatime as the absence of relatime and noatime.
    """
    options = f"{mount_table(where, 'OPTIONS')} | tr , '\\n'"
    check = f"{options} | grep -qx {flag}"
    if flag == "strictatime":
        check = f"{options} | grep -q . && ! {options} | grep -qxE 'relatime|noatime'"
    return Command(check, FINDMNT)

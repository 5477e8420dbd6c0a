"""Remount a filesystem, or mount it again, so that only the named options change.

Device and directory are named, so that no mount(8) reads fstab: it finds a line there by the
directory alone, also one that names another device, and takes flags and options from it. Without
fstab it takes the flags from the command line only, so that all in force are repeated. ext4 keeps
each option of its own that a remount does not name (util-linux 2.38 and busybox 1.35 on 6.18;
mount(8) of util-linux 2.23 and later documents it).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    CLEARED,
    MOUNT_FLAGS,
    SUPERBLOCK_FLAGS,
    EffectiveOption,
    FstabLine,
    Mount,
    flags_in_force,
)
from ext4audit.facts.options import recognize
from ext4audit.finding import Phase, Remount, Step
from ext4audit.remedies import in_phase, quote

SPELLED = {"nodioread_nolock": "dioread_lock"}
"""What to type for a token that older kernels refuse: nodioread_nolock is unknown before 5.6."""
NOT_BY_REMOUNT = frozenset({"data", "delalloc", "journal_async_commit", "nombcache", "dax"})
"""Options that make a remount fail where it names another state of them. The others never could
change, journal_async_commit where data is ordered (5.10, 6.1, 6.12 and 7.2 booted)."""
DELALLOC_STAYS_SINCE = (6, 13)
"""From here on delalloc may not be switched off by remount: allowed on 6.12.95, refused on 6.18
and 7.2 ("can't disable delalloc during remount")."""


def usable_mount(fs: Filesystem) -> Mount | None:
    """Return the mount to work on: of the whole tree, not overmounted, ro as the superblock is.

    A remount sets the superblock's ro as well as the mount's, so that one through a read-only
    mount of a writable filesystem would make all of it read-only.
    """
    seen = [m for m in sorted(fs.mounts, key=lambda m: m.mount_id) if not m.overmounted]
    whole = [mount for mount in seen if mount.root == "/"]
    fitting = (m for m in whole if ("ro" in m.mount_options) == ("ro" in m.super_options))
    return next(fitting, None)


def without_mount(fs: Filesystem) -> str:
    """Return the clause on where to work when `usable_mount` finds none."""
    if not fs.mounts:
        return "in the mount namespace that has it mounted"
    if all(mount.overmounted for mount in fs.mounts):
        return "as soon as no other mount hides it"
    return "through a mount of the whole filesystem, which this namespace lacks"


def fstab_line(fs: Filesystem, mount: Mount) -> FstabLine | None:
    """Return the line of fstab that mount(8) reads for a mount, if it names this device."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    return next((entry.line for entry in entries if entry.is_for(mount)), None)


def typed(token: str) -> str:
    """Return the spelling of a token that every kernel accepts as input."""
    return SPELLED.get(token, token)


def remount_command(mount: Mount, options: Sequence[str]) -> str:
    """Return the command that changes the named options and flags, and nothing else."""
    return _remount(mount, ("remount", *_with(flags_in_force(mount), options)))


def bind_command(mount: Mount, flags: Sequence[str]) -> str:
    """Return the command that changes flags of one mount, and not those of the superblock."""
    own = "ro" if "ro" in mount.mount_options else "rw"
    present = (f for f in flags_in_force(mount) if f not in SUPERBLOCK_FLAGS | {"ro", "rw"})
    return _remount(mount, ("remount", "bind", *_with((own, *present), flags)))


def _remount(mount: Mount, words: Sequence[str]) -> str:
    """Return the command. Any word does for the device, which the kernel does not look at."""
    source = quote(mount.source) if mount.source else None
    return f"mount -o {quote(','.join(words))} {source or 'none'} {quote(mount.mount_point)}"


def remount_step(
    mount: Mount, after: Sequence[str], before: Sequence[str], done: Sequence[str] = ()
) -> Step:
    """Return the step that puts `after` in force, and `before` back; `done` are its checks."""
    return Step(
        Phase.IMMEDIATE,
        remount_command(mount, after),
        undo=remount_command(mount, before) if before else "",
        done=" && ".join(done),
        change=Remount(mount.mount_point, tuple(before), tuple(after)),
    )


def _with(flags: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return flags and options without flags that an option replaces: the last does not always win.

    Seen with util-linux 2.38 on 6.18: noatime, then relatime, leaves noatime in force.
    """
    replaced = set(filter(None, map(CLEARED.get, options))) | set(options)
    if not ATIME_OPTIONS.keys().isdisjoint(options):
        replaced |= set(ATIME_OPTIONS)
    if "ro" in options:
        replaced.add("rw")
    return (*(flag for flag in flags if flag not in replaced), *options)


def mount_again(fs: Filesystem, mount: Mount, tokens: Sequence[str], names: Collection[str]) -> str:
    """Return the command that mounts as now after an unmount, with `tokens` for `names`."""
    others = (t for t in mount.super_options if _name(t) is not None and _name(t) not in names)
    options = quote(",".join((*flags_in_force(mount), *others, *tokens)))
    where = quote(mount.mount_point)
    return f"mount -t {quote(mount.fstype)} -o {options} {quote(fs.device)} {where}"


def _name(token: str) -> str | None:
    """Return the name of the option that a token spells."""
    known = recognize(token)
    return known[0].name if known else None


def revert_steps(
    fs: Filesystem, mount: Mount, options: Sequence[EffectiveOption]
) -> tuple[Step, ...]:
    """Return the steps that remount with the baseline of options that a mount call set.

    Empty where an option has no known baseline, or where a remount may not change it.
    """
    before = [typed(option.token) for option in options]
    after = [typed(option.baseline) for option in options if option.baseline]
    blocked = NOT_BY_REMOUNT.intersection(option.name for option in options)
    if blocked or len(after) < len(options) or quote(mount.mount_point) is None:
        return ()
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    checks = [f"! grep -qx {option.token} {path}" for option in options]
    return (remount_step(mount, after, before, checks), *in_phase(Phase.VERIFY, checks))


def remount_by_fstab(
    fs: Filesystem, mount: Mount, changed: Sequence[tuple[str, str]], flags: Sequence[str]
) -> tuple[Step, ...]:
    """Return the steps that put what an fstab entry sets in force.

    `changed` are the options that come into force, each with its present token; `flags` those of
    the mount.
    """
    where = quote(mount.mount_point)
    if where is None:
        return ()
    checks = [f"grep -qx {intended} /proc/fs/ext4/{fs.name}/options" for intended, _ in changed]
    checks += [_flag_check(where, flag) for flag in flags]
    after = [*flags, *(typed(token) for token, _ in changed)]
    before = [*_opposites(mount, flags), *(typed(token) for _, token in changed)]
    return (remount_step(mount, after, before, checks), *in_phase(Phase.VERIFY, checks))


def _opposites(mount: Mount, flags: Sequence[str]) -> list[str]:
    """Return the options that take flags back: the opposites, and the access times in force."""
    atime = [flag for flag in flags_in_force(mount) if flag in ATIME_OPTIONS]
    return [
        *opposites_of(flags),
        *(atime if not ATIME_OPTIONS.keys().isdisjoint(flags) else ()),
    ]


def opposites_of(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the options that clear flags of mount(8), other than access times."""
    opposites = {flag: opposite for opposite, flag in CLEARED.items()}
    return tuple(opposites[flag] for flag in flags if flag in MOUNT_FLAGS)


def _flag_check(where: str, flag: str) -> str:
    """Return the check of a flag; the mount table shows strictatime by neither of the others."""
    options = f"findmnt -no OPTIONS {where} | tr , '\\n'"
    if flag == "strictatime":
        return f"findmnt -n {where} && ! {options} | grep -qxE 'relatime|noatime'"
    return f"{options} | grep -qx {flag}"

"""Remount a filesystem so that only the named options change.

Seen on Linux 6.18 with util-linux 2.38: `mount -o remount,X DIR` takes the flags from fstab, so a
filesystem mounted by hand as ro,nosuid,noexec became rw without either when fstab had defaults;
and it fails when fstab holds an option that no remount may change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    CLEARED,
    FstabLine,
    Mount,
    flags_in_force,
    intended_flags,
)
from ext4audit.facts.option_table import recognize
from ext4audit.facts.options import EffectiveOption, Provenance
from ext4audit.finding import Phase, Step
from ext4audit.remedies import in_phase, quote

SPELLED = {"nodioread_nolock": "dioread_lock"}
"""What to type for a token that older kernels refuse: nodioread_nolock is unknown before 5.6."""
NOT_BY_REMOUNT = frozenset({"data", "delalloc", "journal_async_commit", "nombcache", "dax"})
"""Options that make a remount fail where fstab and the mount disagree on them. The others never
could change, journal_async_commit where data is ordered (5.10, 6.1, 6.12 and 7.2 booted)."""
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
        return "once no other mount hides it"
    return "through a mount of the whole filesystem, which is not here"


def fstab_line(fs: Filesystem, mount: Mount) -> FstabLine | None:
    """Return the line of fstab that mount(8) reads for a mount, if it names this device."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    return next((entry.line for entry in entries if entry.is_for(mount)), None)


def typed(token: str) -> str:
    """Return the spelling of a token that every kernel accepts as input."""
    return SPELLED.get(token, token)


def remount_command(
    fs: Filesystem, mount: Mount, tokens: Sequence[str], names: Collection[str]
) -> str:
    """Return the command that puts `tokens`, the states of the options `names`, in force.

    By mount point only, because `DEVICE DIR` replaces all flags. fstab is left out, and the
    flags are repeated as they are, where fstab would change something else or block it.
    """
    where = quote(mount.mount_point)
    if _fstab_agrees(fs, mount, names):
        return f"mount -o {quote(','.join(('remount', *tokens)))} {where}"
    repeated = _repeated(fs, mount, names)
    if repeated is None:
        everything = ",".join(("remount", *flags_in_force(mount), *tokens))
        return f"mount --options-source=disable -o {quote(everything)} {where}"
    return f"mount -o {quote(','.join(('remount', *repeated, *tokens)))} {where}"


def _repeated(fs: Filesystem, mount: Mount, names: Collection[str]) -> tuple[str, ...] | None:
    """Return what keeps all that fstab would change: the last option wins, on every util-linux.

    None where an option of fstab has no opposite, or makes the remount fail before it is
    overruled.
    """
    line = fstab_line(fs, mount)
    options = fs.options.value if isinstance(fs.options, Known) else None
    if line is None or options is None or any(_blocking(fs, line, names)):
        return None
    asked = intended_flags(line.options) - set(flags_in_force(mount)) - ATIME_OPTIONS.keys()
    opposites = {flag: opposite for opposite, flag in CLEARED.items()}
    if not asked <= opposites.keys():
        return None
    kept = []
    for spec, token in filter(None, map(recognize, line.options)):
        option = options.find(spec.name)
        if spec.name in names or (option is not None and option.token == token):
            continue
        if option is None:
            return None
        kept.append(typed(option.token))
    flags = flags_in_force(mount)
    atime = (
        () if set(line.options).isdisjoint(ATIME_OPTIONS.keys() - flags) else _atime_again(flags)
    )
    return (*atime, *flags, *(opposites[flag] for flag in sorted(asked)), *kept)


def _atime_again(flags: Sequence[str]) -> tuple[str, ...]:
    """Return what cancels the atime options before it; the last of them alone does not win.

    Seen with util-linux 2.38 on 6.18: noatime, then relatime, leaves noatime in force.
    """
    if "relatime" in flags:
        return ("atime", "nostrictatime")
    return ("nostrictatime",) if "noatime" in flags else ()


def mount_again(fs: Filesystem, mount: Mount, tokens: Sequence[str], names: Collection[str]) -> str:
    """Return the command that mounts as now after an unmount, with `tokens` for `names`."""
    where = quote(mount.mount_point)
    line = fstab_line(fs, mount)
    if line and _fstab_agrees(fs, mount, names) and not any(_lost(fs, line, names)):
        return f"mount -o {quote(','.join(tokens))} {where}" if tokens else f"mount {where}"
    others = (t for t in mount.super_options if _name(t) is not None and _name(t) not in names)
    options = quote(",".join((*flags_in_force(mount), *others, *tokens)))
    return f"mount -t {quote(mount.fstype)} -o {options} {quote(fs.device)} {where}"


def _fstab_agrees(fs: Filesystem, mount: Mount, names: Collection[str]) -> bool:
    """Whether a remount by mount point changes nothing but the options `names`."""
    if isinstance(fs.fstab, Unknown):
        return False
    line = fstab_line(fs, mount)
    if line is None:
        return True  # mount(8) then takes the flags from the mount table
    same_flags = intended_flags(line.options) == set(flags_in_force(mount)) - {"rw"}
    return same_flags and not any(_changing(fs, line, names))


def _changing(fs: Filesystem, line: FstabLine, names: Collection[str]) -> Iterator[str]:
    """Yield the ext4 options of a line, beside `names`, that a remount would put in force.

    A remedy for another option once switched barriers off, because fstab had nobarrier.
    """
    options = fs.options.value if isinstance(fs.options, Known) else None
    for spec, token in filter(None, map(recognize, line.options)):
        option = options.find(spec.name) if options else None
        if spec.name not in names and (option is None or option.token != token):
            yield token


def _lost(fs: Filesystem, line: FstabLine, names: Collection[str]) -> Iterator[str]:
    """Yield what only the running mount has, beside `names`: a mount by fstab would lose it."""
    options = fs.options.value.options if isinstance(fs.options, Known) else ()
    asked = {known[1] for known in map(recognize, line.options) if known is not None}
    for option in options:
        by_hand = option.set_by is Provenance.MOUNT and option.token != option.baseline
        if by_hand and option.name not in names and option.token not in asked:
            yield option.token


def _blocking(fs: Filesystem, line: FstabLine, names: Collection[str]) -> Iterator[str]:
    """Yield the options of a line that would make a remount of the filesystem fail."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    for written in line.options:
        known = recognize(written)
        if known is None or known[0].name not in NOT_BY_REMOUNT - set(names):
            continue
        in_force = options.find(known[0].name) if options else None
        if in_force is None or in_force.token != known[1]:
            yield written


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
    names = [option.name for option in options]
    blocked = NOT_BY_REMOUNT.intersection(names)
    if blocked or len(after) < len(options) or quote(mount.mount_point) is None:
        return ()
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    return (
        Step(Phase.IMMEDIATE, remount_command(fs, mount, after, names)),
        *in_phase(Phase.VERIFY, (f"! grep -qx {option.token} {path}" for option in options)),
        Step(Phase.ROLLBACK, remount_command(fs, mount, before, names)),
    )


def remount_by_fstab(
    fs: Filesystem,
    mount: Mount,
    changed: Sequence[tuple[str, str]],
    flags: Sequence[str],
    kept_flags: Sequence[str],
) -> tuple[Step, ...]:
    """Return the steps that put a whole fstab entry in force.

    `changed` are the options that come into force, each with its present token; `flags` those of
    the mount. `kept_flags` are in force and not in fstab. Without an atime option a remount keeps
    the one in force, and "atime" is none.
    """
    where = quote(mount.mount_point)
    if where is None:
        return ()
    checks = [f"grep -qx {intended} /proc/fs/ext4/{fs.name}/options" for intended, _ in changed]
    checks += [_flag_check(where, flag) for flag in flags]
    atime = [flag for flag in flags if flag in ATIME_OPTIONS]
    before = ",".join((*flags_in_force(mount), *(typed(token) for _, token in changed)))
    return (
        Step(Phase.IMMEDIATE, f"mount -o {','.join(('remount', *atime, *kept_flags))} {where}"),
        *in_phase(Phase.VERIFY, checks),
        Step(Phase.ROLLBACK, f"mount --options-source=disable -o remount,{before} {where}"),
    )


def _flag_check(where: str, flag: str) -> str:
    """Return the check of a flag; the mount table shows strictatime by neither of the others."""
    options = f"findmnt -no OPTIONS {where} | tr , '\\n'"
    if flag == "strictatime":
        return f"findmnt -n {where} && ! {options} | grep -qxE 'relatime|noatime'"
    return f"{options} | grep -qx {flag}"

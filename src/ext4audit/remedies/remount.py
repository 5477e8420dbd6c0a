"""Change options of a mounted filesystem without changing what else was mounted with it.

Seen on Linux 6.18 with util-linux 2.38: `mount -o remount,X DIR` takes the flags from fstab, so a
filesystem mounted by hand as ro,nosuid,noexec became rw without either when fstab said defaults;
and it fails when fstab holds an option that no remount may change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    CLEARED,
    MOUNT_FLAGS,
    SUPERBLOCK_FLAGS,
    FstabLine,
    Mount,
    flags_of,
)
from ext4audit.facts.option_table import recognize
from ext4audit.facts.options import Provenance
from ext4audit.remedies.shell import quote

SPELLED = {"nodioread_nolock": "dioread_lock"}
"""What to type for a token that older kernels refuse: nodioread_nolock is unknown before 5.6."""
NOT_BY_REMOUNT = frozenset({"data", "delalloc", "journal_async_commit", "nombcache", "dax"})
"""Options that make a remount fail where fstab and the mount disagree on them. The others never
could change, journal_async_commit where data is ordered (5.10, 6.1, 6.12 and 7.2 booted)."""
DELALLOC_STAYS_SINCE = (6, 13)
"""From here on delalloc may not be switched off by remount: allowed on 6.12.95, refused on 6.18
and 7.2 ("can't disable delalloc during remount")."""


def usable_mount(fs: Filesystem) -> Mount | None:
    """Return the mount to work on: of the whole tree, not covered, read-only as the superblock.

    A remount sets the superblock's ro as well as the mount's, so that one through a read-only
    mount of a writable filesystem would make all of it read-only.
    """
    seen = [m for m in sorted(fs.mounts, key=lambda m: m.mount_id) if not m.overmounted]
    whole = [mount for mount in seen if mount.root == "/"]
    fitting = (m for m in whole if ("ro" in m.mount_options) == ("ro" in m.super_options))
    return next(fitting, None)


def without_mount(fs: Filesystem) -> str:
    """Return the words for why `usable_mount` finds none."""
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
    said = _said_again(fs, mount, names)
    if said is None:
        everything = ",".join(("remount", *flags_in_force(mount), *tokens))
        return f"mount --options-source=disable -o {quote(everything)} {where}"
    return f"mount -o {quote(','.join(('remount', *said, *tokens)))} {where}"


def _said_again(fs: Filesystem, mount: Mount, names: Collection[str]) -> tuple[str, ...] | None:
    """Return what keeps all that fstab would change: the last word wins, on every util-linux.

    None where a word of fstab has no opposite, or makes the remount fail before it is overruled.
    """
    line = fstab_line(fs, mount)
    options = fs.options.value if isinstance(fs.options, Known) else None
    if line is None or options is None or any(_blocking(fs, line, names)):
        return None
    asked = intended_flags(line.options) - set(flags_in_force(mount)) - ATIME_OPTIONS.keys()
    opposites = {flag: word for word, flag in CLEARED.items()}
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
    """Return what takes back the atime words before it; the last of them alone does not win.

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
    words = quote(",".join((*flags_in_force(mount), *others, *tokens)))
    return f"mount -t {quote(mount.fstype)} -o {words} {quote(fs.device)} {where}"


def flags_in_force(mount: Mount) -> tuple[str, ...]:
    """Return the flags of a mount as mount(8) takes them."""
    flags = [word for word in mount.mount_options if word in MOUNT_FLAGS | ATIME_OPTIONS.keys()]
    atime = () if "relatime" in flags or "noatime" in flags else ("strictatime",)
    shared = [word for word in mount.super_options if word in SUPERBLOCK_FLAGS]
    return (
        "ro" if "ro" in mount.super_options else "rw",
        *(w for w in flags if w != "ro"),
        *atime,
        *shared,
    )


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
    """Yield the ext4 words of a line, beside `names`, that a remount would put in force.

    A cure for one thing once switched barriers off, because fstab said nobarrier.
    """
    options = fs.options.value if isinstance(fs.options, Known) else None
    for spec, token in filter(None, map(recognize, line.options)):
        option = options.find(spec.name) if options else None
        if spec.name not in names and (option is None or option.token != token):
            yield token


def _lost(fs: Filesystem, line: FstabLine, names: Collection[str]) -> Iterator[str]:
    """Yield what only the running mount has, beside `names`: a mount by fstab would forget it."""
    options = fs.options.value.options if isinstance(fs.options, Known) else ()
    asked = {known[1] for known in map(recognize, line.options) if known is not None}
    for option in options:
        by_hand = option.set_by is Provenance.MOUNT and option.token != option.baseline
        if by_hand and option.name not in names and option.token not in asked:
            yield option.token


def intended_flags(words: Sequence[str]) -> set[str]:
    """Return the flags that a line of fstab asks for; the last word wins."""
    return set(flags_of(words))


def _blocking(fs: Filesystem, line: FstabLine, names: Collection[str]) -> Iterator[str]:
    """Yield the words of a line that would make a remount of the filesystem fail."""
    options = fs.options.value if isinstance(fs.options, Known) else None
    for word in line.options:
        known = recognize(word)
        if known is None or known[0].name not in NOT_BY_REMOUNT - set(names):
            continue
        in_force = options.find(known[0].name) if options else None
        if in_force is None or in_force.token != known[1]:
            yield word


def _name(token: str) -> str | None:
    """Return the name of the option that a token spells."""
    known = recognize(token)
    return known[0].name if known else None

"""Change options of a mounted filesystem without changing what else was mounted with it.

Seen on Linux 6.18 with util-linux 2.38: `mount -o remount,X DIR` takes the flags from fstab, so a
filesystem mounted by hand as ro,nosuid,noexec became rw without either when fstab said defaults;
and it fails when fstab holds an option that no remount may change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import FstabLine, Mount
from ext4audit.facts.option_table import recognize
from ext4audit.rules._shell import quote

SUPERBLOCK_FLAGS = frozenset({"sync", "dirsync", "lazytime", "mand"})
"""Flags that mountinfo lists beside ext4's options; a remount clears those that it omits."""
MOUNT_FLAGS = SUPERBLOCK_FLAGS | {"ro", "nosuid", "nodev", "noexec", "nodiratime", "nosymfollow"}
ATIME_WORDS = {
    "noatime": "noatime",
    "relatime": "relatime",
    "atime": "relatime",
    "strictatime": "strictatime",
    "norelatime": "strictatime",
}
IMPLIED = {
    "user": {"nosuid", "nodev", "noexec"},
    "users": {"nosuid", "nodev", "noexec"},
    "owner": {"nosuid", "nodev"},
    "group": {"nosuid", "nodev"},
}
"""What words of fstab imply unless a later word says otherwise (mount(8))."""
CLEARED = {
    "rw": "ro",
    "suid": "nosuid",
    "dev": "nodev",
    "exec": "noexec",
    "diratime": "nodiratime",
    "symfollow": "nosymfollow",
    "async": "sync",
    "nolazytime": "lazytime",
    "nomand": "mand",
}
NOT_BY_REMOUNT = frozenset({"data", "delalloc", "journal_async_commit", "nombcache", "dax"})
"""Options that make a remount fail where fstab and the mount disagree on them. The others never
could change, journal_async_commit where data is ordered (5.10, 6.1, 6.12 and 7.2 booted)."""
DELALLOC_STAYS_SINCE = (6, 13)
"""From here on delalloc may not be switched off by remount: allowed on 6.12.95, refused on 6.18
and 7.2 ("can't disable delalloc during remount")."""


def usable_mount(fs: Filesystem) -> Mount | None:
    """Return the mount to work on: of the whole tree, and read-only only if the superblock is.

    A remount sets the superblock's ro as well as the mount's, so that one through a read-only
    mount of a writable filesystem would make all of it read-only.
    """
    whole = [mount for mount in sorted(fs.mounts, key=lambda m: m.mount_id) if mount.root == "/"]
    fitting = (m for m in whole if ("ro" in m.mount_options) == ("ro" in m.super_options))
    return next(fitting, None)


def fstab_line(fs: Filesystem, mount_point: str) -> FstabLine | None:
    """Return the line of fstab that mount(8) reads for a mount point, if it names this device."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    return next((e.line for e in entries if e.line.mount_point == mount_point), None)


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
    everything = quote(",".join(("remount", *flags_in_force(mount), *tokens)))
    return f"mount --options-source=disable -o {everything} {where}"


def mount_again(fs: Filesystem, mount: Mount, tokens: Sequence[str], names: Collection[str]) -> str:
    """Return the command that mounts as now after an unmount, with `tokens` for `names`."""
    where = quote(mount.mount_point)
    if fstab_line(fs, mount.mount_point) and _fstab_agrees(fs, mount, names):
        return f"mount -o {quote(','.join(tokens))} {where}" if tokens else f"mount {where}"
    others = (t for t in mount.super_options if _name(t) is not None and _name(t) not in names)
    words = quote(",".join((*flags_in_force(mount), *others, *tokens)))
    return f"mount -t {quote(mount.fstype)} -o {words} {quote(fs.device)} {where}"


def flags_in_force(mount: Mount) -> tuple[str, ...]:
    """Return the flags of a mount as mount(8) takes them."""
    flags = [word for word in mount.mount_options if word in MOUNT_FLAGS | ATIME_WORDS.keys()]
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
    line = fstab_line(fs, mount.mount_point)
    if line is None:
        return True  # mount(8) then takes the flags from the mount table
    same_flags = intended_flags(line.options) == set(flags_in_force(mount)) - {"rw"}
    return same_flags and not any(_blocking(fs, line, names))


def intended_flags(words: Sequence[str]) -> set[str]:
    """Return the flags that a line of fstab asks for; the last word wins."""
    flags: set[str] = set()
    atime = "relatime"
    for word in words:
        flags |= IMPLIED.get(word, set())
        flags |= {word} & MOUNT_FLAGS
        flags -= {CLEARED.get(word, "")}
        atime = ATIME_WORDS.get(word, atime)
    return flags | {atime}


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

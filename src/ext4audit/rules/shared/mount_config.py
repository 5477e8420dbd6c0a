"""How a mount is configured: its fstab entry and, for the root, rootflags= of the boot loader."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, Why, need, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import (
    ATIME_OPTIONS,
    SUPERBLOCK_FLAGS,
    FstabEntry,
    Mount,
    flags_in_force,
    intended_flags,
)
from ext4audit.facts.options import (
    NOT_EXT4_OPTIONS,
    NOT_EXT4_OPTIONS_WITH_VALUE,
    VALUES_OF_FLAGS,
    recognize,
)
from ext4audit.finding import Citation, Severity
from ext4audit.rule import NotApplicable
from ext4audit.rules.shared import FSTAB_OF_CONTAINER, refuse_container, rootflags

SHOWN_OTHERWISE = frozenset(
    # The kernel takes stripe from the superblock, shows quota options by feature and state,
    # and the others always or never by version: an explicit option is no evidence of drift either.
    "stripe i_version quota usrquota grpquota prjquota usrjquota grpjquota "
    "jqfmt sb mb_optimize_scan journal_checksum emergency_ro shutdown abort".split()
)
"""Options that are never compared with fstab."""
NOT_COMPARED = SHOWN_OTHERWISE | {"errors", "resuid", "resgid"}
"""Options that are no drift when in force and not configured: superblock fields set them."""

WEIGHTY = frozenset(
    "barrier data delalloc dioread_nolock auto_da_alloc norecovery journal_async_commit".split()
)
"""Options that rules of durability and speed judge: when they change, a verdict changes."""
HARDENING = frozenset({"nosuid", "nodev", "noexec", "ro"})
"""Per-mount flags that protect."""
PROTECTING = HARDENING - {"ro"}
"""Those that SEC002 judges when they are lost, and DRF002 leaves to it."""
CMDLINE = "/proc/cmdline rootflags="
FOR_OTHERS = frozenset(
    "context fscontext defcontext rootcontext seclabel loop offset sizelimit uhelper helper".split()
)
"""Options that mount(8) or a security module takes. SELinux puts seclabel in the mount table, and
takes it back (security/selinux/hooks.c)."""


class MountConfig(NamedTuple):
    """One mount of a filesystem and the fstab entry that configures it.

    `tokens` are the ext4 options that the entry sets, canonical, by name; `dead` are its tokens
    that are no option of ext4, mount(8) or systemd that this table knows. `boot_options` are
    those of rootflags=, for the root only. The entry on `first_line` mounts the superblock, and
    the others only mount it again: the kernel then ignores their superblock options. Of several
    lines for one mount point only the one on `used_line` is ever read (fstab(5), mount(8),
    systemd-fstab-generator(8)).
    """

    mount: Mount
    entry: FstabEntry
    boot_options: tuple[str, ...]
    first_line: int
    used_line: int

    @property
    def is_repeated(self) -> bool:
        """Whether another line for the same mount point comes before this one."""
        return self.entry.line.line_number != self.used_line

    @property
    def first(self) -> bool:
        """Whether this entry mounts the superblock."""
        return self.entry.line.line_number == self.first_line

    @property
    def tokens(self) -> Mapping[str, str]:
        """The ext4 options that fstab sets."""
        return tokens_by_name(self.entry.line.options)

    @property
    def boot_tokens(self) -> Mapping[str, str]:
        """The ext4 options that only rootflags= sets; fstab is applied after it."""
        given = tokens_by_name(self.boot_options)
        return {name: token for name, token in given.items() if name not in self.tokens}

    @property
    def dead(self) -> tuple[str, ...]:
        """The tokens of fstab that nothing recognizes."""
        return _dead(self.entry.line.options)

    @property
    def boot_dead(self) -> tuple[str, ...]:
        """The tokens of rootflags= that nothing recognizes."""
        return _dead(self.boot_options)

    @property
    def live_flags(self) -> frozenset[str]:
        """The flags in force on the mount, "rw" left out; a later mount has no superblock flags."""
        flags = {*flags_in_force(self.mount), *{"ro"}.intersection(self.mount.mount_options)}
        return frozenset(flags - {"rw"} - (set() if self.first else SUPERBLOCK_FLAGS))

    @property
    def origin(self) -> str:
        """The line of fstab."""
        return f"/etc/fstab {self.entry.line.where}"

    def cite(self) -> tuple[Citation, ...]:
        """Return both sides: what is configured and what the mount table shows."""
        line = self.entry.line
        shown = ",".join(dict.fromkeys((*self.mount.mount_options, *self.mount.super_options)))
        boot = [Citation("rootflags", ",".join(self.boot_options), "/proc/cmdline")]
        return (
            Citation("fstab options", line.raw_options or "defaults", self.origin),
            *(boot if self.boot_options else ()),
            Citation("mount table", shown, "/proc/self/mountinfo"),
        )


def configured_flags(tokens: Sequence[str]) -> frozenset[str]:
    """Return the flags that tokens set; relatime, the default, only where a token sets it.

    A remount without an atime option keeps the one in force, so that `defaults` sets none.
    """
    has_atime = any(token in ATIME_OPTIONS for token in tokens)
    default = frozenset() if has_atime else frozenset(ATIME_OPTIONS)
    return frozenset(intended_flags(tokens)) - default


def severity_of(names: Iterable[str], flags: Iterable[str]) -> Severity:
    """Return how bad it is that these options (by name) and per-mount flags have drifted."""
    weighty = WEIGHTY.intersection(names) or HARDENING.intersection(flags)
    return Severity.MEDIUM if weighty else Severity.LOW


def configs_of(
    fs: Filesystem, host: Host, *, with_repeated: bool = False
) -> tuple[MountConfig, ...]:
    """Return what fstab configures for each mount of a filesystem's whole tree.

    `with_repeated` adds the lines that name a mount point of its again, and are never used.

    They are in fstab's order, but the root first: it is mounted before fstab can be read.
    Raises NotApplicable where fstab has no entry for it, Undetermined where fstab is unread
    or where it is not known whether an entry means this filesystem.
    """
    if not need(fs.mounted_here):
        raise NotApplicable("not mounted in this mount namespace")
    refuse_container(host, FSTAB_OF_CONTAINER)
    pairs = _pairs(fs, need(fs.fstab))
    numbers = (entry.device_number for _, entry in pairs)
    raise_for(number for number in numbers if isinstance(number, Unknown))
    if not pairs:
        raise NotApplicable("no fstab entry for it: what mounts it again is not known")
    first_line = pairs[0][1].line.line_number
    used = {entry.place: entry.line.line_number for _, entry in pairs}
    again = _repeated(pairs, need(fs.fstab)) if with_repeated else []
    boot = need(rootflags(host)) if "/" in used else ()
    return tuple(
        MountConfig(m, entry, boot if m.mount_point == "/" else (), first_line, used[entry.place])
        for m, entry in (*pairs, *again)
    )


def doubtful_repeats(fs: Filesystem) -> Iterator[Unknown]:
    """Yield why it is not known whether further lines of its mount points mean this filesystem.

    A device that certainly is not there is not its own.
    """
    entries = need(fs.fstab)
    places = {entry.place: entry for _, entry in _pairs(fs, entries)}
    for entry in entries:
        number, used = entry.device_number, places.get(entry.place, entry)
        if used is not entry and isinstance(number, Unknown) and number.why is not Why.ABSENT:
            yield number


def _pairs(fs: Filesystem, entries: Sequence[FstabEntry]) -> list[tuple[Mount, FstabEntry]]:
    """Pair each mount point with its first entry; entries that name the device come first.

    No entry is of a part of a filesystem, but for the root: that of an ostree system shows one
    directory, and systemd-remount-fs.service(8) gives it the options of its entry.
    """
    whole = {m.mount_point: m for m in fs.mounts if m.root == "/" or m.mount_point == "/"}
    found: dict[str, tuple[Mount, FstabEntry]] = {}
    for entry in sorted(entries, key=lambda entry: isinstance(entry.device_number, Unknown)):
        mount = whole.get(entry.place)
        if mount is not None:
            found.setdefault(entry.place, (mount, entry))
    return sorted(
        found.values(), key=lambda pair: (pair[0].mount_point != "/", pair[1].line.line_number)
    )


def _repeated(
    pairs: Sequence[tuple[Mount, FstabEntry]], entries: Sequence[FstabEntry]
) -> list[tuple[Mount, FstabEntry]]:
    """Return the further entries of the mount points; one with `noauto` is kept for later use."""
    mounts = {entry.place: mount for mount, entry in pairs}
    used = {entry.line.line_number for _, entry in pairs}
    return [
        (mounts[entry.place], entry)
        for entry in entries
        if entry.place in mounts
        and entry.line.line_number not in used
        and isinstance(entry.device_number, Known)
        and "noauto" not in entry.line.options
    ]


def tokens_by_name(tokens: Iterable[str]) -> dict[str, str]:
    """Return the canonical tokens of ext4 options by name; the last one counts."""
    return {spec.name: token for spec, token in filter(None, map(recognize, tokens))}


def _dead(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(token for token in tokens if recognize(token) is None and not is_for_others(token))


def is_for_others(token: str) -> bool:
    """Whether mount(8), the VFS, systemd or a security module takes the token."""
    key, _, value = token.partition("=")
    if key in NOT_EXT4_OPTIONS:
        return key in NOT_EXT4_OPTIONS_WITH_VALUE or value in VALUES_OF_FLAGS
    return not token or key.startswith(("x-", "X-", "comment", "verity.")) or key in FOR_OTHERS

"""How a mount is configured: its fstab entry and, for the root, rootflags= of the boot loader."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Known,
    Unknown,
    Why,
    derive,
    for_wording,
    need,
    raise_for,
)
from ext4audit.facts.features_and_bugs import REFUSED_BY_REMOUNT
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
from ext4audit.rules.shared import (
    FSTAB_OF_CONTAINER,
    cite_fstab_options,
    refuse_container,
    rootflags,
)

SHOWN_OTHERWISE = frozenset(
    # The kernel takes stripe from the superblock and shows quota options by feature and state.
    # Its version decides on the others. Even an explicit option is no evidence of drift here.
    "stripe i_version quota usrquota grpquota prjquota usrjquota grpjquota "
    "jqfmt sb mb_optimize_scan journal_checksum emergency_ro shutdown abort".split()
)
"""Options that are never compared with fstab."""
NOT_COMPARED = SHOWN_OTHERWISE | {"resuid", "resgid"}
"""Options that may be in force without being configured, because superblock fields set them."""

WEIGHTY = frozenset(
    "barrier data delalloc dioread_nolock auto_da_alloc norecovery journal_async_commit".split()
)
"""Options that durability and performance rules judge: drift in them can change a verdict."""
HARDENING = frozenset({"nosuid", "nodev", "noexec", "ro"})
"""Per-mount flags that restrict what users can do on a mount."""
PROTECTING = HARDENING - {"ro"}
"""Hardening flags whose loss SEC002 reports instead of DRF002."""
CMDLINE = "/proc/cmdline rootflags="
MOUNTED_LATER = frozenset({"noauto", "x-systemd.automount"})
"""Options of lines that a boot does not mount by itself."""
FOR_OTHERS = frozenset(
    "context fscontext defcontext rootcontext seclabel loop offset sizelimit uhelper helper".split()
)
"""Options for mount(8) or a security module. SELinux shows seclabel in the mount table, and also
accepts it as an option (security/selinux/hooks.c)."""


def refused_by_remount(host: Host, name: str, token: str) -> Evidence[bool]:
    """Return whether a remount that sets a token is refused if another state is in force."""
    first = REFUSED_BY_REMOUNT.get(name)
    if first is None or token == "delalloc":  # noqa: S105 - an option
        return Known(value=False, origin="")
    if not first:
        return Known(value=True, origin="")
    return derive(f"remount with {token}", lambda kernel: kernel.since(*first), host.kernel)


def refused_at_boot(fs: Filesystem, host: Host, name: str, token: str) -> bool:
    """Return whether an option in fstab may make the boot's remount of the root fail (DRF004)."""
    return "/" in fs.mount_points and for_wording(refused_by_remount(host, name, token), True)


class MountConfig(NamedTuple):
    """One mount of a filesystem and the fstab entry that configures it.

    `tokens` maps the names of the ext4 options that the entry sets to canonical tokens; `dead`
    are its tokens that are not known options of ext4, mount(8) or systemd. `boot_options` are
    the options in rootflags=, for the root only. The entry on `first_line` mounts the superblock;
    the others only add mounts of it, for which the kernel ignores superblock options. Of several
    lines for the same mount point, only the one on `used_line` is used (fstab(5), mount(8),
    systemd-fstab-generator(8)).
    """

    mount: Mount
    entry: FstabEntry
    boot_options: tuple[str, ...]
    first_line: int
    used_line: int

    @property
    def is_repeated(self) -> bool:
        """Whether another line for the same mount point is used instead of this one."""
        return self.entry.line.line_number != self.used_line

    @property
    def first(self) -> bool:
        """Whether this entry is the one that mounts the superblock."""
        return self.entry.line.line_number == self.first_line

    @property
    def is_remount_of_root(self) -> bool:
        """Whether the boot applies the entry by a remount of the root.

        The initramfs of NixOS has the options of the line, and mounts the root with them
        (fsInfo in nixos/modules/system/boot/stage-1-init.sh).
        """
        return self.mount.mount_point == "/" and self.entry.line.generator != "NixOS"

    @property
    def tokens(self) -> Mapping[str, str]:
        """The ext4 options that fstab sets."""
        return tokens_by_name(self.entry.line.options)

    @property
    def boot_tokens(self) -> Mapping[str, str]:
        """The ext4 options that only rootflags= sets; fstab is applied later and wins."""
        given = tokens_by_name(self.boot_options)
        return {name: token for name, token in given.items() if name not in self.tokens}

    @property
    def dead(self) -> tuple[str, ...]:
        """The fstab tokens that nothing recognizes."""
        return _dead(self.entry.line.options)

    @property
    def boot_dead(self) -> tuple[str, ...]:
        """The rootflags= tokens that nothing recognizes."""
        return _dead(self.boot_options)

    @property
    def live_flags(self) -> frozenset[str]:
        """The flags in force except "rw"; superblock flags only for the first mount."""
        flags = {*flags_in_force(self.mount), *{"ro"}.intersection(self.mount.mount_options)}
        return frozenset(flags - {"rw"} - (set() if self.first else SUPERBLOCK_FLAGS))

    @property
    def origin(self) -> str:
        """The fstab line, as citations name it."""
        return f"/etc/fstab {self.entry.line.where}"

    def cite(self) -> tuple[Citation, ...]:
        """Cite both what is configured and what the mount table shows."""
        line = self.entry.line
        shown = ",".join(dict.fromkeys((*self.mount.mount_options, *self.mount.super_options)))
        boot = [Citation("rootflags", ",".join(self.boot_options), "/proc/cmdline")]
        return (
            cite_fstab_options(line),
            *(boot if self.boot_options else ()),
            Citation("mount table", shown, MOUNT_TABLE),
        )


def configured_flags(tokens: Sequence[str]) -> frozenset[str]:
    """Return the flags that tokens set; relatime, the default, only if a token sets it.

    A remount without an atime option keeps the one in force, so `defaults` sets no atime option.
    """
    has_atime = any(token in ATIME_OPTIONS for token in tokens)
    default = frozenset() if has_atime else frozenset(ATIME_OPTIONS)
    return frozenset(intended_flags(tokens)) - default


def severity_of(names: Iterable[str], flags: Iterable[str]) -> Severity:
    """Return the severity of drift in these options (by name) and per-mount flags."""
    weighty = WEIGHTY.intersection(names) or HARDENING.intersection(flags)
    return Severity.MEDIUM if weighty else Severity.LOW


def configs_of(
    fs: Filesystem, host: Host, *, with_repeated: bool = False
) -> tuple[MountConfig, ...]:
    """Return the fstab configuration of each mount that shows the whole filesystem.

    `with_repeated` adds the lines that repeat one of its mount points and are never used.

    The result is in the order in which a boot mounts them: the root before fstab can be read, then
    the lines of fstab, and last those that are mounted on demand. Raises NotApplicable if fstab has
    no entry for the filesystem, Undetermined if fstab was not read or it is not known whether an
    entry refers to this filesystem.
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
    """Yield why unused fstab lines for its mount points may or may not refer to this filesystem.

    A device that is known to be absent is not the device of this filesystem.
    """
    entries = need(fs.fstab)
    places = {entry.place: entry for _, entry in _pairs(fs, entries)}
    for entry in entries:
        number, used = entry.device_number, places.get(entry.place, entry)
        if used is not entry and isinstance(number, Unknown) and number.why is not Why.ABSENT:
            yield number


def _pairs(fs: Filesystem, entries: Sequence[FstabEntry]) -> list[tuple[Mount, FstabEntry]]:
    """Pair each mount point with its first entry; entries with a known device take precedence.

    Mounts of a subdirectory have no entry, except the root: on an ostree system it shows one
    directory, to which systemd-remount-fs.service(8) applies the options of the root's entry.
    """
    whole = {m.mount_point: m for m in fs.mounts if m.root == "/" or m.mount_point == "/"}
    found: dict[str, tuple[Mount, FstabEntry]] = {}
    for entry in sorted(entries, key=lambda entry: isinstance(entry.device_number, Unknown)):
        mount = whole.get(entry.place)
        if mount is not None:
            found.setdefault(entry.place, (mount, entry))
    return sorted(found.values(), key=_turn)


def _turn(pair: tuple[Mount, FstabEntry]) -> tuple[bool, bool, int]:
    """Return a key that sorts mounts as a boot makes them: the root, the lines of fstab, others."""
    mount, line = pair[0], pair[1].line
    is_later = not MOUNTED_LATER.isdisjoint(line.options)
    return mount.mount_point != "/", is_later, line.line_number


def _repeated(
    pairs: Sequence[tuple[Mount, FstabEntry]], entries: Sequence[FstabEntry]
) -> list[tuple[Mount, FstabEntry]]:
    """Return the unused entries for the mount points; `noauto` entries are meant for manual use."""
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
    """Return the canonical tokens of ext4 options by name; the last token for an option wins."""
    return {spec.name: token for spec, token in filter(None, map(recognize, tokens))}


def _dead(tokens: Iterable[str]) -> tuple[str, ...]:
    return tuple(token for token in tokens if recognize(token) is None and not is_for_others(token))


def is_for_others(token: str) -> bool:
    """Return whether the token is for mount(8), the VFS, systemd or a security module."""
    key, _, value = token.partition("=")
    if key in NOT_EXT4_OPTIONS:
        return key in NOT_EXT4_OPTIONS_WITH_VALUE or value in VALUES_OF_FLAGS
    return not token or key.startswith(("x-", "X-", "comment", "verity.")) or key in FOR_OTHERS

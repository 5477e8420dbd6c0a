"""Mounts in force, fstab entries, the flags of mount(8), device numbers and resolved paths."""

from collections.abc import Iterable, Mapping
from posixpath import normpath
from types import MappingProxyType
from typing import NamedTuple

from ext4audit.evidence import Evidence
from ext4audit.facts import remembered

EXT_FSTYPES = frozenset({"ext2", "ext3", "ext4"})
"""The file system types that the ext4 driver serves and the kernel registers."""


class DeviceNumber(NamedTuple):
    """A device number, printed as the kernel prints it: "9:127"."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"

    @classmethod
    def decoded(cls, encoded: int) -> "DeviceNumber":
        """Return the number that s_journal_dev holds, as new_decode_dev() of the kernel does."""
        return cls((encoded & 0xFFF00) >> 8, (encoded & 0xFF) | ((encoded >> 12) & 0xFFF00))


class Mount(NamedTuple):
    """One line of mountinfo (proc_pid_mountinfo(5)), with octal escapes decoded.

    `mount_options` are per mount (nosuid, relatime, ro of a bind mount); `super_options` belong
    to the superblock and are the same on all its lines. Names are decoded with surrogateescape.
    `overmounted` means that another mount hides it: its mount point leads to the other one.
    """

    mount_id: int
    parent_id: int
    device_number: DeviceNumber
    root: str
    mount_point: str
    mount_options: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...]
    overmounted: bool = False


@remembered
def mounts_by_device(mounts: tuple[Mount, ...]) -> Mapping[DeviceNumber, tuple[Mount, ...]]:
    """Return the mounts of each device, in the order of the table."""
    found: dict[DeviceNumber, list[Mount]] = {}
    for mount in mounts:
        found.setdefault(mount.device_number, []).append(mount)
    return {number: tuple(same) for number, same in found.items()}


@remembered
def mounts_by_place(mounts: tuple[Mount, ...]) -> Mapping[str, tuple[Mount, ...]]:
    """Return the mounts on each mount point, in the order of the table."""
    found: dict[str, list[Mount]] = {}
    for mount in mounts:
        found.setdefault(mount.mount_point, []).append(mount)
    return {place: tuple(same) for place, same in found.items()}


@remembered
def mounts_by_id(mounts: tuple[Mount, ...]) -> Mapping[int, Mount]:
    """Return the first mount with each id."""
    return {mount.mount_id: mount for mount in reversed(mounts)}


class FstabLine(NamedTuple):
    """One entry of fstab(5) with octal escapes decoded; `raw_options` as the file spells them.

    `text` is the whole line as it is in the file, empty where it was not read from one.
    """

    line_number: int
    spec: str
    mount_point: str
    fstype: str
    options: tuple[str, ...]
    raw_options: str
    dump_frequency: int
    fsck_pass: int
    text: str = ""


class FstabEntry(NamedTuple):
    """An fstab line and the device that its first field names on this host.

    `real_mount_point` is the mount point with links resolved, None where that is not known.
    `other_devices` are mounted there and certainly not what the first field names; empty where
    the device is known.
    """

    line: FstabLine
    device_number: Evidence[DeviceNumber]
    real_mount_point: str | None = None
    other_devices: tuple[DeviceNumber, ...] = ()

    def is_for(self, mount: Mount) -> bool:
        """Whether a mount is on the mount point of this entry."""
        return self.place == mount.mount_point

    @property
    def place(self) -> str:
        """The mount point as the mount table spells it; fstab may have it as "//m/./a"."""
        written = self.real_mount_point or self.line.mount_point
        return normpath(f"/{written.lstrip('/')}")

    def mounted_there(self, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        """Return those of a mount table that are on the mount point of this entry."""
        return mounts_by_place(mounts).get(self.place, ())


SUPERBLOCK_FLAGS = frozenset({"sync", "dirsync", "lazytime", "mand"})
"""Flags that mountinfo lists beside ext4's options; a remount clears those that it omits."""

MOUNT_FLAGS = SUPERBLOCK_FLAGS | {"ro", "nosuid", "nodev", "noexec", "nodiratime", "nosymfollow"}

ATIME_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "noatime": "noatime",
        "relatime": "relatime",
        "atime": "relatime",
        "strictatime": "strictatime",
        "norelatime": "strictatime",
    }
)
"""The flag that each access-time option sets; relatime without any (Linux 2.6.30)."""

IMPLIED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "user": ("nosuid", "nodev", "noexec"),
        "users": ("nosuid", "nodev", "noexec"),
        "owner": ("nosuid", "nodev"),
        "group": ("nosuid", "nodev"),
    }
)
"""The flags that fstab options imply unless a later option clears them (mount(8))."""

CLEARED: Mapping[str, str] = MappingProxyType(
    {
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
)
"""The flag that each option clears."""


def flags_of(options: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that fstab options set, the one for access times last.

    The last option wins (mount(8)).
    """
    flags: dict[str, None] = {}
    atime = "relatime"
    for option in options:
        flags |= dict.fromkeys(
            flag for flag in (*IMPLIED.get(option, ()), option) if flag in MOUNT_FLAGS
        )
        flags.pop(CLEARED.get(option, ""), None)
        atime = ATIME_OPTIONS.get(option, atime)
    return (*flags, atime)


class ResolvedPath(NamedTuple):
    """A path, resolved: the mount it lies on, its filesystem's number, and what it is.

    `type` is "file", "directory", "block" or "other". `represents` is the device that a block
    device node stands for, None for anything else.
    """

    mount_id: int
    device_number: DeviceNumber
    type: str
    represents: DeviceNumber | None = None


def flags_in_force(mount: Mount) -> tuple[str, ...]:
    """Return the flags of a mount as mount(8) takes them."""
    flags = [flag for flag in mount.mount_options if flag in MOUNT_FLAGS | ATIME_OPTIONS.keys()]
    atime = () if "relatime" in flags or "noatime" in flags else ("strictatime",)
    shared = [flag for flag in mount.super_options if flag in SUPERBLOCK_FLAGS]
    return (
        "ro" if "ro" in mount.super_options else "rw",
        *(flag for flag in flags if flag != "ro"),
        *atime,
        *shared,
    )


def intended_flags(options: Iterable[str]) -> set[str]:
    """Return the flags that the options of an fstab line set; the last option wins."""
    return set(flags_of(options))

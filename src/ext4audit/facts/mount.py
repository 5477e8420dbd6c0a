"""Mounts and the options in force on them, fstab entries, device numbers and resolved paths."""

from collections.abc import Iterable, Mapping
from enum import Enum
from posixpath import dirname, normpath
from types import MappingProxyType
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts import cached_by_identity, grouped

EXT_FSTYPES = frozenset({"ext2", "ext3", "ext4"})
"""The filesystem types that the ext4 driver handles and the kernel registers."""


FILES_OF_CONTAINERS = frozenset(
    "/etc/resolv.conf /etc/hostname /etc/hosts /etc/localtime /etc/timezone "
    "/dev/termination-log /run/.containerenv".split()
)
"""Files that container runtimes or their users mount; mountinfo does not mark files as such."""


class DeviceNumber(NamedTuple):
    """A device number, printed as the kernel prints it: "9:127"."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}:{self.minor}"

    @classmethod
    def decoded(cls, encoded: int) -> "DeviceNumber":
        """Decode the number in s_journal_dev, like new_decode_dev() of the kernel."""
        return cls((encoded & 0xFFF00) >> 8, (encoded & 0xFF) | ((encoded >> 12) & 0xFFF00))


class Mount(NamedTuple):
    """One line of mountinfo (proc_pid_mountinfo(5)), with octal escapes decoded.

    `mount_options` are per mount (nosuid, relatime, ro of a bind mount); `super_options` belong
    to the superblock and are the same on all its lines. Names are decoded with surrogateescape.
    `overmounted` means that its mount point leads to a later mount, which hides it.
    `propagation` are the optional fields ("shared:1"); a private mount has none.
    `user_options` are those that only mount(8) keeps (`UserOptions`), None if they are unknown.
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
    propagation: tuple[str, ...] = ()
    user_options: tuple[str, ...] | None = None

    @property
    def propagates(self) -> frozenset[str]:
        """How mounts on it propagate: shared, master, unbindable; empty if it is private."""
        tags = {tag.partition(":")[0] for tag in self.propagation}
        return frozenset(tags & {"shared", "master", "unbindable"})

    @property
    def shown_part(self) -> int:
        """How much of the filesystem it shows: 0 for all of it, 1 for a directory, 2 for a file."""
        return 0 if self.root == "/" else 2 if self.mount_point in FILES_OF_CONTAINERS else 1


class UserOptions(NamedTuple):
    """The options of one mount that the kernel never sees: _netdev, x-*, user, uhelper=.

    mount(8) keeps them in UTAB until the unmount (libmount of util-linux).
    """

    source: str
    mount_point: str
    options: tuple[str, ...]


UTAB = "/run/mount/utab"
USER = "user"
PATH_MAX = 4096
_KEPT_BY_MOUNT = ("_netdev", "x-", f"{USER}=", "uhelper=", "helper=")


def is_user_option(option: str) -> bool:
    """Whether mount(8) keeps an option in UTAB; measured with util-linux 2.38."""
    return option == USER or option.startswith(_KEPT_BY_MOUNT)


@cached_by_identity
def mounts_by_device(mounts: tuple[Mount, ...]) -> Mapping[DeviceNumber, tuple[Mount, ...]]:
    """Return the mounts of each device, in the order of the table."""
    return grouped((mount.device_number, mount) for mount in mounts)


@cached_by_identity
def mounts_by_place(mounts: tuple[Mount, ...]) -> Mapping[str, tuple[Mount, ...]]:
    """Return the mounts on each mount point, in the order of the table."""
    return grouped((mount.mount_point, mount) for mount in mounts)


def mount_of(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """Return the mount of an absolute path: the last one on the longest mount point containing it.

    Returns None if the mount table has no such mount, and for a relative path.
    """
    places = mounts_by_place(mounts)
    at = path.rstrip("/")
    if len(at) > PATH_MAX:  # only an archive has such a path, and it can have many MiB
        at = dirname(at[:PATH_MAX])
    while at not in places and at.strip("/"):
        at = dirname(at)
    place = at if at.strip("/") else "/"
    return places[place][-1] if path.startswith("/") and place in places else None


def below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or is inside one of them."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


@cached_by_identity
def mounts_by_id(mounts: tuple[Mount, ...]) -> Mapping[int, Mount]:
    """Return the first mount with each id."""
    return {mount.mount_id: mount for mount in reversed(mounts)}


def propagates_anew(mount: Mount, mounts: tuple[Mount, ...]) -> frozenset[str]:
    """Return how a new mount in place of `mount` would propagate: shared if its parent mount is.

    If the parent mount is not known, it propagates like `mount` itself (mount_namespaces(7)).
    """
    around = mounts_by_id(mounts).get(mount.parent_id)
    return mount.propagates if around is None else around.propagates & {"shared"}


BINDS = frozenset({"bind", "rbind"})
"""Options of fstab lines that mount a directory and not a device."""


class FstabLine(NamedTuple):
    """One entry of fstab(5) with octal escapes decoded; `raw_options` is as the file spells it.

    `text` is the whole line as it is in the file, empty if it was not read from a file. If
    `is_numbered` is false, the file was read without its comments: `line_number` counts the
    remaining lines and is not the number on the host. `generator` is the program that generated
    the line according to a comment in the file ("NixOS"), empty without such a comment.
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
    is_numbered: bool = True
    generator: str = ""

    @property
    def where(self) -> str:
        """The place in the file, such as `line 3`, or `entry 3` if it was read without comments."""
        return f"{'line' if self.is_numbered else 'entry'} {self.line_number}"


class FstabEntry(NamedTuple):
    """An fstab line and the device that its first field refers to on this host.

    `real_mount_point` is the mount point with links resolved, None if that is not known.
    `other_devices` are mounted there and are certainly not the device of the first field; empty
    if that device is known.
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
        """The mount point as in the mount table; fstab may spell it differently ("//m/./a")."""
        written = self.real_mount_point or self.line.mount_point
        return normpath(f"/{written.lstrip('/')}")

    def mounted_there(self, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        """Return the mounts of a mount table that are on the mount point of this entry."""
        return mounts_by_place(mounts).get(self.place, ())


SUPERBLOCK_FLAGS = frozenset({"sync", "dirsync", "lazytime", "mand"})
"""Flags that mountinfo lists with the ext4 options; a remount clears those that it omits."""

SECURITY_OPTIONS = frozenset(
    "seclabel context fscontext defcontext rootcontext smackfsdef smackfsfloor smackfshat "
    "smackfsroot smackfstransmute".split()
)
"""Options that SELinux and Smack list (security_sb_show_options); seclabel is only ever listed."""

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
"""The flag that each access-time option sets; the default is relatime (Linux 2.6.30)."""

_ATIME_BITS: Mapping[str, tuple[str, bool]] = MappingProxyType(
    {
        "noatime": ("noatime", True),
        "atime": ("noatime", False),
        "strictatime": ("strictatime", True),
        "nostrictatime": ("strictatime", False),
    }
)
"""The bit of mount(2) that each option sets or clears; relatime and norelatime have no effect."""

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
    """Return the flags that fstab options set, with the access-time flag last.

    The last option wins (mount(8)), except for access times: strictatime wins over noatime in
    any order, and noatime over relatime (measured with util-linux 2.38 on 6.18).
    """
    flags: dict[str, None] = {}
    atime = {"noatime": False, "strictatime": False}
    for option in options:
        flags |= dict.fromkeys(
            flag for flag in (*IMPLIED.get(option, ()), option) if flag in MOUNT_FLAGS
        )
        flags.pop(CLEARED.get(option, ""), None)
        atime |= (_ATIME_BITS[option],) if option in _ATIME_BITS else ()
    in_force = next((flag for flag in ("strictatime", "noatime") if atime[flag]), "relatime")
    return (*flags, in_force)


class ResolvedPath(NamedTuple):
    """A resolved path: its mount, the device number of its filesystem, and its type.

    `type` is "file", "directory", "block" or "other". `represents` is the device number of a
    block device node, None for anything else.
    """

    mount_id: int
    device_number: DeviceNumber
    type: str
    represents: DeviceNumber | None = None


def flags_in_force(mount: Mount) -> tuple[str, ...]:
    """Return the flags of a mount in the spelling of mount(8)."""
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


class Provenance(Enum):
    """Where an option was set, in the order in which the kernel applies them (fs/ext4/super.c).

    SUPERBLOCK is the bit field or the string if it is not known which; IMPLIED means that
    another option forces it (data=journal turns delalloc off).
    """

    KERNEL_DEFAULT = "kernel_default"
    SUPERBLOCK_BITS = "superblock_default_mount_options"
    SUPERBLOCK_STRING = "superblock_mount_options"
    SUPERBLOCK_FIELD = "superblock_field"
    SUPERBLOCK = "superblock"
    MOUNT = "mount"
    IMPLIED = "implied"
    UNKNOWN = "unknown"


class Layer(NamedTuple):
    """The setting of an option in one source: its token, and where that was read."""

    provenance: Provenance
    token: str
    origin: str


class EffectiveOption(NamedTuple):
    """One option in force.

    `name` is the option ("barrier", "data"); `token` how the options file spells its state
    ("nobarrier", "data=writeback"); `origin` the file that proves it is in force; `set_by` its
    provenance; `hidden` whether it differs from the kernel's default and the mount table does not
    show it; `baseline` the token that a mount without options would have, None if unknown;
    `layers` the setting of each source, in the order in which the kernel applies them.
    """

    name: str
    token: str
    origin: str
    set_by: Provenance
    hidden: bool
    baseline: str | None
    layers: tuple[Layer, ...] = ()


class EffectiveOptions(NamedTuple):
    """The options in force on one live superblock, resolved from every source that shows them.

    `source` is the best source that could be read; `complete` means that it shows every option
    (the options file does, the mount table never does). `mount_table` are the superblock's options
    as the mount table prints them, or None if it is not mounted in our namespace. `gap` is the
    unknown, with its hint, when `complete` is false. `inapplicable` are the names of options that
    this superblock cannot have, whatever was read.
    """

    source: str
    complete: bool
    options: tuple[EffectiveOption, ...]
    mount_table: tuple[str, ...] | None
    gap: Unknown | None = None
    inapplicable: frozenset[str] = frozenset()

    def find(self, name: str) -> EffectiveOption | None:
        """Return the option `name` ("barrier"), or None if its state is not known."""
        return next((option for option in self.options if option.name == name), None)

    def token(self, name: str) -> Evidence[str]:
        """Return the token in force of the option `name`, or why it is unknown.

        With a complete source, an option that it does not list is Unknown(ABSENT): this
        kernel does not have it, or it does not apply (no `data=` without a journal).
        """
        option = self.find(name)
        if option is not None:
            return Known(option.token, option.origin)
        if self.gap is not None and not self.lacks(name):
            return Unknown(f"option {name}", self.gap.why, self.gap.detail, self.gap.hint)
        return Unknown(f"option {name}", Why.ABSENT, f"{self.source} does not list it")

    def lacks(self, name: str) -> bool:
        """Whether the option is known not to be in force: without a journal there is no `data`."""
        return self.find(name) is None and (self.complete or name in self.inapplicable)

    @property
    def hidden(self) -> tuple[EffectiveOption, ...]:
        """The options in force that the mount table does not show."""
        return tuple(option for option in self.options if option.hidden)

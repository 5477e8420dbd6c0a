"""A host and its ext4 filesystems, which are the subjects of the rules, and vendors' profiles."""

from collections.abc import Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ext4audit.evidence import MOUNT_TABLE, Evidence, Known, Unknown, for_wording
from ext4audit.facts import cached_by_identity, grouped, read_table
from ext4audit.facts.devices import (
    BlockDevice,
    LsblkDevice,
    is_same_storage,
    not_shown,
    storage_keys,
)
from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.mount import (
    DeviceNumber,
    EffectiveOption,
    EffectiveOptions,
    FstabEntry,
    FstabLine,
    Mount,
)
from ext4audit.facts.options import sets_option
from ext4audit.facts.superblock import PrimarySuperblock, RecordedError, Superblock

_PROFILES = "profiles.toml"
AT_LEAST = "+"
"""The prefix of a severity in a profile that raises milder findings and never lowers any."""


class Profile(NamedTuple):
    """The requirements of one product; the fields are explained in profiles.toml.

    `forbid` are pairs of an option and the rule that explains it. `rate` are pairs of a rule and
    its maximum severity, or with the prefix "+" its minimum severity.
    """

    name: str
    product: str
    says: str
    source: str
    options: tuple[str, ...] = ()
    shown: bool = False
    features: tuple[str, ...] = ()
    cluster_bytes: int | None = None
    reserved_percent: float | None = None
    forbid: tuple[tuple[str, str], ...] = ()
    enable: tuple[str, ...] = ()
    rate: tuple[tuple[str, str], ...] = ()
    instead_of_ext4: str | None = None
    confirmed: str = ""

    @property
    def new_reserve_percent(self) -> float | None:
        """The reserve that meets the limit: none if at most 1 % is allowed, else the limit."""
        most = self.reserved_percent
        return 0 if most is not None and most <= 1 else most


class ActiveProfile(NamedTuple):
    """A profile and its place: a mount point or a glob, or None for every filesystem."""

    profile: Profile
    place: str | None = None

    def covers(self, mount_points: tuple[str, ...]) -> bool:
        """Whether one of the mount points is equal to the place or matches it as a glob."""
        place = self.place
        return place is None or any(p == place or fnmatchcase(p, place) for p in mount_points)


def all_profiles() -> Mapping[str, Profile]:
    """Return the profiles by name."""
    return _all(read_table(_PROFILES))


@cached_by_identity
def _all(table: dict[str, Any]) -> Mapping[str, Profile]:
    return {name: profile_of(name, entry) for name, entry in table.items()}


def profile_of(name: str, entry: Mapping[str, Any]) -> Profile:
    """Build a profile from an entry of profiles.toml."""
    lists = {key: tuple(entry[key]) for key in ("options", "features", "enable") if key in entry}
    pairs = {key: tuple(entry[key].items()) for key in ("forbid", "rate") if key in entry}
    return Profile(**{"name": name, **entry, **lists, **pairs})


class Loader(Enum):
    """The program that loads the kernel, recognized by its files in /boot."""

    GRUB = "GRUB"
    SYSTEMD_BOOT = "systemd-boot"
    EXTLINUX = "extlinux"
    NONE_FOUND = "none found"


class BootLoader(NamedTuple):
    """A boot loader and its version: ("GRUB", "2.06-13+deb12u1").

    `version` is that of the installed package or program, None if it is not known. The copy that
    grub-install(8) wrote to the disk may be older.
    """

    loader: Loader
    version: str | None = None


class ErrorCounters(NamedTuple):
    """/sys/fs/ext4/<device>/{errors_count,first_error_*,last_error_*}, readable without root.

    The counter survives reboots until e2fsck clears it (ABI testing/sysfs-fs-ext4). `warnings`
    counts since the mount; it is None before Linux 5.9, which does not have the file. `last_code`
    is the code of the last error (fs/ext4/ext4.h: EXT4_ERR_*; 0 if none is recorded), None before
    Linux 5.8.
    """

    errors: int
    warnings: Evidence[int] | None = None
    first: RecordedError | None = None
    last: RecordedError | None = None
    last_code: int | None = None


class Usage(NamedTuple):
    """Space and inodes of a mounted filesystem (statvfs(3)), counted in blocks and inodes.

    `size_blocks` does not include ext4's own metadata (unless mounted with minixdf).
    `available_blocks` are available to unprivileged users: free minus reserved blocks.
    """

    block_bytes: int
    size_blocks: int
    free_blocks: int
    available_blocks: int
    inodes: int
    free_inodes: int


class Kernel(NamedTuple):
    """A kernel release: "4.19.91-24.8.al7.x86_64" has upstream (4, 19, 91).

    `version` is `uname -v`: Debian puts its package version there, not in the release.
    `signature` is Ubuntu's /proc/version_signature, else None; `machine` is `uname -m` or empty.
    """

    release: str
    version: str
    upstream: tuple[int, int, int]
    signature: str | None = None
    machine: str = ""

    def since(self, *numbers: int) -> bool:
        """Whether the upstream version is at least `numbers`; backports are not considered."""
        return self.upstream >= numbers


class Filesystem(NamedTuple):
    """One ext4 superblock, regardless of the number of its mounts.

    `alive` means that the kernel has it mounted somewhere; `mounts` are the mounts in our own
    mount namespace. If it is alive without mounts, it is held by another namespace or by an open
    file after a lazy unmount, or the kernel's list is stale. `unlisted` is set if the mount table
    is not known (see `mounted_here`). `fstype` is the type that some process has it mounted as
    (the ext4 driver also handles ext2 and ext3, with other defaults). `read_only` is the state of
    the superblock, not of a read-only bind mount. `fstab` are the entries that name its device.
    `layout` is None if no device below it stripes.

    `usage` and `errors` are of the mounted filesystem. `journal_errno` is the error number that
    jbd2 stored in the journal's superblock on an abort: 0, or negative (-5 is EIO).
    `unzeroed_groups` counts the groups whose inode tables lazy initialization has yet to zero.
    `primary` is the superblock on the device, whatever the source of `superblock` is.
    `journal_stack` is the device of an external journal; None if the journal is internal or not
    known to be external. `settings` are the values of `facts.superblock.SETTINGS`, which an unmount
    resets; they are unknown for filesystems that no single command can unmount.
    """

    device_number: DeviceNumber
    name: str
    device: str
    fstype: Evidence[str]
    alive: bool
    mounts: tuple[Mount, ...]
    read_only: Evidence[bool]
    superblock: Evidence[Superblock]
    uuid: str | None
    label: str | None
    options: Evidence[EffectiveOptions]
    fstab: Evidence[tuple[FstabEntry, ...]]
    stack: Evidence[BlockDevice]
    layout: Evidence[MetadataLayout] | None
    shares_uuid: bool = False
    unlisted: Unknown | None = None
    usage: Evidence[Usage] = not_shown("space in use")
    errors: Evidence[ErrorCounters] = not_shown("recorded errors")
    journal_errno: Evidence[int] = not_shown("journal errno")
    unzeroed_groups: Evidence[int] = not_shown("groups to be initialized")
    primary: Evidence[PrimarySuperblock] = not_shown("primary superblock")
    journal_stack: Evidence[BlockDevice] | None = None
    settings: Evidence[tuple[tuple[str, int], ...]] = not_shown("settings in /sys/fs/ext4")

    @property
    def id(self) -> str:
        """The superblock's UUID if it is known, else its device number.

        Unlike XFS, ext4 allows copies of one filesystem to be mounted at the same time; with
        `shares_uuid` the device number disambiguates them.
        """
        if self.uuid is None:
            return str(self.device_number)
        return f"{self.uuid}@{self.device_number}" if self.shares_uuid else self.uuid

    @property
    def mounted_here(self) -> Evidence[tuple[Mount, ...]]:
        """The mounts in our namespace, unknown if the mount table is unknown."""
        return self.unlisted or Known(self.mounts, MOUNT_TABLE)

    @property
    def mount_points(self) -> tuple[str, ...]:
        """The unique mount points in our namespace; those that show most of it come first."""
        ordered = sorted(self.mounts, key=lambda mount: mount.shown_part)
        return tuple(dict.fromkeys(mount.mount_point for mount in ordered))


@cached_by_identity
def filesystems_by_number(filesystems: tuple[Filesystem, ...]) -> Mapping[DeviceNumber, Filesystem]:
    """Return the first filesystem on each device."""
    return {fs.device_number: fs for fs in reversed(filesystems)}


class Memory(NamedTuple):
    """Memory and the limits of dirty page cache (`vm.dirty_*`).

    A limit is the value of `*_bytes`, or the percentage of the ratio if `*_bytes` is 0.
    """

    total_bytes: int
    available_bytes: int
    dirty_bytes: int
    dirty_ratio_percent: int
    dirty_background_bytes: int
    dirty_background_ratio_percent: int

    @property
    def dirty_limit_bytes(self) -> int:
        """The amount of dirty page cache at which writers must wait (mm/page-writeback.c).

        The kernel applies the ratio to free plus file-backed memory; the closest public value is
        MemAvailable.
        """
        return self.dirty_bytes or self.available_bytes * self.dirty_ratio_percent // 100


class OperatingSystem(NamedTuple):
    """ID, VERSION_ID and PRETTY_NAME of os-release, empty if the file lacks them."""

    id: str
    version_id: str
    pretty_name: str


UNKNOWN_NAME = "unknown"
"""The name of a host whose own name could not be read."""


class Host(NamedTuple):
    """A host at one moment. `gaps` are the unknowns about the host as a whole.

    `virtualization` is the hypervisor ("kvm"), None on a physical machine. `container` is the
    kind of container that the scan ran in ("docker"), None on the host itself. `kernel_arguments`
    is /proc/cmdline. `fstab` are all entries for ext2/3/4 or auto. `filesystems` are the audited
    ones; `lower` are others that hold the files of their loop devices or are on the same disks,
    and all mounted ones if an audited one is not mounted.

    `devices` are all block devices that lsblk lists. `unmounted` are the ext2, ext3 and ext4
    filesystems on them that are not mounted and not a part of another device.
    `md_arrays` are the devices on the ARRAY lines of mdadm.conf(5). `fstrim` is whether
    filesystems are trimmed regularly (fstrim.timer or a cron job), `trims_all` whether this
    includes all mounted ones and not only those in fstab. `raid0_default_layout` is the module
    parameter, 0 if it is not set. `profiles` are those that the user assigned. `planned` means that
    its filesystem does not exist yet. `page_bytes` is the kernel's page size. `mount_table` is the
    source of the mount table: in archives another file, or the output of a program.
    `has_local_times` means that times of superblocks are in the host's time zone, which is not
    known: dumpe2fs prints them without a zone, and archives of other programs run it as it is.
    """

    name: str
    taken_at: str
    kernel: Evidence[Kernel]
    os: Evidence[OperatingSystem]
    virtualization: Evidence[str | None]
    container: Evidence[str | None]
    kernel_arguments: Evidence[tuple[str, ...]]
    memory: Evidence[Memory]
    mounts: Evidence[tuple[Mount, ...]]
    fstab: Evidence[tuple[FstabEntry, ...]]
    filesystems: tuple[Filesystem, ...]
    gaps: tuple[Unknown, ...] = ()
    lower: tuple[Filesystem, ...] = ()
    devices: Evidence[tuple[LsblkDevice, ...]] = not_shown("block devices")
    unmounted: Evidence[tuple[Filesystem, ...]] = not_shown("filesystems that are not mounted")
    boot_loader: Evidence[BootLoader] = not_shown("boot loader")
    md_arrays: Evidence[tuple[str, ...]] = not_shown("mdadm.conf")
    fstrim: Evidence[bool] = not_shown("fstrim.timer")
    trims_all: Evidence[bool] = not_shown("fstrim.service")
    raid0_default_layout: Evidence[int] = not_shown("raid0.default_layout")
    profiles: tuple[ActiveProfile, ...] = ()
    planned: bool = False
    page_bytes: Evidence[int] = not_shown("page size")
    mount_table: str = MOUNT_TABLE
    has_local_times: bool = False

    def profiles_of(self, fs: Filesystem) -> tuple[Profile, ...]:
        """Return the profiles that are in force for a filesystem."""
        found = (each.profile for each in self.profiles if each.covers(fs.mount_points))
        return tuple(dict.fromkeys(found))

    def filesystem(self, device_number: Evidence[DeviceNumber]) -> Filesystem | None:
        """Return the filesystem on a device from `filesystems` or `lower`, None if not found."""
        if not isinstance(device_number, Known):
            return None
        audited = filesystems_by_number(self.filesystems).get(device_number.value)
        return audited or filesystems_by_number(self.lower).get(device_number.value)

    def mounted_twin(self, fs: Filesystem) -> Filesystem | None:
        """Return a mounted filesystem with the UUID of `fs`, None if none or `fs` is mounted.

        If there are several, one on the same storage is preferred, so that no copy hides it.
        """
        if fs.alive or fs.uuid is None:
            return None
        alike = _mounted_by_uuid(self).get(fs.uuid, ())
        likeness = {True: 0, None: 1, False: 2}
        return min(alike, key=lambda m: likeness[self.is_same_storage(fs, m)], default=None)

    def mounted_twice(self, fs: Filesystem) -> Iterator[Filesystem]:
        """Yield the mounted filesystems that are `fs` on another device, such as a second path."""
        stack = for_wording(fs.stack, None)
        if fs.uuid is None or stack is None:
            return
        alike = _mounted_by_storage(self)
        near = (other for key in storage_keys(stack) for other in alike.get((fs.uuid, key), ()))
        met = {fs.device_number}
        for other in near:
            if other.device_number not in met and self.is_same_storage(fs, other):
                yield other
            met.add(other.device_number)

    def unplaced_twins(self, fs: Filesystem) -> tuple[Unknown, ...]:
        """Return why mounted filesystems with its UUID cannot be compared with it."""
        alike = _unplaced_by_uuid(self).get(fs.uuid, {}) if fs.uuid is not None else {}
        return tuple(why for number, why in alike.items() if number != fs.device_number)

    def is_same_storage(self, one: Filesystem, other: Filesystem) -> bool | None:
        """Whether two filesystems are on the same storage; None if that cannot be determined."""
        rows = for_wording(self.devices, ())
        own, others = for_wording(one.stack, None), for_wording(other.stack, None)
        return is_same_storage(own, others, rows) if own and others else None


@cached_by_identity
def _mounted_by_uuid(host: Host) -> Mapping[str | None, tuple[Filesystem, ...]]:
    """Return the mounted filesystems by UUID."""
    return grouped((fs.uuid, fs) for fs in (*host.filesystems, *host.lower) if fs.alive)


@cached_by_identity
def _unplaced_by_uuid(host: Host) -> Mapping[str | None, Mapping[DeviceNumber, Unknown]]:
    """Return why the stacks of mounted filesystems are unknown, by UUID and device number."""
    return {
        uuid: {fs.device_number: fs.stack for fs in alike if isinstance(fs.stack, Unknown)}
        for uuid, alike in _mounted_by_uuid(host).items()
    }


@cached_by_identity
def _mounted_by_storage(host: Host) -> Mapping[tuple[str | None, str], tuple[Filesystem, ...]]:
    """Return the mounted filesystems by UUID and storage key (`storage_keys`)."""
    return grouped(
        ((fs.uuid, key), fs)
        for fs in (*host.filesystems, *host.lower)
        if fs.alive and isinstance(fs.stack, Known)
        for key in storage_keys(fs.stack.value)
    )


def option_of(fs: Filesystem, name: str) -> EffectiveOption | None:
    """Return the option in force, or None if the options or its state are unknown."""
    options = for_wording(fs.options, None)
    return options.find(name) if options else None


def fstab_lines(fs: Filesystem, name: str) -> tuple[FstabLine, ...]:
    """Return the fstab lines of the filesystem that set the option `name` to any state."""
    entries = for_wording(fs.fstab, ())
    return tuple(e.line for e in entries if any(sets_option(o, name) for o in e.line.options))

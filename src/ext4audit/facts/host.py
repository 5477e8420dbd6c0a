"""A host and its ext4 filesystems, the subjects of the rules, their facts; vendors' profiles."""

from collections.abc import Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from ext4audit.evidence import Evidence, Known, Unknown, for_wording
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
    MOUNT_TABLE,
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
"""The prefix of a severity in a profile that raises milder findings and lowers none."""


class Profile(NamedTuple):
    """One product's requirements; profiles.toml explains the fields.

    `forbid` are pairs of an option and the rule that explains it, `rate` pairs of a rule and a
    severity, with "+" in front where it is the least and not the most.
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


class ActiveProfile(NamedTuple):
    """A profile and where it applies: a glob of mount points, None for every filesystem."""

    profile: Profile
    place: str | None = None

    def covers(self, mount_points: tuple[str, ...]) -> bool:
        """Whether the profile applies to a filesystem with these mount points, also by name."""
        place = self.place
        return place is None or any(p == place or fnmatchcase(p, place) for p in mount_points)


def all_profiles() -> Mapping[str, Profile]:
    """Return the profiles by name."""
    return _all(read_table(_PROFILES))


@cached_by_identity
def _all(table: dict[str, Any]) -> Mapping[str, Profile]:
    return {name: profile_of(name, entry) for name, entry in table.items()}


def profile_of(name: str, entry: Mapping[str, Any]) -> Profile:
    """Return the profile of an entry of profiles.toml."""
    lists = {key: tuple(entry[key]) for key in ("options", "features", "enable") if key in entry}
    pairs = {key: tuple(entry[key].items()) for key in ("forbid", "rate") if key in entry}
    return Profile(**{"name": name, **entry, **lists, **pairs})


class Loader(Enum):
    """What loads the kernel, by the files that it leaves in /boot."""

    GRUB = "GRUB"
    SYSTEMD_BOOT = "systemd-boot"
    EXTLINUX = "extlinux"
    NONE_FOUND = "none found"


class BootLoader(NamedTuple):
    """A boot loader and its version: ("GRUB", "2.06-13+deb12u1").

    `version` is that of the installed package or program, None where it is not known. The copy
    that grub-install(8) wrote to the disk can be older.
    """

    loader: Loader
    version: str | None = None


class ErrorCounters(NamedTuple):
    """/sys/fs/ext4/<device>/{errors_count,first_error_*,last_error_*}, readable without root.

    The counter survives reboots until e2fsck clears it (ABI testing/sysfs-fs-ext4). `warnings`
    counts since the mount, None before Linux 5.9, which has no such file. `last_code` is the
    number of the last error's kind (fs/ext4/ext4.h: EXT4_ERR_*; 0 where none is recorded),
    None before Linux 5.8.
    """

    errors: int
    warnings: Evidence[int] | None = None
    first: RecordedError | None = None
    last: RecordedError | None = None
    last_code: int | None = None


class Usage(NamedTuple):
    """Space and inodes of a mounted filesystem (statvfs(3)), counted in blocks and inodes.

    `size_blocks` leaves out ext4's own metadata (unless mounted with minixdf). `available_blocks`
    are what an unprivileged user may still write: the free ones without the reserved ones.
    """

    block_bytes: int
    size_blocks: int
    free_blocks: int
    available_blocks: int
    inodes: int
    free_inodes: int


class Kernel(NamedTuple):
    """A kernel release: "4.19.91-24.8.al7.x86_64" has upstream (4, 19, 91).

    `version` is `uname -v`: Debian writes its package version there, not in the release.
    `signature` is Ubuntu's /proc/version_signature, else None; `machine` is `uname -m` or empty.
    """

    release: str
    version: str
    upstream: tuple[int, int, int]
    signature: str | None = None
    machine: str = ""

    def since(self, *numbers: int) -> bool:
        """Whether the upstream number is at or after `numbers`, whatever was backported."""
        return self.upstream >= numbers


class Filesystem(NamedTuple):
    """One ext4 superblock, however many mounts show it.

    `alive` means that the kernel has it mounted somewhere, `mounts` are the mounts in our own
    mount namespace: alive without mounts means that another namespace holds it, or an open file
    of a lazy unmount, or that the kernel's list is stale; unless `unlisted` says why the mount
    table is not known (`mounted_here` distinguishes them). `fstype` is the type it is mounted as
    (ext2 and ext3 are served by the ext4 driver, with other defaults), by some process's mounts.
    `read_only` is the superblock's own state, not that of a read-only bind mount. `fstab` are
    the entries that name its device. `layout` is None where no stripe lies below.

    `usage` and `errors` are of the mounted filesystem. `journal_errno` is the error number that
    jbd2 stored in the journal's superblock when it gave up: 0, or negative (-5 is EIO).
    `unzeroed_groups` counts the groups whose inode tables lazy initialization has yet to zero.
    `primary` is the superblock on the device itself, whoever answered for `superblock`.
    `journal_stack` is the device of an external journal, None where the journal lies inside, or
    nothing shows that it does not. `settings` are those of `facts.superblock.SETTINGS` with their
    values, of a filesystem that one command can unmount: it forgets them.
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
        """The superblock's UUID where it is known, else its device number.

        Copies of one filesystem mount side by side without complaint, unlike on XFS; with
        `shares_uuid` the device number disambiguates them.
        """
        if self.uuid is None:
            return str(self.device_number)
        return f"{self.uuid}@{self.device_number}" if self.shares_uuid else self.uuid

    @property
    def mounted_here(self) -> Evidence[tuple[Mount, ...]]:
        """The mounts in our namespace, unknown where the mount table is."""
        return self.unlisted or Known(self.mounts, MOUNT_TABLE)

    @property
    def mount_points(self) -> tuple[str, ...]:
        """The mount points in our namespace, each once; by how much they show of it."""
        ordered = sorted(self.mounts, key=lambda mount: mount.shown_part)
        return tuple(dict.fromkeys(mount.mount_point for mount in ordered))


@cached_by_identity
def filesystems_by_number(filesystems: tuple[Filesystem, ...]) -> Mapping[DeviceNumber, Filesystem]:
    """Return the first filesystem on each device."""
    return {fs.device_number: fs for fs in reversed(filesystems)}


class Memory(NamedTuple):
    """Memory and the limits of dirty page cache (`vm.dirty_*`).

    A limit is in bytes where `*_bytes` is not 0, else it is the ratio's percentage.
    """

    total_bytes: int
    available_bytes: int
    dirty_bytes: int
    dirty_ratio_percent: int
    dirty_background_bytes: int
    dirty_background_ratio_percent: int

    @property
    def dirty_limit_bytes(self) -> int:
        """Dirty page cache at which a writer must wait (mm/page-writeback.c).

        The kernel takes the ratio of free plus file-backed memory; MemAvailable is its
        closest public value.
        """
        return self.dirty_bytes or self.available_bytes * self.dirty_ratio_percent // 100


class OperatingSystem(NamedTuple):
    """os-release's ID, VERSION_ID and PRETTY_NAME, empty where the file lacks them."""

    id: str
    version_id: str
    pretty_name: str


UNKNOWN_NAME = "unknown"
"""The name of a host whose own name could not be read."""


class Host(NamedTuple):
    """A host at one moment. `gaps` are the unknowns about the host as a whole.

    `virtualization` is the hypervisor ("kvm"), None on a physical machine. `container` is the
    kind of container that the scan ran in ("docker"), None on the host itself. `kernel_arguments`
    is /proc/cmdline. `fstab` are all entries for ext2/3/4 or auto.
    `filesystems` are the audited ones; `lower` are others that their loop devices lie on, those
    on the same disks, and all that are mounted where an audited one is not.

    `devices` are all block devices that lsblk lists. `unmounted` are the filesystems of type ext2,
    ext3 or ext4 on them that the kernel has mounted nowhere and no other device is made of.
    `md_arrays` are the devices that ARRAY lines of mdadm.conf(5) name. `fstrim` is whether
    something trims filesystems regularly (fstrim.timer, or a cron job), `trims_all` whether it
    trims all that are mounted and not only what fstab names.
    `raid0_default_layout` is the module parameter: 0 where it is not set. `profiles` are those that
    the user assigned. `planned` means that its filesystem does not exist yet. `page_bytes` is the
    kernel's page size. `mount_table` is where the mount table was read: archives may have another
    file, or the output of a program.
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

    def profiles_of(self, fs: Filesystem) -> tuple[Profile, ...]:
        """Return the profiles that are in force for a filesystem."""
        found = (each.profile for each in self.profiles if each.covers(fs.mount_points))
        return tuple(dict.fromkeys(found))

    def filesystem(self, device_number: Evidence[DeviceNumber]) -> Filesystem | None:
        """Return the filesystem on a device, if it was read: audited, or below an audited one."""
        if not isinstance(device_number, Known):
            return None
        audited = filesystems_by_number(self.filesystems).get(device_number.value)
        return audited or filesystems_by_number(self.lower).get(device_number.value)

    def mounted_twin(self, fs: Filesystem) -> Filesystem | None:
        """Return a mounted filesystem with the UUID of one that is not mounted, None if none is.

        Of several, the one that is the same storage, or may be: a copy must not hide it.
        """
        if fs.alive or fs.uuid is None:
            return None
        alike = _mounted_by_uuid(self).get(fs.uuid, ())
        likeness = {True: 0, None: 1, False: 2}
        return min(alike, key=lambda m: likeness[self.is_same_storage(fs, m)], default=None)

    def mounted_twice(self, fs: Filesystem) -> Iterator[Filesystem]:
        """Yield what is mounted of the same filesystem through other devices."""
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
        """Return why it is not known whether mounted filesystems with its UUID are the same."""
        alike = _unplaced_by_uuid(self).get(fs.uuid, {}) if fs.uuid is not None else {}
        return tuple(why for number, why in alike.items() if number != fs.device_number)

    def is_same_storage(self, one: Filesystem, other: Filesystem) -> bool | None:
        """Whether two filesystems are one, seen through two devices; None where nothing tells."""
        rows = for_wording(self.devices, ())
        own, others = for_wording(one.stack, None), for_wording(other.stack, None)
        return is_same_storage(own, others, rows) if own and others else None


@cached_by_identity
def _mounted_by_uuid(host: Host) -> Mapping[str | None, tuple[Filesystem, ...]]:
    """Return the mounted filesystems by their UUIDs."""
    return grouped((fs.uuid, fs) for fs in (*host.filesystems, *host.lower) if fs.alive)


@cached_by_identity
def _unplaced_by_uuid(host: Host) -> Mapping[str | None, Mapping[DeviceNumber, Unknown]]:
    """Return why it is not known what mounted filesystems lie on, by their UUIDs."""
    return {
        uuid: {fs.device_number: fs.stack for fs in alike if isinstance(fs.stack, Unknown)}
        for uuid, alike in _mounted_by_uuid(host).items()
    }


@cached_by_identity
def _mounted_by_storage(host: Host) -> Mapping[tuple[str | None, str], tuple[Filesystem, ...]]:
    """Return the mounted filesystems by UUID and by the names that `storage_keys` gives."""
    return grouped(
        ((fs.uuid, key), fs)
        for fs in (*host.filesystems, *host.lower)
        if fs.alive and isinstance(fs.stack, Known)
        for key in storage_keys(fs.stack.value)
    )


def option_of(fs: Filesystem, name: str) -> EffectiveOption | None:
    """Return an option as it is in force, or None where that is unknown."""
    options = for_wording(fs.options, None)
    return options.find(name) if options else None


def fstab_lines(fs: Filesystem, name: str) -> tuple[FstabLine, ...]:
    """Return the fstab lines of the device that set the option `name` to some state."""
    entries = for_wording(fs.fstab, ())
    return tuple(e.line for e in entries if any(sets_option(o, name) for o in e.line.options))

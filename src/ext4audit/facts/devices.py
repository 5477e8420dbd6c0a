"""Block devices: their stacks, their rows of lsblk, identical storage, and classes of disks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ext4audit.evidence import Evidence, Unknown, Why, for_wording
from ext4audit.facts import cached_by_identity, grouped, read_table
from ext4audit.facts.mount import DeviceNumber

SECTOR_BYTES = 512
"""A sector of sysfs (`size`, `start`) is 512 bytes on every device (ABI sysfs-block)."""


def not_shown(what: str) -> Unknown:
    """Return the unknown for a fact that the audited evidence does not show."""
    return Unknown(what, Why.NOT_CAPTURED, "the audited evidence does not show it", "scan the host")


class QueueLimits(NamedTuple):
    """`/sys/block/<disk>/queue/*`, with the kernel's names and values; each may be unknown.

    `write_cache` is "write back" or "write through". `wbt_latency_usec` 0 means that writeback
    throttling is off; the file is absent on kernels without it. A partition has its disk's limits.
    `scheduler` is the active one ("none", "mq-deadline"). `io_timeout_msec` is how long the driver
    waits for a request; absent before Linux 5.0 and for drivers without a timeout.
    """

    write_cache: Evidence[str]
    fua: Evidence[bool]
    rotational: Evidence[bool]
    discard_max_bytes: Evidence[int]
    minimum_io_bytes: Evidence[int]
    optimal_io_bytes: Evidence[int]
    logical_block_bytes: Evidence[int]
    physical_block_bytes: Evidence[int]
    nr_requests: Evidence[int]
    max_sectors_kb: Evidence[int]
    wbt_latency_usec: Evidence[int]
    scheduler: Evidence[str] = not_shown("queue/scheduler")
    io_timeout_msec: Evidence[int] = not_shown("queue/io_timeout")


class MdMember(NamedTuple):
    """A member device of an md array: its slot, name, and where the array's data is on it."""

    slot: int
    name: str
    data_offset_sectors: int
    size_sectors: int


class MdArray(NamedTuple):
    """`/sys/block/mdX/md/*`: level ("raid0"), chunk, width, layout (-1: not set), members.

    `reshape_position` is None when no reshape is running. `component_sectors` is how much the
    array uses of each member, None if it was not read (`md/component_size`, in KiB).
    """

    level: str
    chunk_bytes: int
    raid_disks: int
    layout: int | None
    reshape_position: str | None
    members: tuple[MdMember, ...]
    component_sectors: int | None = None


class MdState(NamedTuple):
    """The state of an md array (`/sys/block/mdX/md/*`), whether or not its geometry is known.

    `degraded` counts the missing members of `raid_disks`; `sync_action` is "idle", "resync",
    "recover", "check", …. Levels without redundancy have neither file.
    """

    level: str
    raid_disks: Evidence[int]
    degraded: Evidence[int]
    sync_action: Evidence[str]


class DmSegment(NamedTuple):
    """One line of `dmsetup table`: start, length, target type, and the target's arguments."""

    start_sectors: int
    length_sectors: int
    target: str
    arguments: tuple[str, ...]


class ThinPool(NamedTuple):
    """The state of a thin pool (Documentation/admin-guide/device-mapper/thin-provisioning.rst).

    The numbers are blocks of data and metadata, used and total. `mode` is rw, ro,
    out_of_data_space, or Fail, for which the kernel prints no numbers. `queues` means that writes
    wait for space instead of failing. `needs_check` is None before Linux 4.3, without this field.
    """

    mode: str
    used_data: int = 0
    data: int = 0
    used_metadata: int = 0
    metadata: int = 0
    queues: bool = True
    needs_check: bool | None = None


class DmDevice(NamedTuple):
    """A device-mapper device: its name and uuid ("LVM-…", "CRYPT-…"), and its table (root only).

    `name` and `uuid` are empty if they are not known. `pool` is None if the device is not a thin
    pool.
    """

    name: str
    uuid: str
    table: Evidence[tuple[DmSegment, ...]]
    pool: Evidence[ThinPool] | None = None


class LoopDevice(NamedTuple):
    """A loop device: its backing file, and the device of the filesystem that holds the file.

    `backing_file` is empty, and `offset_bytes` None, if they are not known. `autoclear` means that
    the kernel detaches the file as soon as nothing uses the device, as `mount -o loop` requests.
    """

    backing_file: str
    offset_bytes: int | None
    backing_device_number: Evidence[DeviceNumber]
    autoclear: Evidence[bool] = not_shown("loop/autoclear")

    @property
    def shows(self) -> str:
        """The node of the block device that backs it at offset 0, or "" if there is none.

        The kernel lists no holder for such a device.
        """
        is_node = self.backing_file.startswith("/dev/") and not self.offset_bytes
        return self.backing_file if is_node else ""


IMAGES = frozenset({"image", "e2image"})
"""Kinds of audited image files: they are not on a device, and end where their content ends."""
PARTS = frozenset({"partition", "dm-linear", "dm"})
"""Kinds of devices that map a part of others; "dm" is a device without a readable table."""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One node of the device stack; `below` are the devices that it is made of.

    `kind` is "disk", "partition", "loop", an md level ("raid0"), or "dm" with its first
    target ("dm-linear", "dm-crypt", "dm" if the table cannot be read); "image" and "e2image"
    are files whose bytes were audited. `path` is the usual one: /dev/mapper/<name> for dm. `udev`
    is empty without udev; `udev_gap` is why it is empty although udev may have a record.
    `start_gap` is why the `start_sectors` of a partition are None. `alignment_offset_bytes` is how
    far the start is from the device's own alignment: 0 is aligned, -1 is not known to the kernel
    (ABI sysfs-block), None if the file is absent.
    """

    name: str
    path: str
    device_number: DeviceNumber
    kind: str
    size_sectors: Evidence[int]
    queue: QueueLimits
    below: "Evidence[tuple[BlockDevice, ...]]"
    start_sectors: int | None = None
    md: Evidence[MdArray] | None = None
    md_state: Evidence[MdState] | None = None
    dm: DmDevice | None = None
    loop: LoopDevice | None = None
    model: str | None = None
    udev: tuple[tuple[str, str], ...] = ()
    alignment_offset_bytes: Evidence[int] | None = None
    udev_gap: Unknown | None = None
    start_gap: Unknown | None = None

    def walk(self) -> "Iterator[BlockDevice]":
        """Yield this device and all below it, top first, each once."""
        yield from _walked(self)

    def descend(self, stops: "Callable[[BlockDevice], bool]") -> "Iterator[BlockDevice]":
        """Yield this device and all below it once, depth first, but nothing below `stops` devices.

        `stops` returns whether to stop at a device, which is still yielded itself.
        """
        seen: set[tuple[DeviceNumber, str]] = set()
        pending = [self]
        while pending:
            device = pending.pop()
            if (device.device_number, device.name) not in seen:
                seen.add((device.device_number, device.name))
                yield device
                pending += () if stops(device) else reversed(device.known_below)

    @property
    def wholes(self) -> "tuple[BlockDevice, ...]":
        """The devices that contain this one: whoever writes to them can change its bytes.

        They are the disk of a partition, and the devices below linear mappings (logical volumes).
        """
        return tuple(self.descend(lambda device: not device.is_part))[1:]

    @property
    def is_part(self) -> bool:
        """Whether it maps a part of the devices below; dm-multipath maps all of them."""
        return self.kind in PARTS and not (self.dm and self.dm.uuid.startswith("mpath-"))

    def leaves(self) -> "tuple[BlockDevice, ...]":
        """Return the leaf devices: those without a known device below."""
        return tuple(device for device in self.walk() if not device.known_below)

    @property
    def image(self) -> "BlockDevice | None":
        """The audited image file: this device, or the one below it; None for real devices."""
        return next((device for device in self.walk() if device.kind in IMAGES), None)

    @property
    def known_below(self) -> "tuple[BlockDevice, ...]":
        """The devices directly below, empty if they are unknown."""
        return for_wording(self.below, ())


@cached_by_identity
def _walked(top: BlockDevice) -> tuple[BlockDevice, ...]:
    """Return a device and all below it, top first; cached because every rule needs it."""
    found: dict[DeviceNumber, BlockDevice] = {}
    pending = [top]
    for device in pending:
        if device.device_number not in found:
            found[device.device_number] = device
            pending.extend(device.known_below)
    return tuple(found.values())


class LsblkDevice(NamedTuple):
    """One row of `lsblk`; a column that lsblk leaves empty is None.

    `name` is the readable one ("vg0-data"), `kernel_name` the name in /sys ("dm-1").
    `fstype`, `uuid` and `label` are what libblkid or udev found on the device, whether or not
    it is mounted; `transport` is "sata", "nvme" and the like. `unlisted` are columns that were
    not captured for the device, as in some archives: their values are unknown. `parents` are the
    devices directly below it; empty for a disk, and for a list that is no tree (`lsblk -P`).
    """

    name: str
    kernel_name: str
    device_number: DeviceNumber
    fstype: str | None = None
    uuid: str | None = None
    label: str | None = None
    partuuid: str | None = None
    partlabel: str | None = None
    model: str | None = None
    transport: str | None = None
    unlisted: frozenset[str] = frozenset()
    parents: frozenset[DeviceNumber] = frozenset()


@cached_by_identity
def devices_by_number(
    devices: tuple[LsblkDevice, ...],
) -> Mapping[DeviceNumber, tuple[LsblkDevice, ...]]:
    """Return the rows of each device: lsblk lists a device once below each of its parents."""
    return grouped((device.device_number, device) for device in devices)


def listed_device(devices: tuple[LsblkDevice, ...], number: DeviceNumber) -> LsblkDevice | None:
    """Return the first row of a device, None if lsblk does not list it."""
    return next(iter(devices_by_number(devices).get(number, ())), None)


@cached_by_identity
def unlisted_columns(devices: tuple[LsblkDevice, ...]) -> frozenset[str]:
    """Return the columns that are missing for at least one device."""
    return frozenset().union(*(device.unlisted for device in devices))


@cached_by_identity
def has_types(devices: tuple[LsblkDevice, ...]) -> bool:
    """Whether lsblk shows the type of any filesystem; without udev it shows none."""
    return any(device.fstype for device in devices)


ONE_PATH = frozenset({"ata", "mmc", "sata", "usb"})
"""Transports over which a disk cannot appear twice (no multipath)."""
ONE_PATH_NAMES = ("mmcblk", "vd", "xvd")
IDENTITIES = ("ID_SERIAL", "ID_WWN_WITH_EXTENSION")
"""The udev properties of a disk that are equal on every path to it."""


def is_same_storage(
    one: BlockDevice, other: BlockDevice, rows: tuple[LsblkDevice, ...] = ()
) -> bool | None:
    """Whether two devices show the same bytes; None if that cannot be determined.

    Examples are two loop devices with one backing file, and two paths to one disk without
    dm-multipath. A copy is recognized by a different file, logical volume or serial number.
    """
    if one.device_number == other.device_number:
        return True
    if one.loop or other.loop:
        return _is_same_file(one, other)
    kinds = {one.kind, other.kind}
    if kinds <= {"disk", "partition"}:
        return _is_same_part(one, other, rows)
    if one.dm and other.dm and one.dm.uuid.startswith("LVM-") and other.dm.uuid.startswith("LVM-"):
        return None if one.dm.uuid == other.dm.uuid else False
    own, others = one.leaves(), other.leaves()
    if any(leaf.kind != "disk" for leaf in (*own, *others)):
        return None
    differ = all(is_same_storage(a, b, rows) is False for a in own for b in others)
    return False if differ else None


def storage_keys(device: BlockDevice) -> tuple[str, ...]:
    """Return keys such that devices with the same bytes have at least one in common.

    Only devices with a common key are compared: a host may have thousands of copies.
    """
    disk = next(iter(device.known_below), device) if device.kind == "partition" else device
    backing_file = device.loop.backing_file if device.loop else ""
    identities = (value for key, value in disk.udev if key in IDENTITIES)
    names = (device.path, f"/dev/{device.name}", backing_file, *identities)
    return tuple(dict.fromkeys(filter(None, names)))


def _is_same_file(one: BlockDevice, other: BlockDevice) -> bool | None:
    if one.loop and other.loop:
        same = one.loop.backing_file == other.loop.backing_file
        if not one.loop.backing_file or not other.loop.backing_file:
            return None
        offsets = {one.loop.offset_bytes, other.loop.offset_bytes}
        return same and ((len(offsets) == 1 and None not in offsets) or None)
    over, device = (one, other) if one.loop else (other, one)
    file, offset = (over.loop.backing_file, over.loop.offset_bytes) if over.loop else ("", None)
    if not file or file.startswith("/dev/"):
        return (offset == 0 and file in {device.path, f"/dev/{device.name}"}) or None
    return False


def _is_same_part(
    one: BlockDevice, other: BlockDevice, rows: tuple[LsblkDevice, ...]
) -> bool | None:
    ours, theirs = (
        next(iter(each.known_below), None) if each.kind == "partition" else each
        for each in (one, other)
    )
    if ours is None or theirs is None:
        return None
    known = None not in {one.start_sectors, other.start_sectors}
    if ours.device_number == theirs.device_number:
        return False if known and one.start_sectors != other.start_sectors else None
    if _has_one_path(ours, rows) or _has_one_path(theirs, rows):
        return False
    for key in IDENTITIES:
        identity, its = dict(ours.udev).get(key), dict(theirs.udev).get(key)
        if identity and its:
            return identity == its and (one.start_sectors == other.start_sectors or None)
    return None


def _has_one_path(disk: BlockDevice, rows: tuple[LsblkDevice, ...]) -> bool:
    row = listed_device(rows, disk.device_number)
    buses = {row.transport if row else None, dict(disk.udev).get("ID_BUS")}
    return disk.name.startswith(ONE_PATH_NAMES) or not ONE_PATH.isdisjoint(buses)


CLASS_TABLE = "disk_classes.toml"
NVME, REMOVABLE, VIRTUAL, ROTATIONAL, SSD = "nvme", "removable", "virtual", "rotational", "ssd"


class DiskClass(NamedTuple):
    """One class of disks; the fields are explained in disk_classes.toml."""

    title: str
    names: tuple[str, ...]
    megabytes_per_second: int
    slow: bool
    source: str
    confirmed: str


def disk_classes() -> Mapping[str, DiskClass]:
    """Return the disk classes by name."""
    return _classes(read_table(CLASS_TABLE))


@cached_by_identity
def _classes(table: dict[str, Any]) -> Mapping[str, DiskClass]:
    return {
        name: DiskClass(**{**each, "names": tuple(each["names"])}) for name, each in table.items()
    }

"""The ext4 superblocks of a host: live ones by `take_inventory`, others by `read_unmounted`.

`neighbours` are further live ones, which an audit of some filesystems needs: a filesystem on a
loop device is as safe as the one that holds its file, and filesystems that overlap on a disk
destroy each other, whichever of them is the target.

A superblock is live while any mount namespace has it mounted. /proc/fs/ext4 and /sys/fs/ext4 list
such superblocks without a line in our own mountinfo (observed on 6.18). The inventory is the union
of these two lists and the mount table.

`mark_overmounted` finds overmounted mounts: several filesystems can be mounted on one directory,
and a mount hides all mounts below its directory. A command by mount point acts on the topmost one.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ext4audit.assemble import ask, list_directory, read, read_count
from ext4audit.assemble.superblock import HINT_HOST, name_of, number_of
from ext4audit.evidence import MOUNT_TABLE, Evidence, Known, Unknown, Why, derive, for_wording
from ext4audit.facts import grouped
from ext4audit.facts.devices import BlockDevice, LsblkDevice, is_same_storage, storage_keys
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber, Mount
from ext4audit.parsers import parse_device_names
from ext4audit.parsers.devices_and_mounts import (
    MountTable,
    NumberNotCapturedError,
    parse_mount_table,
)
from ext4audit.sources import ListDir, Source

PROC_EXT4 = "/proc/fs/ext4"
SYS_EXT4 = "/sys/fs/ext4"
NOT_DEVICES = frozenset({"features"})
UNMOUNTED_FILESYSTEMS = "filesystems that are not mounted"
MOST_UNMOUNTED = 256
_PARTITION = r"(.+?)(?:(?<=[0-9])p)?[0-9]+"


class Inventory(NamedTuple):
    """The mount table, the kernel's name of each live superblock, and the gaps of both lists.

    `mounts` is unknown where a single line of the table could not be read, for what is not listed
    may be mounted nevertheless. `visible` are the mounts of the lines that could, and `origin` is
    where the table was read.
    """

    mounts: Evidence[tuple[Mount, ...]]
    names: dict[DeviceNumber, str]
    gaps: tuple[Unknown, ...]
    visible: tuple[Mount, ...] = ()
    origin: str = MOUNT_TABLE


def take_inventory(source: Source) -> Inventory:
    """List the live ext4 superblocks."""
    table = read(source, MOUNT_TABLE, parse_mount_table)
    origin = table.origin if isinstance(table, Known) else MOUNT_TABLE
    readable = derive("mount table", lambda table: mark_overmounted(table.mounts), table)
    lines = _unread_lines(table)
    mounts, visible = lines[0] if lines else readable, for_wording(readable, ())
    listed = {place: list_directory(source, place) for place in (PROC_EXT4, SYS_EXT4)}
    gaps = [readable] if isinstance(readable, Unknown) else list(lines)
    found: dict[DeviceNumber, str] = {}
    in_kernel = sorted(
        {n for place in listed.values() for n in for_wording(place, ())} - NOT_DEVICES
    )
    for name in in_kernel:
        number = number_of(source, name, visible, origin)
        if isinstance(number, Known):
            found[number.value] = name
        else:
            gaps.append(replace(number, what=f"ext4 superblock on {name}"))
    for mount in visible:
        if mount.fstype in EXT_FSTYPES and mount.device_number not in found:
            found[mount.device_number] = name_of(source, mount)
    return Inventory(mounts, found, (*gaps, *_masked(source, listed, visible)), visible, origin)


def _unread_lines(table: Evidence[MountTable]) -> tuple[Unknown, ...]:
    """Return a gap for each line of the mount table that could not be read."""
    return tuple(
        Unknown(
            f"line {number} of the mount table",
            Why.NOT_CAPTURED if isinstance(error, NumberNotCapturedError) else Why.UNPARSABLE,
            str(error),
        )
        for number, error in for_wording(table, MountTable(())).unread
    )


def _has_no_ext4(source: Source, visible: tuple[Mount, ...]) -> bool:
    """Whether the types of the devices prove that no mount namespace can have an ext4 filesystem.

    The list counts as whole if it has the type of each device that is mounted here.
    """
    from ext4audit.assemble.devices.fstab import list_devices  # noqa: PLC0415 - for archives only

    devices = list_devices(source)
    if isinstance(devices, Unknown):
        return False
    typed = {device.device_number: device.fstype for device in devices.value if device.fstype}
    mounted = {mount.device_number for mount in visible if mount.device_number.major != 0}
    return bool(mounted) and mounted <= typed.keys() and EXT_FSTYPES.isdisjoint(typed.values())


def _masked(
    source: Source, listed: dict[str, Evidence[tuple[str, ...]]], visible: tuple[Mount, ...]
) -> tuple[Unknown, ...]:
    """Return the gap of a host on which neither list of the kernel can be read.

    A kernel without the ext4 driver has neither list; the driver creates both.
    """
    if any(isinstance(place, Known) for place in listed.values()):
        return ()
    filesystems = read(source, "/proc/filesystems", str.split)
    if isinstance(filesystems, Known) and "ext4" not in filesystems.value:
        return ()
    # The hint of an archive explains how to capture the lists; on a live host they are masked.
    proc = listed[PROC_EXT4]
    capture = proc.hint if isinstance(proc, Unknown) and proc.why is Why.NOT_CAPTURED else None
    if capture is not None and _has_no_ext4(source, visible):
        return ()
    return (
        Unknown(
            "ext4 superblocks of other mount namespaces",
            Why.ABSENT if capture is None else Why.NOT_CAPTURED,
            f"neither {PROC_EXT4} nor {SYS_EXT4} can be listed",
            HINT_HOST if capture is None else capture,
        ),
    )


class OtherMountTables:
    """The mount tables of all processes, each read once, and none before it is needed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: dict[DeviceNumber, Known[Mount]] = {}
        self._hint = ""
        self._reading = self._read()

    def find(self, number: DeviceNumber) -> Evidence[Mount]:
        """Return a mount of the superblock from the mountinfo of any readable process."""
        while number not in self._found and next(self._reading, None):
            pass
        return self._found.get(number) or Unknown(
            f"mount of {number}",
            Why.ABSENT,
            "active in the kernel, but in no readable mount table",
            self._hint,
        )

    def _read(self) -> Iterator[str]:
        """Yield the path of each table when its mounts are known.

        All processes of a mount namespace have the same table: it is parsed once.
        """
        parsed = set()
        for pid in filter(str.isdecimal, for_wording(list_directory(self._source, "/proc"), ())):
            path = f"/proc/{pid}/mountinfo"
            answer = read(self._source, path, str)
            if isinstance(answer, Unknown) and answer.why is Why.DENIED:
                self._hint = answer.hint
            text = for_wording(answer, "")
            if text not in parsed:
                parsed.add(text)
                table = derive("mount table", parse_mount_table, Known(text, path))
                for mount in for_wording(table, MountTable(())).mounts:
                    self._found.setdefault(mount.device_number, Known(mount, path))
            yield path


def read_unmounted(
    source: Source,
    devices: Evidence[tuple[LsblkDevice, ...]],
    alive: Collection[DeviceNumber],
    read: Callable[[DeviceNumber], Filesystem],
) -> Evidence[tuple[Filesystem, ...]]:
    """Return the unmounted ext4 filesystems on devices that no other device is made of.

    Without udev, lsblk 2.38 lists no filesystem types. Every device is then probed for a
    superblock. One that a loop device shows counts as that device.
    """
    if isinstance(devices, Unknown):
        return devices
    has_types = any(device.fstype for device in devices.value)
    candidates = _candidates(devices.value, alive, has_types=has_types)
    if len(candidates) > MOST_UNMOUNTED:
        return Unknown(
            UNMOUNTED_FILESYSTEMS, Why.UNSUPPORTED, f"more than {MOST_UNMOUNTED} of them"
        )
    found = []
    for number in candidates:
        free = _is_free(source, number)
        if isinstance(free, Unknown):
            return Unknown(UNMOUNTED_FILESYSTEMS, free.why, free.detail, free.hint)
        if not free.value:
            continue
        fs = read(number)
        if isinstance(fs.superblock, Known) and fs.superblock.value.is_journal:
            continue
        if has_types or isinstance(fs.superblock, Known):
            found.append(fs)
        elif fs.superblock.why in {Why.DENIED, Why.TIMED_OUT}:
            gap = fs.superblock
            return Unknown(UNMOUNTED_FILESYSTEMS, gap.why, gap.detail, gap.hint)
    stacks = (fs.stack.value for fs in found if isinstance(fs.stack, Known))
    shown = {device.loop.shows for stack in stacks for device in stack.walk() if device.loop}
    unique = (fs for fs in found if shown.isdisjoint({fs.device, f"/dev/{fs.name}"}))
    return Known(tuple(unique), devices.origin)


def _is_free(source: Source, number: DeviceNumber) -> Evidence[bool]:
    """Return whether a device has a size, and no other is made of it or of the disk it is part of.

    A path of dm-multipath, and a member of an array whose metadata stand at the end, show the
    partitions of the whole. Snapshots before 0.2 lack the holders of the disk.
    """
    directory = f"/sys/dev/block/{number}"
    of_disk = _holders(source, f"{directory}/..")
    if isinstance(of_disk, Known) and of_disk.value:
        return Known(value=False, origin=of_disk.origin)
    return derive(
        "use of a device",
        lambda size, holders: size > 0 and not holders,
        read_count(source, f"{directory}/size"),
        _holders(source, directory),
    )


def _holders(source: Source, directory: str) -> Evidence[tuple[str, ...]]:
    return ask(source, ListDir(f"{directory}/holders"), parse_device_names, "holders of a device")


def _candidates(
    devices: tuple[LsblkDevice, ...], alive: Collection[DeviceNumber], *, has_types: bool
) -> list[DeviceNumber]:
    """Return the devices with ext4 by lsblk, or all without types; no disks with partitions."""
    partitioned = {m[1] for each in devices if (m := re.fullmatch(_PARTITION, each.kernel_name))}
    return sorted(
        {
            each.device_number
            for each in devices
            if (each.fstype in EXT_FSTYPES or not has_types)
            and each.device_number not in alive
            and each.kernel_name not in partitioned
        }
    )


def neighbours(
    chosen: Collection[Filesystem],
    live: Collection[DeviceNumber],
    stack_of: Callable[[DeviceNumber], Evidence[BlockDevice]],
    rows: tuple[LsblkDevice, ...],
) -> list[DeviceNumber]:
    """Return the `live` superblocks that rules need in addition to the chosen ones.

    They hold backing files of loop devices, lie on the same disks, or are the same storage. One
    whose device is not known may be there, too, and one that is mounted may lie on the disk of a
    chosen one that is not.
    """
    others = sorted(set(live) - {fs.device_number for fs in chosen})
    if not all(fs.alive for fs in chosen):
        return others
    own = [fs.stack.value for fs in chosen if isinstance(fs.stack, Known)]
    backing = backing_numbers(chosen)
    on_disks = (stack for stack in own if not any(each.loop for each in stack.walk()))
    disks = {leaf.device_number for stack in on_disks for leaf in stack.leaves()}
    alike = grouped((key, each) for each in own for key in storage_keys(each))

    def is_near(stack: BlockDevice) -> bool:
        on_disk = any(leaf.device_number in disks for leaf in stack.leaves())
        same = (each for key in storage_keys(stack) for each in alike.get(key, ()))
        return on_disk or any(is_same_storage(each, stack, rows) for each in same)

    def is_needed(number: DeviceNumber) -> bool:
        stack = stack_of(number)
        return isinstance(stack, Unknown) or is_near(stack.value)

    return [number for number in others if number in backing or is_needed(number)]


def backing_numbers(filesystems: Iterable[Filesystem]) -> frozenset[DeviceNumber]:
    """Return the devices of the filesystems that hold the files of loop devices below some."""
    stacks = [fs.stack.value for fs in filesystems if isinstance(fs.stack, Known)]
    loops = (each.loop for stack in stacks for each in stack.walk() if each.loop)
    numbers = (loop.backing_device_number for loop in loops)
    return frozenset(number.value for number in numbers if isinstance(number, Known))


def mark_overmounted(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts with `overmounted` set for the hidden ones of the ext4 driver."""
    tree = _MountTree(mounts)
    return tuple(
        mount._replace(overmounted=mount.fstype in EXT_FSTYPES and tree.is_hidden(mount))
        for mount in mounts
    )


class _MountTree:
    """The mounts by their parents and places, and which of them are known to be hidden."""

    def __init__(self, mounts: tuple[Mount, ...]) -> None:
        self._by_id = {mount.mount_id: mount for mount in mounts}
        self._at: dict[tuple[int, str], list[Mount]] = {}
        self._over: dict[tuple[int, str], list[Mount]] = {}
        self._known: dict[int, bool] = {}
        for mount in mounts:
            above = mount.parent_id, mount.mount_point.rstrip("/")
            self._at.setdefault((mount.parent_id, mount.mount_point), []).append(mount)
            self._over.setdefault(above, []).append(mount)

    def is_hidden(self, mount: Mount) -> bool:
        """Whether another mount is above this one or above one of its parents."""
        return self._is_covered(mount, None) or self._is_below_hidden(mount)

    def _is_below_hidden(self, mount: Mount) -> bool:
        """Walk up the tree, to what an earlier walk found: all below have the same answer."""
        walked = []
        while (hidden := self._known.get(id(mount))) is None:
            self._known[id(mount)] = True  # what is met again before the walk ends is a cycle
            walked.append(mount)
            parent = self._by_id.get(mount.parent_id)
            if parent is None or parent is mount:
                hidden = False
                break
            if self._is_covered(parent, mount):
                hidden = True
                break
            mount = parent
        self._known.update((id(each), hidden) for each in walked)
        return hidden

    def _is_covered(self, mount: Mount, below: Mount | None) -> bool:
        """Whether another one than `below` is on this mount, or above it in the same parent."""
        place = mount.mount_point
        on_top = self._at.get((mount.mount_id, place), ())
        ends = (index for index, character in enumerate(place) if character == "/")
        beside = (self._over.get((mount.parent_id, place[:end]), ()) for end in ends)
        others = (other for same in (on_top, *beside) for other in same)
        return any(other is not below and other is not mount for other in others)

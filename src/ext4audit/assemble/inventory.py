"""Every ext4 superblock of the host: mounted, in another namespace, overmounted, or unmounted.

Several filesystems may be mounted on one directory, and a mount on a directory hides all that was
mounted below it. A command by mount point then acts on what is on top.

An unmounted filesystem stays alive while another mount namespace holds it, without a line in
our mountinfo (seen on 6.18). What only one of the three places shows is listed all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from ext4audit.assemble.reading import first_known, integer, names, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, value_or
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber, Mount
from ext4audit.parsers.mounts import parse_mountinfo
from ext4audit.parsers.sysfs import parse_device_number
from ext4audit.sources.ask import Source

DEEPEST = 1000
"""Mounts in mounts beyond any real table; a table that loops ends here."""


def mark_overmounted(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts with `overmounted` told for those that the ext4 driver serves."""
    by_id = {mount.mount_id: mount for mount in mounts}
    children: dict[int, list[Mount]] = {}
    for mount in mounts:
        children.setdefault(mount.parent_id, []).append(mount)

    def is_hidden(mount: Mount) -> bool:
        """Walk up: hidden is what something other than the way down to it lies over."""
        below: Mount | None = None
        for _ in range(DEEPEST):
            on_top = (
                m for m in children.get(mount.mount_id, ()) if m.mount_point == mount.mount_point
            )
            beside = (m for m in children.get(mount.parent_id, ()) if _is_above(m, mount))
            if any(other is not below and other is not mount for other in (*on_top, *beside)):
                return True
            parent = by_id.get(mount.parent_id)
            if parent is None or parent is mount:
                return False
            mount, below = parent, mount
        return True

    return tuple(
        replace(mount, overmounted=mount.fstype in EXT_FSTYPES and is_hidden(mount))
        for mount in mounts
    )


def _is_above(other: Mount, mount: Mount) -> bool:
    return mount.mount_point.startswith(other.mount_point.rstrip("/") + "/")


def find_elsewhere(source: Source, number: DeviceNumber) -> Evidence[Mount]:
    """Return a mount of the superblock in the mountinfo of any process that we may read."""
    for pid in value_or(names(source, "/proc"), ()):
        if not pid.isdecimal():
            continue
        mounts = read(source, f"/proc/{pid}/mountinfo", parse_mountinfo)
        for mount in value_or(mounts, ()):
            if mount.device_number == number:
                return Known(mount, f"/proc/{pid}/mountinfo")
    return Unknown(
        f"mount of {number}",
        Why.ABSENT,
        "alive in the kernel, but in no mount table that can be read",
        "run as root on the host to see the mount tables of other namespaces",
    )


PROC_EXT4 = "/proc/fs/ext4"
SYS_EXT4 = "/sys/fs/ext4"
NOT_DEVICES = frozenset({"features"})
HINT_HOST = "run on the host, with /proc and /sys mounted"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The live superblocks by device number, the kernel's name of each, and what stayed unseen."""

    mounts: Evidence[tuple[Mount, ...]]
    names: dict[DeviceNumber, str]
    gaps: tuple[Unknown, ...]


def take_inventory(source: Source) -> Inventory:
    """List the live ext4 superblocks."""
    table = read(source, "/proc/self/mountinfo", parse_mountinfo)
    mounts = derive("mount table", mark_overmounted, table)
    listed = {place: names(source, place) for place in (PROC_EXT4, SYS_EXT4)}
    gaps = [mounts] if isinstance(mounts, Unknown) else []
    found: dict[DeviceNumber, str] = {}
    in_kernel = sorted({n for place in listed.values() for n in value_or(place, ())} - NOT_DEVICES)
    for name in in_kernel:
        number = _number_of(source, name, value_or(mounts, ()))
        if isinstance(number, Known):
            found[number.value] = name
        else:
            gaps.append(Unknown(f"ext4 superblock on {name}", number.why, number.detail, HINT_HOST))
    for mount in value_or(mounts, ()):
        if mount.fstype in EXT_FSTYPES and mount.device_number not in found:
            found[mount.device_number] = _name_of(source, mount)
    return Inventory(mounts, found, (*gaps, *_masked(source, listed)))


def _number_of(source: Source, name: str, mounts: tuple[Mount, ...]) -> Evidence[DeviceNumber]:
    """Return the device number of a kernel name: by sysfs, else by a mount that says its name.

    In this order: a mount's source is what somebody typed, and a container's /dev/sda1 can be
    the node of another device.
    """
    known = first_known(
        lambda: read(source, f"/sys/class/block/{name}/dev", parse_device_number),
        lambda: read(source, f"/sys/block/{name}/dev", parse_device_number),
    )
    if isinstance(known, Known):
        return known
    node = f"/dev/{name.replace('!', '/')}"
    for mount in mounts:
        if mount.fstype in EXT_FSTYPES and mount.source == node:
            return Known(mount.device_number, "/proc/self/mountinfo")
    return known


def _name_of(source: Source, mount: Mount) -> str:
    """Return the kernel's name of a mounted device; never the mount source, if it can be helped.

    The source may be /dev/root or a name that is gone; sysfs knows.
    """
    uevent = read(source, f"/sys/dev/block/{mount.device_number}/uevent", _device_name)
    return value_or(uevent, mount.source.rpartition("/")[2])


def _device_name(text: str) -> str:
    lines = (line.partition("=") for line in text.split("\n"))
    return next(value for key, _, value in lines if key == "DEVNAME").replace("/", "!")


def _masked(source: Source, listed: dict[str, Evidence[tuple[str, ...]]]) -> tuple[Unknown, ...]:
    """Return the gap of a view in which neither of the kernel's own lists can be seen.

    A kernel without ext4 has neither; one with ext4 makes both when the driver is loaded.
    """
    if any(isinstance(place, Known) for place in listed.values()):
        return ()
    filesystems = read(source, "/proc/filesystems", str.split)
    if isinstance(filesystems, Known) and "ext4" not in filesystems.value:
        return ()
    # An archive that holds neither says how to capture them; a host that has neither is masked.
    hole = listed[PROC_EXT4]
    left_out = hole.hint if isinstance(hole, Unknown) and hole.why is Why.NOT_CAPTURED else None
    return (
        Unknown(
            "ext4 superblocks of other mount namespaces",
            Why.ABSENT if left_out is None else Why.NOT_CAPTURED,
            f"neither {PROC_EXT4} nor {SYS_EXT4} can be listed",
            HINT_HOST if left_out is None else left_out,
        ),
    )


WHAT = "filesystems that are not mounted"
MOST = 256
_PARTITION = re.compile(r"(.+?)(?:(?<=[0-9])p)?[0-9]+")


def read_idle(
    source: Source,
    devices: Evidence[tuple[LsblkDevice, ...]],
    alive: Collection[DeviceNumber],
    read: Callable[[DeviceNumber], Filesystem],
) -> Evidence[tuple[Filesystem, ...]]:
    """Return them as `read` reads them; a device that others are made of is not looked into.

    Without udev lsblk 2.38 tells the content of no device: then their superblocks do.
    """
    if isinstance(devices, Unknown):
        return devices
    is_told = any(device.fstype for device in devices.value)
    candidates = _candidates(devices.value, alive, is_told=is_told)
    if len(candidates) > MOST:
        return Unknown(WHAT, Why.UNSUPPORTED, f"more than {MOST} of them")
    found = []
    for number in candidates:
        free = _is_free(source, number)
        if isinstance(free, Unknown):
            return Unknown(WHAT, free.why, free.detail, free.hint)
        if not free.value:
            continue
        fs = read(number)
        if is_told or isinstance(fs.superblock, Known):
            found.append(fs)
        elif fs.superblock.why is Why.DENIED:
            return Unknown(WHAT, Why.DENIED, fs.superblock.detail, fs.superblock.hint)
    return Known(tuple(found), devices.origin)


def _is_free(source: Source, number: DeviceNumber) -> Evidence[bool]:
    """Say whether a device holds anything, and no other device is made of it."""
    directory = f"/sys/dev/block/{number}"
    return derive(
        "use of a device",
        lambda size, holders: size > 0 and not holders,
        integer(source, f"{directory}/size"),
        names(source, f"{directory}/holders"),
    )


def _candidates(
    devices: Iterable[LsblkDevice], alive: Collection[DeviceNumber], *, is_told: bool
) -> list[DeviceNumber]:
    """Return the devices that are told to hold ext4, or may; a disk with partitions does not."""
    listed = tuple(devices)
    divided = {m[1] for each in listed if (m := _PARTITION.fullmatch(each.kernel_name))}
    return sorted(
        {
            each.device_number
            for each in listed
            if (each.fstype in EXT_FSTYPES or not is_told)
            and each.device_number not in alive
            and each.kernel_name not in divided
        }
    )

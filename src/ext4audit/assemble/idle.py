"""Find the ext2, ext3 and ext4 filesystems that lie on devices and are mounted nowhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from ext4audit.assemble.reading import integer, names
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.host import Filesystem
from ext4audit.facts.lsblk import LsblkDevice
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber
from ext4audit.sources.ask import Source

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

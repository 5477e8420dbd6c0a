"""Every ext4 superblock that is alive: mountinfo, /proc/fs/ext4 and /sys/fs/ext4 together.

An unmounted filesystem stays alive while another mount namespace holds it, without a line in
our mountinfo (seen on 6.18). What only one of the three places shows is listed all the same.
"""

from __future__ import annotations

from ext4audit.assemble.covering import mark_covered
from ext4audit.assemble.reading import first_known, names, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, value_or
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber, Mount
from ext4audit.parsers.mountinfo import parse_mountinfo
from ext4audit.parsers.sysfs import parse_device_number
from ext4audit.records import dataclass
from ext4audit.sources.ask import Source

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
    mounts = derive("mount table", mark_covered, table)
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

"""Read one superblock by dumpe2fs, by its bytes or by the kernel; count unzeroed groups.

It takes the groups in order, so that a few descriptors tell how far it has come. What an online
resize adds behind is zeroed by then: the count is what is owed at the end of the filesystem.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import DeviceNumber, Mount, ResolvedPath
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.groups import (
    SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET_BYTES,
    descriptor_blocks,
    descriptor_bytes,
    descriptor_extents,
    descriptors_per_block,
)
from ext4audit.parsers.dumpe2fs import parse_captured_superblock, parse_superblock
from ext4audit.parsers.group_table import count_unzeroed
from ext4audit.parsers.superblock import parse_raw_superblock, parse_tune_superblock
from ext4audit.parsers.sysfs import parse_resolved_path
from ext4audit.sources.ask import (
    CapturedDumpe2fs,
    FilesystemUuid,
    ReadBytes,
    ResolvePath,
    RunCommand,
    Source,
    TuneSuperblock,
)


def read_raw_superblock(
    source: Source, path: str, *, offset_bytes: int = 0, reading: int = 0
) -> Evidence[Superblock]:
    """Return the superblock of a filesystem that starts at `offset_bytes` of a device or image.

    It does not look what device the path stands for: `device_node` does.
    """
    place = ReadBytes(path, offset_bytes + SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES, reading)
    return derive(f"superblock of {path}", parse_raw_superblock, source.fetch(place))


def read_superblock(
    source: Source, path: str, number: DeviceNumber, mounts: tuple[Mount, ...]
) -> Evidence[Superblock]:
    """Return the superblock of the device at `path`, which must have the device number.

    dumpe2fs first: it also knows the size of a journal that the superblock does not state.
    """
    read = _read_device(source, path, number)
    if isinstance(read, Known):
        return read
    mount_point = own_mount_point(source, number, mounts)
    if mount_point is None:
        return read
    tuned = derive(
        "superblock parameters",
        parse_tune_superblock,
        source.fetch(TuneSuperblock(mount_point)),
    )
    return tuned if isinstance(tuned, Known) else read


def dump_superblock(source: Source, path: str, number: DeviceNumber) -> Evidence[Superblock]:
    """Return what `dumpe2fs -h` says of the device node at `path`."""
    node = device_node(source, path, number)
    if isinstance(node, Unknown):
        return node
    command = RunCommand(("dumpe2fs", "-h", path))
    return ask(source, command, parse_superblock, f"superblock of {path}")


def read_image_superblock(source: Source, path: str, offset_bytes: int = 0) -> Evidence[Superblock]:
    """Return the superblock of a filesystem that starts at `offset_bytes` of an image file.

    From its bytes, which needs no e2fsprogs. A device is read by `read_superblock`, which looks
    that the path leads to it.
    """
    return read_raw_superblock(source, path, offset_bytes=offset_bytes)


def device_node(source: Source, path: str, number: DeviceNumber) -> Evidence[ResolvedPath]:
    """Return what `path` leads to, if that is the node of the device with the number.

    A container's /dev may hold another device under the same name.
    """
    node = ask(source, ResolvePath(path), parse_resolved_path, f"superblock of {path}")
    if isinstance(node, Known) and node.value.represents != number:
        detail = f"{path} is not the block device {number}"
        return Unknown(f"superblock of {path}", Why.ABSENT, detail, "run on the host")
    return node


def most_curable(*holes: Unknown) -> Unknown:
    """Return the hole that a user can do most about, the first where nothing tells them apart.

    That a reader is not installed or was not captured is of no use where another one was refused
    and would work for root.
    """
    useless = {Why.ABSENT, Why.NOT_CAPTURED, Why.UNSUPPORTED}
    return next((hole for hole in holes if hole.why not in useless), holes[0])


def _read_device(source: Source, path: str, number: DeviceNumber) -> Evidence[Superblock]:
    """Return what the device itself says, by the first reader that can read it."""
    node = device_node(source, path, number)
    if isinstance(node, Unknown):
        return node
    dumped = dump_superblock(source, path, number)
    if isinstance(dumped, Known):
        return dumped
    raw = read_raw_superblock(source, path)
    if isinstance(raw, Known):
        return raw
    captured = ask(
        source, CapturedDumpe2fs(path), parse_captured_superblock, f"superblock of {path}"
    )
    return captured if isinstance(captured, Known) else most_curable(dumped, raw)


def read_uuid(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return the UUID that the kernel states for a mounted superblock (Linux 6.9)."""
    mount_point = own_mount_point(source, number, mounts)
    if mount_point is None:
        return None
    raw = source.fetch(FilesystemUuid(mount_point))
    if isinstance(raw, Unknown):
        return None
    text = raw.value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def device_path(stack: Evidence[BlockDevice], name: str) -> str:
    """Return the path that a person types for a device."""
    return stack.value.path if isinstance(stack, Known) else f"/dev/{name}"


def own_mount_point(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return a mount point that really leads to this superblock.

    Another filesystem may be mounted over it: an ioctl there would answer for the wrong one.
    """
    for mount in mounts:
        found = ask(source, ResolvePath(mount.mount_point), parse_resolved_path, mount.mount_point)
        if isinstance(found, Known) and found.value.device_number == number:
            return mount.mount_point
    return None


WHAT = "groups to be initialized"
CHECKSUMMED = frozenset({"uninit_bg", "metadata_csum"})
"""Without them no descriptor says what is zeroed, and mke2fs zeroes all."""
_READ_AT_ONCE_BYTES = 64 << 10
_FEW_EXTENTS = 4


def read_unzeroed_groups(
    source: Source, path: str, superblock: Evidence[Superblock]
) -> Evidence[int]:
    """Return the count for the device at `path`, from which `superblock` was read."""
    if isinstance(superblock, Unknown):
        return superblock
    known = superblock.value
    if CHECKSUMMED.isdisjoint(known.features):
        return Known(0, superblock.origin)
    if known.groups is None:
        return Unknown(WHAT, Why.DENIED, "the device itself was not read", "run as root")
    places = derive(WHAT, partial(_places, path), superblock)
    if isinstance(places, Unknown):
        return places
    return _owed(source, places.value, descriptor_bytes(known), f"group descriptors of {path}")


def _places(path: str, superblock: Superblock) -> tuple[ReadBytes, ...]:
    """Return the asks for all descriptors: as few as can be, or one a block where they are many."""
    extents = descriptor_extents(superblock)
    size_bytes = sum(length for _, length in extents)
    if size_bytes > _READ_AT_ONCE_BYTES or len(extents) > _FEW_EXTENTS:
        block_bytes, size = superblock.block_bytes or 0, descriptor_bytes(superblock)
        groups, each = superblock.groups or 0, descriptors_per_block(superblock)
        extents = tuple(
            (block * block_bytes, min(each, groups - index * each) * size)
            for index, block in enumerate(descriptor_blocks(superblock))
        )
    return tuple(ReadBytes(path, offset, length) for offset, length in extents)


def _owed(source: Source, places: Sequence[ReadBytes], size: int, origin: str) -> Evidence[int]:
    """Find the first place that has some by halving; all groups behind it are owed too."""
    low, high = 0, len(places) - 1
    owed = _count(source, places[high], size)
    if isinstance(owed, Unknown):
        return owed
    if owed.value == 0:
        return Known(0, origin)
    while low < high:
        middle = (low + high) // 2
        found = _count(source, places[middle], size)
        if isinstance(found, Unknown):
            return found
        if found.value:
            high, owed = middle, found
        else:
            low = middle + 1
    behind = sum(place.length_bytes for place in places[high + 1 :]) // size
    return Known(owed.value + behind, origin)


def _count(source: Source, place: ReadBytes, size: int) -> Evidence[int]:
    return derive(WHAT, count_unzeroed, source.fetch(place), Known(size, ""))

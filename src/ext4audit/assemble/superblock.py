"""One superblock, read with dumpe2fs, from raw bytes or from the kernel; unzeroed inode tables.

It also finds the names of its device: by number, by the kernel's name, by path.

Before a path is read, its device number is checked: in a container, /dev can contain another
device under the same name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ext4audit import lazily
from ext4audit.assemble import ask, first_known, is_root, read
from ext4audit.evidence import OUTSIDE, Evidence, Known, Unknown, Why, derive
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber, Mount, ResolvedPath
from ext4audit.facts.superblock import PrimarySuperblock, Sizes, Superblock
from ext4audit.layout import (
    SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET_BYTES,
    descriptor_blocks,
    descriptor_extents,
    descriptors_per_block,
)
from ext4audit.parsers import parse_device_number, parse_resolved_path
from ext4audit.parsers.dumpe2fs import (
    count_unzeroed,
    damage_in_message,
    parse_captured_superblock,
    parse_damage,
    parse_superblock,
)
from ext4audit.sources import (
    CapturedDumpe2fs,
    FilesystemUuid,
    ReadBytes,
    ResolvePath,
    RunCommand,
    Source,
    TuneSuperblock,
    denied_hint,
)

_damage_of: Callable[[bytes], str] = lazily("parsers.superblock", "damage_of")
_parse_raw_superblock: Callable[[bytes], Superblock] = lazily(
    "parsers.superblock", "parse_raw_superblock"
)
_parse_tune_superblock: Callable[[bytes], Superblock] = lazily(
    "parsers.superblock", "parse_tune_superblock"
)


def read_raw_superblock(
    source: Source, path: str, *, offset_bytes: int = 0, reading: int = 0
) -> Evidence[Superblock]:
    """Return the superblock of a filesystem that starts at `offset_bytes` of a device or image.

    The device number of `path` is not checked here, but by `device_node`.
    """
    place = ReadBytes(path, offset_bytes + SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES, reading)
    return derive(f"superblock of {path}", _parse_raw_superblock, source.fetch(place))


def read_superblock(
    source: Source, path: str, number: DeviceNumber, mounts: tuple[Mount, ...]
) -> Evidence[Superblock]:
    """Return the superblock of the device at `path`, which must have the device number.

    dumpe2fs is tried first because it also prints a journal size that the superblock lacks.
    """
    read = _read_device(source, path, number)
    if isinstance(read, Known):
        return read
    tuned = read_tuned_superblock(source, number, mounts)
    return tuned if isinstance(tuned, Known) else read


def read_tuned_superblock(
    source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]
) -> Evidence[Superblock]:
    """Return the fields that the kernel reports for a mounted superblock, without device access."""
    what = "superblock parameters"
    mount_point = own_mount_point(source, number, mounts)
    if mount_point is None:
        return Unknown(what, Why.ABSENT, "no mount point leads to it")
    return derive(what, _parse_tune_superblock, source.fetch(TuneSuperblock(mount_point)))


def dump_superblock(source: Source, path: str, number: DeviceNumber) -> Evidence[Superblock]:
    """Return the superblock that `dumpe2fs -h` prints for the device node at `path`."""
    node = device_node(source, path, number)
    if isinstance(node, Unknown):
        return node
    command = RunCommand(("dumpe2fs", "-h", path))
    return ask(source, command, parse_superblock, f"superblock of {path}")


def device_node(source: Source, path: str, number: DeviceNumber) -> Evidence[ResolvedPath]:
    """Return the resolved `path`, Unknown if it is not the node of this device."""
    node = ask(source, ResolvePath(path), parse_resolved_path, f"superblock of {path}")
    if isinstance(node, Known) and node.value.represents != number:
        detail = f"{path} is not the block device {number}"
        return Unknown(f"superblock of {path}", Why.ABSENT, detail, OUTSIDE)
    return node


def most_actionable(*unknowns: Unknown) -> Unknown:
    """Return the unknown that a user can act on most easily, by default the first one.

    A reader that lacks permission would succeed as root, so its unknown takes precedence over
    that of a reader that is not installed or whose output was not captured.
    """
    unavailable = {Why.ABSENT, Why.NOT_CAPTURED, Why.UNSUPPORTED}
    return next((each for each in unknowns if each.why not in unavailable), unknowns[0])


def _read_device(source: Source, path: str, number: DeviceNumber) -> Evidence[Superblock]:
    """Return the superblock from the first reader that succeeds."""
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
    return captured if isinstance(captured, Known) else most_actionable(dumped, raw)


def read_uuid(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return the UUID that the kernel reports for a mounted superblock (Linux 6.9), else None."""
    mount_point = own_mount_point(source, number, mounts)
    if mount_point is None:
        return None
    raw = source.fetch(FilesystemUuid(mount_point))
    if isinstance(raw, Unknown):
        return None
    text = raw.value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def device_path(stack: Evidence[BlockDevice], name: str) -> str:
    """Return the usual path of a device, or udev's link if only the device number is known.

    `name` is the kernel's device name, or the device number.
    """
    if isinstance(stack, Known):
        return stack.value.path
    return f"/dev/block/{name}" if ":" in name else f"/dev/{name}"


HINT_HOST = "mount /proc and /sys"
_PLAIN_NODE = re.compile(r"/dev/([^/]+)")


def number_of(
    source: Source, name: str, mounts: tuple[Mount, ...], origin: str
) -> Evidence[DeviceNumber]:
    """Return the device number of a kernel name by sysfs, else by a mount with that source.

    sysfs comes first because the source of a mount is arbitrary: in a container, /dev/sda1 can be
    the node of another device.
    """
    known = first_known(
        lambda: read(source, f"/sys/class/block/{name}/dev", parse_device_number),
        lambda: read(source, f"/sys/block/{name}/dev", parse_device_number),
    )
    if isinstance(known, Known):
        return known
    number = _by_source(mounts).get(f"/dev/{name.replace('!', '/')}")
    return replace(known, hint=known.hint or HINT_HOST) if number is None else Known(number, origin)


@cached_by_identity
def _by_source(mounts: tuple[Mount, ...]) -> Mapping[str, DeviceNumber]:
    """Return the device of the first ext4 mount with each source."""
    ext = (mount for mount in reversed(mounts) if mount.fstype in EXT_FSTYPES)
    return {mount.source: mount.device_number for mount in ext}


def name_of(source: Source, mount: Mount) -> str:
    """Return the kernel's name of a mounted device by sysfs, else by the source of the mount.

    A mapped device is called by its minor number (alloc_dev() of drivers/md/dm.c), whatever its
    node. /dev/root and links such as /dev/vg/lv tell no name of the kernel: the number stands for
    the name then, and no path is made of it.
    """
    uevent = read(source, f"/sys/dev/block/{mount.device_number}/uevent", _device_name)
    if isinstance(uevent, Known):
        return uevent.value
    if mount.source.startswith("/dev/mapper/"):
        return f"dm-{mount.device_number.minor}"
    node = _PLAIN_NODE.fullmatch(mount.source)
    return node[1] if node and node[1] != "root" else str(mount.device_number)


def _device_name(text: str) -> str:
    lines = (line.partition("=") for line in text.split("\n"))
    return next(value for key, _, value in lines if key == "DEVNAME").replace("/", "!")


def own_mount_point(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return a mount point of this superblock that is not overmounted, None if there is none.

    An ioctl on an overmounted mount point reports on the other filesystem.
    """
    for mount in mounts:
        found = ask(source, ResolvePath(mount.mount_point), parse_resolved_path, mount.mount_point)
        if isinstance(found, Known) and found.value.device_number == number:
            return mount.mount_point
    return None


UNZEROED_GROUPS = "groups to be initialized"
CHECKSUMMED = frozenset({"uninit_bg", "metadata_csum"})
"""Features that give descriptors the flag; without them mke2fs zeroes all inode tables."""
_READ_AT_ONCE_BYTES = 64 << 10


def read_unzeroed_groups(
    source: Source, path: str, superblock: Evidence[Superblock]
) -> Evidence[int]:
    """Count the groups whose inode tables the kernel still has to zero (lazy_itable_init).

    `superblock` was read from the device at `path`. The kernel zeroes the groups in order, so a
    bisection over a few descriptors finds the first unzeroed group. Groups that an online resize
    appends are already zeroed, and hide unzeroed groups before them.
    """
    if isinstance(superblock, Unknown):
        return superblock
    sizes = superblock.value.sizes
    if CHECKSUMMED.isdisjoint(superblock.value.features):
        return Known(0, superblock.origin)
    if sizes is None:
        hint = denied_hint(is_root=is_root(source))
        return Unknown(UNZEROED_GROUPS, Why.DENIED, "the device itself was not read", hint)
    places = derive(UNZEROED_GROUPS, partial(_places, path, sizes))
    if isinstance(places, Unknown):
        return places
    origin = f"group descriptors of {path}"
    return _count_by_bisection(source, places.value, sizes.descriptor_bytes, origin)


def _places(path: str, sizes: Sizes) -> tuple[ReadBytes, ...]:
    """Return the asks for all descriptors: one per extent, or one per block of a long table."""
    extents = descriptor_extents(sizes)
    if sum(length for _, length in extents) > _READ_AT_ONCE_BYTES:
        size, each = sizes.descriptor_bytes, descriptors_per_block(sizes)
        extents = tuple(
            (block * sizes.block_bytes, min(each, sizes.groups - index * each) * size)
            for index, block in enumerate(descriptor_blocks(sizes))
        )
    return tuple(ReadBytes(path, offset, length) for offset, length in extents)


def _count_by_bisection(
    source: Source, places: Sequence[ReadBytes], size: int, origin: str
) -> Evidence[int]:
    """Count from the first place with unzeroed groups; all groups after it are unzeroed too."""
    low, high = 0, len(places) - 1
    unzeroed = _count(source, places[high], size)
    if isinstance(unzeroed, Unknown):
        return unzeroed
    if unzeroed.value == 0:
        return Known(0, origin)
    while low < high:
        middle = (low + high) // 2
        found = _count(source, places[middle], size)
        if isinstance(found, Unknown):
            return found
        if found.value:
            high, unzeroed = middle, found
        else:
            low = middle + 1
    behind = sum(place.length_bytes for place in places[high + 1 :]) // size
    return Known(unzeroed.value + behind, origin)


def _count(source: Source, place: ReadBytes, size: int) -> Evidence[int]:
    return derive(UNZEROED_GROUPS, count_unzeroed, source.fetch(place), Known(size, ""))


PRIMARY = "primary superblock"
_READINGS = 3
"""Readings before damage is reported: the kernel may be writing the superblock."""
_BROKEN = frozenset({Why.FAILED, Why.TIMED_OUT, Why.UNPARSABLE})
"""Reasons that mean that dumpe2fs itself failed: not that it is missing or was denied access."""


def read_primary(
    source: Source, path: str, number: DeviceNumber, mounts: tuple[Mount, ...], *, alive: bool
) -> Evidence[PrimarySuperblock]:
    """Return the state of the superblock at `path`, which must have the device number.

    dumpe2fs also verifies the checksum: if it succeeds, nothing else is read. If it fails, the raw
    bytes decide; if they cannot be read, the message of dumpe2fs decides. Damaged bytes of a
    filesystem that is `alive` are read again: the kernel may have been writing them.
    """
    node = device_node(source, path, number)
    if isinstance(node, Unknown):
        return node
    dumped, printed = dump_superblock(source, path, number), _printed(source, path)
    if isinstance(dumped, Known) and printed == Known("", dumped.origin):
        return Known(PrimarySuperblock(is_printed=True), dumped.origin)
    found = _stored(source, path, _READINGS if alive else 1)
    is_printed = isinstance(dumped, Known)
    if isinstance(found, Unknown):
        if isinstance(printed, Unknown):
            found, is_printed = _captured(source, path, printed, found), True
        else:
            found = printed
    if isinstance(found, Unknown):
        return found
    failed = dumped if isinstance(dumped, Unknown) and dumped.why in _BROKEN else None
    kernel = read_tuned_superblock(source, number, mounts) if found.value else None
    return Known(PrimarySuperblock(found.value, failed, kernel, is_printed), found.origin)


def _printed(source: Source, path: str) -> Evidence[str]:
    """Return the damage that dumpe2fs reports on stdout or stderr, "" for none."""
    answer = source.fetch(RunCommand(("dumpe2fs", "-h", path)))
    if isinstance(answer, Known):
        return derive(PRIMARY, parse_damage, answer)
    message = damage_in_message(answer.detail)
    return Known(message, f"dumpe2fs -h {path}") if message else answer


def _captured(source: Source, path: str, *others: Unknown) -> Evidence[str]:
    full = derive(PRIMARY, parse_damage, source.fetch(CapturedDumpe2fs(path)))
    return full if isinstance(full, Known) else most_actionable(*others)


def _stored(source: Source, path: str, readings: int) -> Evidence[str]:
    """Return the damage of the bytes on the device if every reading has it, else ""."""
    first = derive(PRIMARY, _damage_of, source.fetch(_place(path, 0)))
    if isinstance(first, Unknown) or not first.value:
        return first
    for reading in range(1, readings):
        again = derive(PRIMARY, _damage_of, source.fetch(_place(path, reading)))
        if isinstance(again, Known) and not again.value:
            return again
    return first


def _place(path: str, reading: int) -> ReadBytes:
    return ReadBytes(path, SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES, reading)

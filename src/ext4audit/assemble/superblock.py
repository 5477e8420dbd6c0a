"""Read one superblock: by dumpe2fs, by its own bytes, or by the kernel at its mount point."""

from __future__ import annotations

from ext4audit.assemble.raw_superblock import read_raw_superblock
from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.facts.resolved_path import ResolvedPath
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs_header import parse_superblock
from ext4audit.parsers.dumpe2fs_text import parse_captured_superblock
from ext4audit.parsers.resolved_path import parse_resolved_path
from ext4audit.parsers.tune_superblock import parse_tune_superblock
from ext4audit.sources.ask import (
    CapturedDumpe2fs,
    FilesystemUuid,
    ResolvePath,
    RunCommand,
    Source,
    TuneSuperblock,
)


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

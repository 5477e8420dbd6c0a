"""Read one superblock: dumpe2fs on its device, else the kernel's ioctl on its mount point."""

from __future__ import annotations

from ext4audit.assemble.reading import ask
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.dumpe2fs_header import parse_superblock
from ext4audit.parsers.resolved_path import parse_resolved_path
from ext4audit.parsers.tune_superblock import parse_tune_superblock
from ext4audit.sources.ask import (
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

    When neither way answers, dumpe2fs's reason stands: it is the one that a user can cure.
    """
    dumped = dump_superblock(source, path, number)
    if isinstance(dumped, Known):
        return dumped
    mount_point = _own_mount_point(source, number, mounts)
    if mount_point is None:
        return dumped
    tuned = derive(
        "superblock parameters",
        parse_tune_superblock,
        source.fetch(TuneSuperblock(mount_point)),
    )
    return tuned if isinstance(tuned, Known) else dumped


def dump_superblock(source: Source, path: str, number: DeviceNumber) -> Evidence[Superblock]:
    """Return what `dumpe2fs -h` says of the device node at `path`."""
    node = ask(source, ResolvePath(path), parse_resolved_path, f"superblock of {path}")
    if isinstance(node, Unknown):
        return node
    if node.value.represents != number:
        # A container's /dev may hold another device under the same name.
        detail = f"{path} is not the block device {number}"
        return Unknown(f"superblock of {path}", Why.ABSENT, detail, "run on the host")
    command = RunCommand(("dumpe2fs", "-h", path))
    return ask(source, command, parse_superblock, f"superblock of {path}")


def read_uuid(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return the UUID that the kernel states for a mounted superblock (Linux 6.9)."""
    mount_point = _own_mount_point(source, number, mounts)
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


def _own_mount_point(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> str | None:
    """Return a mount point that really leads to this superblock.

    Another filesystem may be mounted over it: an ioctl there would answer for the wrong one.
    """
    for mount in mounts:
        found = ask(source, ResolvePath(mount.mount_point), parse_resolved_path, mount.mount_point)
        if isinstance(found, Known) and found.value.device_number == number:
            return mount.mount_point
    return None

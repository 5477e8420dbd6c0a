"""How full a filesystem is, in the words of its findings."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Known, Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.usage import Usage
from ext4audit.finding import Citation
from ext4audit.rules._stated import stated

GIB = 1 << 30
UNITS = ("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20)
BLOCKS_OF_32_BITS = 1 << 32
"""Blocks that a filesystem without the feature 64bit can have."""


def origin_of(evidence: Evidence[object]) -> str:
    """Return where something was read; empty where it was not."""
    return evidence.origin if isinstance(evidence, Known) else ""


def size(count_bytes: int) -> str:
    """Spell a size: "1.5 TiB", "50 GiB", "12 MiB", "100 bytes"."""
    for unit, unit_bytes in UNITS:
        if abs(count_bytes) >= unit_bytes:
            return f"{count_bytes / unit_bytes:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count_bytes} bytes"


def percent(part: int, whole: int) -> str:
    """Spell a share, rounded down: what is not quite full is not said to be full."""
    return f"{part * 1000 // whole / 10:g} %" if whole else "0 %"


def full_share(usage: Usage) -> float:
    """Return how full it is for users, from 0 to 1: as df(1) counts, without the reserve."""
    used = usage.size_blocks - usage.free_blocks
    reachable = used + usage.available_blocks
    return used / reachable if reachable > 0 else 1.0


def cite_space(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the space in use, if it is known."""
    if not isinstance(fs.usage, Known):
        return ()
    usage = fs.usage.value
    words = [
        f"{size(blocks * usage.block_bytes)} {name}"
        for blocks, name in (
            (usage.size_blocks, "in all"),
            (usage.free_blocks, "free"),
            (usage.available_blocks, "free for users"),
        )
    ]
    return (Citation("space", ", ".join(words), fs.usage.origin),)


IMAGES = frozenset({"image", "e2image"})
"""Kinds of files whose bytes were audited: they lie on no device, and end with their content."""


def device_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the size of the device that the filesystem lies on."""
    if not isinstance(fs.stack, Known):
        return fs.stack
    if fs.stack.value.kind in IMAGES:
        return stated(fs, "size", lambda s: s.block_bytes and s.size_blocks * s.block_bytes)
    sectors = fs.stack.value.size_sectors
    return Known(sectors.value * 512, sectors.origin) if isinstance(sectors, Known) else sectors


def least_idle(device: int) -> int:
    """Return how many bytes of a device a filesystem may leave idle without a word."""
    return max(GIB, device // 100)


def has_room_to_grow(fs: Filesystem) -> bool:
    """Whether the device is known to be larger than the filesystem, as CAP005 finds."""
    device, each = device_bytes(fs), block_bytes(fs)
    if not (isinstance(device, Known) and isinstance(each, Known)):
        return False
    if not isinstance(fs.superblock, Known):
        return False
    own = fs.superblock.value.size_blocks * each.value
    return device.value - own > least_idle(device.value)


def block_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the size of a block; statfs(2) tells it where the superblock's reader does not."""
    found = stated(fs, "block size", lambda superblock: superblock.block_bytes)
    if isinstance(found, Unknown) and isinstance(fs.usage, Known):
        return Known(fs.usage.value.block_bytes, fs.usage.origin)
    return found

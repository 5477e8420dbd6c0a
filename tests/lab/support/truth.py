"""Finds where bitmaps really are: reads each with O_DIRECT, and sees which disk is read."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ext4audit.parsers.dumpe2fs import parse_group_table
from lab.support.devices import run

BLOCK_BYTES = 4096


def bitmap_reads(device: str, members: Sequence[str]) -> dict[str, int]:
    """Return how many reads each member disk serves when all bitmaps are read once.

    The filesystem has 4 KiB blocks and is not mounted, so nothing else reads these disks. The
    kernel itself maps the bytes, through all layers in between.
    """
    blocks = list(_bitmap_blocks(device))
    before = {member: _reads(member) for member in members}
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK_BYTES) as buffer:  # a mapping is aligned as O_DIRECT needs it
            for block in blocks:
                os.preadv(descriptor, [buffer], block * BLOCK_BYTES)
    finally:
        os.close(descriptor)
    return {member: _reads(member) - before[member] for member in members}


def _bitmap_blocks(device: str) -> Iterator[int]:
    table = parse_group_table(run("dumpe2fs", "-g", device))
    yield from table.block_bitmaps
    yield from table.inode_bitmaps


def _reads(name: str) -> int:
    """Return the reads that a device has completed (Documentation/block/stat.rst)."""
    return int(Path(f"/sys/class/block/{name}/stat").read_text().split()[0])

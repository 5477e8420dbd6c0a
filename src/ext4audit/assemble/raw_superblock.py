"""Read the superblock's own bytes."""

from __future__ import annotations

from ext4audit.evidence import Evidence, derive
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.descriptors import SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES
from ext4audit.parsers.raw_superblock import parse_raw_superblock
from ext4audit.sources.ask import ReadBytes, Source


def read_raw_superblock(
    source: Source, path: str, *, offset_bytes: int = 0, reading: int = 0
) -> Evidence[Superblock]:
    """Return the superblock of a filesystem that starts at `offset_bytes` of a device or image.

    It does not look what device the path stands for: `device_node` does.
    """
    place = ReadBytes(path, offset_bytes + SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES, reading)
    return derive(f"superblock of {path}", parse_raw_superblock, source.fetch(place))

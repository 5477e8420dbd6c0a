"""Partitions of a disk image, as its partition table states them."""

from __future__ import annotations

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its number as Linux counts (logical ones from 5 on), and where it lies.

    `size_bytes` is what the table says, whether or not the image is that long.
    """

    number: int
    start_bytes: int
    size_bytes: int

"""`dmsetup table NAME`: what a device-mapper device is made of."""

from __future__ import annotations

from ext4audit.facts.block import DmSegment
from ext4audit.parsers.sysfs import parse_integer

_FIXED_FIELDS = 3


def parse_dm_table(text: str) -> tuple[DmSegment, ...]:
    """Parse the table of one device: "0 1024000 linear 9:127 618496" a line, in sectors.

    ValueError for another text, and for an empty one: a device without a live table holds no
    filesystem that could be judged.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("the device has no live table")
    return tuple(_segment(line) for line in lines)


def _segment(line: str) -> DmSegment:
    """Parse one line: start, length, target type, and the target's own arguments."""
    fields = line.split()
    if len(fields) < _FIXED_FIELDS:
        raise ValueError(f"{line[:60]!r} is no line of a device-mapper table")
    start, length, target, *arguments = fields
    return DmSegment(parse_integer(start), parse_integer(length), target, tuple(arguments))

"""Map a filesystem's bytes through its whole device stack to the devices at the bottom.

The bottom is the disk, the head that seeks: md members are followed through partitions, LUKS
and LVM. A loop device is a bottom as well, because the file behind it is scattered over
whatever lies below; so is a multipath device, whose legs are ways to one and the same disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.byte_map import (
    Leg,
    Split,
    StackMap,
    Way,
    as_map,
    bottom,
    concatenated,
    mirrored,
    through,
    untold,
)
from ext4audit.layout.dm import split_segment
from ext4audit.layout.levels import split_md
from ext4audit.layout.striping import is_bottom

MOST_LAYERS = 32
"""A deeper stack is a circle in a damaged or invented sysfs."""


def map_stack(stack: BlockDevice) -> Evidence[StackMap]:
    """Return the map of every byte of a device to the devices at the bottom of its stack.

    Unknown, with a hint, where the way of some byte cannot be told: a table that only root can
    read, an array that is being reshaped or lacks a member, a thin pool. The origin names what
    was read of each layer that splits.
    """
    walk = _Walk()
    try:
        way = walk.way(stack)
    except Undetermined as hole:
        return hole.unknowns[0]
    origin = ", ".join(walk.origins) or f"/sys/dev/block/{stack.device_number}"
    return Known(as_map(way, tuple(walk.members)), origin)


class _Walk:
    """One walk down a stack: the devices found at the bottom, and what was read on the way.

    Each device is mapped once, however many others lie on it: parts of a volume often lie on
    the same array, and two partitions of a disk are one member.
    """

    def __init__(self) -> None:
        self.members: list[str] = []
        self.origins: dict[str, None] = {}
        self._found: dict[DeviceNumber, Way] = {}
        self._depth = 0

    def way(self, device: BlockDevice) -> Way:
        """Return the way below a device; Undetermined where it cannot be told."""
        if device.device_number not in self._found:
            self._depth += 1
            if self._depth > MOST_LAYERS:
                raise untold(f"{device.name} lies {MOST_LAYERS} layers deep")
            try:
                self._found[device.device_number] = self._made(device)
            except ValueError as error:
                raise untold(f"{device.name}: {error}") from error
            self._depth -= 1
        return self._found[device.device_number]

    def _made(self, device: BlockDevice) -> Way:
        if is_bottom(device):
            return self._bottom(device)
        if device.md is not None:
            array = need(device.md)
            self._read(device.md)
            return self._split(device, split_md(device.name, array))
        if device.dm is not None:
            return self._mapped(device, need(device.dm.table))
        below = need(device.below)
        if device.kind == "partition":
            return self._partition(device, below)
        if below:
            raise untold(f"where {device.name} ({device.kind}) puts a byte is not known")
        return self._bottom(device)

    def _read(self, evidence: Evidence[object]) -> None:
        if isinstance(evidence, Known):
            self.origins[evidence.origin] = None

    def _bottom(self, device: BlockDevice) -> Way:
        self.members.append(device.name)
        return bottom(len(self.members) - 1, _size_bytes(device))

    def _partition(self, device: BlockDevice, below: Sequence[BlockDevice]) -> Way:
        if device.start_sectors is None or len(below) != 1:
            raise untold(f"where the partition {device.name} starts is not known")
        leg = (self.way(below[0]), device.start_sectors * SECTOR_BYTES)
        return through(mirrored(1), [leg], _size_bytes(device))

    def _mapped(self, device: BlockDevice, segments: Sequence[DmSegment]) -> Way:
        """Join the segments of a table, which follow each other without a gap."""
        if device.dm is not None:
            self._read(device.dm.table)
        if [each.target for each in segments] == ["multipath"]:
            return self._bottom(device)
        ordered = sorted(segments, key=lambda segment: segment.start_sectors)
        end = 0
        for segment in ordered:
            if segment.start_sectors != end:
                raise untold(f"{device.name}: its table has a gap at sector {end}")
            end += segment.length_sectors
        ways = [self._split(device, split_segment(segment)) for segment in ordered]
        if len(ways) == 1:
            return ways[0]
        lengths = [segment.length_sectors * SECTOR_BYTES for segment in ordered]
        return through(concatenated(lengths), [(way, 0) for way in ways], _size_bytes(device))

    def _split(self, device: BlockDevice, split: Split) -> Way:
        legs = [self._leg(device, name, start) for name, start in split.legs]
        way = through(split.layer, legs, _size_bytes(device))
        if split.stripes is None or len(legs) == 1:
            return way
        members = tuple(self.members[leaf] for leaf in way.leaves)
        stripes = split.stripes
        geometry = StripeGeometry(
            device.name, stripes.level, stripes.chunk_bytes, 0, members, stripes.layout
        )
        return replace(way, geometry=geometry)

    def _leg(self, device: BlockDevice, name: str, start_bytes: int) -> Leg:
        for below in need(device.below):
            if name in {below.name, str(below.device_number)}:
                return self.way(below), start_bytes
        raise untold(f"{device.name}: its leg {name} is not seen", why=Why.ABSENT)


def _size_bytes(device: BlockDevice) -> int | None:
    """Return the device's size; without it, the sizes of those below still guard the map."""
    size = device.size_sectors
    return None if isinstance(size, Unknown) else size.value * SECTOR_BYTES

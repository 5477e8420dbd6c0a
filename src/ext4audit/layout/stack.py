"""The map of a filesystem's bytes through its whole device stack to the leaf devices.

A leaf device is the disk whose head seeks: md members are followed through partitions, LUKS and
LVM. A loop device is a leaf too, because its backing file is scattered over whatever lies below;
so is a multipath device, whose components are paths to one and the same disk.
"""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.byte_map import (
    ByteMap,
    Component,
    Split,
    StackMap,
    as_map,
    concatenated,
    leaf_device,
    mirrored,
    stacked,
    unmappable,
)
from ext4audit.layout.dm import split_segment
from ext4audit.layout.levels import split_md
from ext4audit.layout.striping import is_leaf_device

MOST_LAYERS = 32
"""A deeper stack is a loop in a damaged or invented sysfs."""


def map_stack(stack: BlockDevice) -> Evidence[StackMap]:
    """Return the map of every byte of a device to the leaf devices of its stack.

    Unknown, with a hint, where the place of some byte is not known: a table that only root can
    read, an array that is being reshaped or lacks a member, a thin pool. The origin names what
    was read of each layer that splits.
    """
    walk = _Walk()
    try:
        byte_map = walk.byte_map(stack)
    except Undetermined as undetermined:
        return undetermined.unknowns[0]
    origin = ", ".join(walk.origins) or f"/sys/dev/block/{stack.device_number}"
    return Known(as_map(byte_map, tuple(walk.members)), origin)


class _Walk:
    """One walk down a stack: the leaf devices found, and the evidence read for each layer.

    Each device is mapped once, however many others lie on it: parts of a volume often lie on
    the same array, and two partitions of a disk are one member.
    """

    def __init__(self) -> None:
        self.members: list[str] = []
        self.origins: dict[str, None] = {}
        self._found: dict[DeviceNumber, ByteMap] = {}
        self._depth = 0

    def byte_map(self, device: BlockDevice) -> ByteMap:
        """Return the byte map of a device; Undetermined where it is not known."""
        if device.device_number not in self._found:
            self._depth += 1
            if self._depth > MOST_LAYERS:
                raise unmappable(f"{device.name} lies {MOST_LAYERS} layers deep")
            try:
                self._found[device.device_number] = self._mapped_once(device)
            except ValueError as error:
                raise unmappable(f"{device.name}: {error}") from error
            self._depth -= 1
        return self._found[device.device_number]

    def _mapped_once(self, device: BlockDevice) -> ByteMap:
        if is_leaf_device(device):
            return self._leaf(device)
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
            raise unmappable(f"where {device.name} ({device.kind}) puts a byte is not known")
        return self._leaf(device)

    def _read(self, evidence: Evidence[object]) -> None:
        if isinstance(evidence, Known):
            self.origins[evidence.origin] = None

    def _leaf(self, device: BlockDevice) -> ByteMap:
        self.members.append(device.name)
        return leaf_device(len(self.members) - 1, _size_bytes(device))

    def _partition(self, device: BlockDevice, below: Sequence[BlockDevice]) -> ByteMap:
        if device.start_sectors is None or len(below) != 1:
            raise unmappable(f"where the partition {device.name} starts is not known")
        component = (self.byte_map(below[0]), device.start_sectors * SECTOR_BYTES)
        return stacked(mirrored(1), [component], _size_bytes(device))

    def _mapped(self, device: BlockDevice, segments: Sequence[DmSegment]) -> ByteMap:
        """Join the segments of a table, which follow each other without a gap."""
        if device.dm is not None:
            self._read(device.dm.table)
        if [each.target for each in segments] == ["multipath"]:
            return self._leaf(device)
        ordered = sorted(segments, key=lambda segment: segment.start_sectors)
        end = 0
        for segment in ordered:
            if segment.start_sectors != end:
                raise unmappable(f"{device.name}: its table has a gap at sector {end}")
            end += segment.length_sectors
        byte_maps = [self._split(device, split_segment(segment)) for segment in ordered]
        if len(byte_maps) == 1:
            return byte_maps[0]
        lengths = [segment.length_sectors * SECTOR_BYTES for segment in ordered]
        return stacked(
            concatenated(lengths), [(byte_map, 0) for byte_map in byte_maps], _size_bytes(device)
        )

    def _split(self, device: BlockDevice, split: Split) -> ByteMap:
        components = [self._component(device, name, start) for name, start in split.components]
        byte_map = stacked(split.layer, components, _size_bytes(device))
        if split.stripes is None or len(components) == 1:
            return byte_map
        members = tuple(self.members[leaf] for leaf in byte_map.leaves)
        stripes = split.stripes
        geometry = StripeGeometry(
            device.name, stripes.level, stripes.chunk_bytes, 0, members, stripes.layout
        )
        return byte_map._replace(geometry=geometry)

    def _component(self, device: BlockDevice, name: str, start_bytes: int) -> Component:
        for below in need(device.below):
            if name in {below.name, str(below.device_number)}:
                return self.byte_map(below), start_bytes
        raise unmappable(f"{device.name}: its leg {name} is not seen", why=Why.ABSENT)


def _size_bytes(device: BlockDevice) -> int | None:
    """Return the device's size; without it, the sizes of those below still bound the map."""
    size = device.size_sectors
    return None if isinstance(size, Unknown) else size.value * SECTOR_BYTES

"""The map of a filesystem's bytes through its whole device stack to the leaf devices.

A leaf device is the disk whose head seeks: md members are followed through partitions, LUKS and
LVM. A loop device is a leaf too, because its backing file is scattered over the device below; so
is a multipath device, whose components are paths to a single disk.

Supported device-mapper targets are linear, striped, crypt, snapshot-origin and raid.

Sources: Documentation/admin-guide/device-mapper/{linear,striped,dm-crypt,snapshot,dm-raid}.rst;
drivers/md/dm-raid.c (6.1) for the raid types, which correspond to md's layout numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment
from ext4audit.facts.layout import StripeComponent, StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout import LVM_STRIPES, STRIPING_LEVELS, is_leaf_device
from ext4audit.layout.byte_map import (
    ByteMap,
    Component,
    Split,
    StackMap,
    Stripes,
    as_map,
    concatenated,
    leaf_device,
    mirrored,
    stacked,
    striped,
    unmappable,
)
from ext4audit.layout.levels import layer_of, split_md

MOST_LAYERS = 32
"""The deepest stack; a deeper one is a loop in damaged or fabricated sysfs data."""


def map_stack(stack: BlockDevice) -> Evidence[StackMap]:
    """Return the map of every byte of a device to the leaf devices of its stack.

    It is unknown, with a hint, if the place of some byte is not known: a table that only root can
    read, an array that is being reshaped or lacks a member, a thin pool. The origin lists the
    evidence that was read for the layers.
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

    Each device is mapped once, even if several devices are on it: parts of a volume are often on
    the same array, and two partitions of a disk are one member.
    """

    def __init__(self) -> None:
        self.members: list[str] = []
        self.origins: dict[str, None] = {}
        self._found: dict[DeviceNumber, ByteMap] = {}
        self._named: dict[DeviceNumber, dict[str, BlockDevice]] = {}
        self._depth = 0

    def byte_map(self, device: BlockDevice) -> ByteMap:
        """Return the byte map of a device; raises Undetermined if it is not known."""
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
            raise unmappable(f"where {device.name} ({device.kind}) maps a byte is not known")
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
        """Return the byte map of a table, whose segments must follow each other without gaps."""
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
        members = self._names(byte_map)
        stripes = split.stripes
        below = tuple(self._described(each) for each in components)
        geometry = StripeGeometry(
            device.name,
            stripes.level,
            stripes.chunk_bytes,
            0,
            members,
            stripes.layout,
            () if below == tuple((name,) for name in members) else below,
            stripes.zoned_bytes,
        )
        return byte_map._replace(geometry=geometry)

    def _names(self, byte_map: ByteMap) -> tuple[str, ...]:
        return tuple(self.members[leaf] for leaf in byte_map.leaves)

    def _described(self, component: Component) -> StripeComponent:
        """Return a component as an element of a geometry, empty if it is not uniform."""
        below, start = component
        names, geometry = self._names(below), below.geometry
        if below.places == len(names):
            return names
        if geometry is None or below.period_bytes is None or set(geometry.members) != set(names):
            return ()
        return geometry._replace(offset_bytes=geometry.offset_bytes + start)

    def _component(self, device: BlockDevice, name: str, start_bytes: int) -> Component:
        below = self._below(device).get(name)
        if below is None:
            raise unmappable(f"{device.name}: its component {name} is not seen", why=Why.ABSENT)
        return self.byte_map(below), start_bytes

    def _below(self, device: BlockDevice) -> dict[str, BlockDevice]:
        """Return the devices directly below, by name and by number; the first of duplicates."""
        number = device.device_number
        if number not in self._named:
            found = reversed(need(device.below))
            pairs = ((name, d) for d in found for name in (d.name, str(d.device_number)))
            self._named[number] = dict(pairs)
        return self._named[number]


def _size_bytes(device: BlockDevice) -> int | None:
    """Return the size if it is known; if not, the sizes of the devices below limit the map."""
    size = device.size_sectors
    return None if isinstance(size, Unknown) else size.value * SECTOR_BYTES


_CRYPT_DEVICE = 3  # cipher, key, iv_offset, device, offset
_COMPONENT_FIELDS = 2  # device, offset
_STRIPED_HEAD = 2  # number of stripes, chunk in sectors
_TYPES: dict[str, tuple[str, int | None]] = {
    "raid0": (LVM_STRIPES, None),
    "raid1": ("raid1", None),
    "raid10": ("raid10", None),
    "raid4": ("raid5", 4),  # dm-raid has RAID4's parity on the first member, md on the last
    "raid5_la": ("raid5", 0),
    "raid5_ra": ("raid5", 1),
    "raid5_ls": ("raid5", 2),
    "raid5_rs": ("raid5", 3),
    "raid5_n": ("raid5", 5),
    "raid6_zr": ("raid6", 8),
    "raid6_nr": ("raid6", 9),
    "raid6_nc": ("raid6", 10),
    "raid6_la_6": ("raid6", 16),
    "raid6_ra_6": ("raid6", 17),
    "raid6_ls_6": ("raid6", 18),
    "raid6_rs_6": ("raid6", 19),
    "raid6_n_6": ("raid6", 5),
}
_FLAGS = frozenset({"sync", "nosync"})
_COPIES = "raid10_copies"
_FAR_ONCE = 1 << 8
"""One far copy in md's RAID10 layout: all copies are near copies."""
_HARMLESS = frozenset(
    "region_size daemon_sleep min_recovery_rate max_recovery_rate max_write_behind "
    "write_mostly stripe_cache rebuild journal_dev journal_mode".split()
)
"""Parameters with a value that do not move data. `data_offset` and `delta_disks` belong to a
reshape, `raid10_format` to layouts that LVM does not make."""
_NUMBER = re.compile("[0-9]{1,19}")  # int() rejects numbers of thousands of digits


def split_segment(segment: DmSegment) -> Split:
    """Return how one line of a table splits; raises ValueError if that is not known."""
    split = _TARGETS.get(segment.target)
    if split is None:
        raise ValueError(f"where the target {segment.target!r} maps a byte is not known")
    return split(segment)


def _linear(segment: DmSegment) -> Split:
    return Split(mirrored(1), (_component(segment.arguments[:_COMPONENT_FIELDS]),))


def _crypt(segment: DmSegment) -> Split:
    fields = segment.arguments[_CRYPT_DEVICE : _CRYPT_DEVICE + _COMPONENT_FIELDS]
    return Split(mirrored(1), (_component(fields),))


def _origin(segment: DmSegment) -> Split:
    """Parse "snapshot-origin device": old data is copied elsewhere, its own data stays in place."""
    return Split(mirrored(1), (_component((*segment.arguments, "0")),))


def _striped(segment: DmSegment) -> Split:
    """Parse "striped N chunk device offset device offset …", as made by LVM with --stripes."""
    count, chunk_sectors = (_number(field) for field in segment.arguments[:_STRIPED_HEAD])
    fields = segment.arguments[_STRIPED_HEAD:]
    if len(fields) != count * _COMPONENT_FIELDS:
        raise ValueError(f"{count} stripes, and {len(fields)} words about them")
    components = tuple(
        _component(fields[at : at + _COMPONENT_FIELDS])
        for at in range(0, len(fields), _COMPONENT_FIELDS)
    )
    chunk_bytes = chunk_sectors * SECTOR_BYTES
    stripes = Stripes(LVM_STRIPES, chunk_bytes, None)
    return Split(striped(count, chunk_bytes), components, stripes)


def _component(fields: Sequence[str]) -> tuple[str, int]:
    if len(fields) != _COMPONENT_FIELDS:
        raise ValueError(f"{fields} is no device with an offset")
    return fields[0], _number(fields[1]) * SECTOR_BYTES


def split_raid(segment: DmSegment) -> Split:
    """Return how "raid TYPE #params chunk … #members (metadata data)…" splits.

    Raises ValueError if a type or parameter is unknown, or a member is missing.
    """
    kind, count, *rest = segment.arguments
    params, members = rest[: _number(count)], rest[_number(count) :]
    if kind not in _TYPES or not params or not members:
        raise ValueError(f"the raid volume {segment.arguments[:8]} is not known")
    level, layout = _TYPES[kind]
    chunk_bytes = _number(params[0]) * SECTOR_BYTES
    copies = _copies(params[1:])
    if level == "raid10":
        layout = _FAR_ONCE | copies
    components = _components(members)
    # dm-raid uses the same size of every member; no layout of these types depends on it.
    sizes = [segment.length_sectors * SECTOR_BYTES] * len(components)
    stripes = Stripes(level, chunk_bytes, layout) if level in STRIPING_LEVELS else None
    return Split(layer_of(level, chunk_bytes, layout, sizes), components, stripes)


def _copies(params: Sequence[str]) -> int:
    """Return the RAID10 copies, by default 2; raises ValueError if parameters may move data."""
    pairs = [param for param in params if param not in _FLAGS]
    unknown = sorted(set(pairs[::2]) - _HARMLESS - {_COPIES})
    if unknown or len(pairs) % 2:
        raise ValueError(f"the raid parameters {unknown or pairs} may move data")
    return _number(dict(zip(pairs[::2], pairs[1::2], strict=True)).get(_COPIES, "2"))


def _components(members: Sequence[str]) -> tuple[tuple[str, int], ...]:
    devices = members[2::2]
    if len(members) - 1 != _number(members[0]) * 2 or "-" in devices:
        raise ValueError(f"{members[0]} members, of which one may be missing: {members[1:33]}")
    return tuple((device, 0) for device in devices)


def _number(argument: str) -> int:
    """Parse a decimal number of at most 19 digits; raises ValueError for anything else."""
    if not _NUMBER.fullmatch(argument):
        raise ValueError(f"{argument[:40]!r} is not a number")
    return int(argument)


_TARGETS: dict[str, Callable[[DmSegment], Split]] = {
    "linear": _linear,
    "crypt": _crypt,
    "snapshot-origin": _origin,
    "striped": _striped,
    "raid": split_raid,
}

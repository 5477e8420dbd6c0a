"""The device stack of a filesystem in the HTML report: a picture of boxes, and a table.

The picture has a row for each depth of the stack. Equal devices side by side share a box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import listed
from ext4audit.renderers import chunk_bytes, visible
from ext4audit.renderers.shared import (
    binary_size,
    counted,
    rounded_size,
    stack_text,
    type_text,
)

TOP = "filesystem"
"""The key of the filesystem's box."""
_MOST_APART = 4
"""If more equal devices than this are side by side, they share one box."""
_WIDTH = 208
_HEIGHT = 66
_GAP = 16
_DROP = 30
_MARGIN = 2
"""Sizes in the picture, in pixels: of a box, between boxes and rows, and the margin."""
_LONGEST_NAME = 21
_LONGEST_DETAIL = 28
"""Characters that usually fit into a line of a box; the first line, the name, is bold."""
_NAMES_IN_BOX = 3


class Box(NamedTuple):
    """A box of the picture: its upper left corner, its CSS class, and up to three lines of text.

    `lines` are shortened to the width of a box; `text` is unshortened.
    """

    left: int
    top: int
    look: str
    lines: tuple[str, ...]
    text: str


class Edge(NamedTuple):
    """A line from the middle of a box down to the middle of another, with bends at `half`."""

    start: int
    top: int
    half: int
    end: int
    bottom: int


class Picture(NamedTuple):
    """Boxes in rows with lines between them; sizes are in pixels."""

    width: int
    height: int
    box_width: int
    box_height: int
    edges: tuple[Edge, ...]
    boxes: tuple[Box, ...]


class DeviceRow(NamedTuple):
    """A device in the table; `more` has rare properties, `below` is set if it is unknown."""

    device: BlockDevice
    size: str
    cache: str
    rotational: str
    more: tuple[str, ...]
    below: Unknown | None


class StackPart(NamedTuple):
    """The device stack of a filesystem: its summary, its picture and its table."""

    summary: str
    picture: Picture
    rows: tuple[DeviceRow, ...]


class DeviceGroup(NamedTuple):
    """Devices that share one box: equal ones, or a single one.

    `above` has the keys of the boxes directly above. `unknown` is set if the devices here could
    not be determined; `devices` then has the device whose components are unknown.
    """

    key: str
    devices: tuple[BlockDevice, ...]
    above: tuple[str, ...]
    unknown: Unknown | None = None


def stack_part(fs: Filesystem, top: BlockDevice) -> StackPart:
    """Return the picture and the table of a stack; `top` is the device of the filesystem."""
    return StackPart(
        summary=f"Device stack: {stack_text(fs)}",
        picture=_picture(fs, top),
        rows=tuple(_device_row(fs, device) for device in top.walk()),
    )


def _device_row(fs: Filesystem, device: BlockDevice) -> DeviceRow:
    sectors = device.size_sectors
    size = rounded_size(sectors.value * SECTOR_BYTES) if isinstance(sectors, Known) else "not known"
    return DeviceRow(
        device=device,
        size=size,
        cache=for_wording(device.queue.write_cache, "not known"),
        rotational=_rotational(device),
        more=tuple(_more(fs, device)),
        below=device.below if isinstance(device.below, Unknown) else None,
    )


def _rotational(device: BlockDevice) -> str:
    if isinstance(device.queue.rotational, Unknown):
        return "rotation not known"
    return "rotational" if device.queue.rotational.value else "not rotational"


def _more(fs: Filesystem, device: BlockDevice) -> Iterator[str]:
    """Yield properties that only some devices have, such as a chunk size or a model."""
    chunk = chunk_bytes(fs, device)
    if chunk is not None:
        yield f"{binary_size(chunk)} chunk"
    if device.model:
        yield f"model {device.model}"
    if device.loop is not None:
        yield f"backed by {device.loop.backing_file}"
    if device.dm is not None:
        yield f"device-mapper name {device.dm.name}"
    state = for_wording(device.md_state, None) if device.md_state else None
    missing = for_wording(state.degraded, 0) if state else 0
    if missing:
        yield f"degraded: {missing} missing"
    if device.known_below:
        yield f"on {listed([each.name for each in device.known_below])}"


def _picture(fs: Filesystem, top: BlockDevice) -> Picture:
    """Return the picture with boxes in centred rows, the filesystem above its devices."""
    rows = ((DeviceGroup(TOP, (), ()),), *rows_of(top))
    width = max(len(row) for row in rows) * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    corners = _corners(rows, width)
    groups = [group for row in rows for group in row]
    return Picture(
        width=width,
        height=len(rows) * (_HEIGHT + _DROP) - _DROP + 2 * _MARGIN,
        box_width=_WIDTH,
        box_height=_HEIGHT,
        edges=tuple(edge for group in groups for edge in _edges(group, corners)),
        boxes=tuple(_box(fs, group, *corners[group.key]) for group in groups),
    )


def _corners(rows: Sequence[Sequence[DeviceGroup]], width: int) -> dict[str, tuple[int, int]]:
    """Return the upper left corner of each box by its key."""
    corners = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        for group in row:
            corners[group.key] = (left, _MARGIN + number * (_HEIGHT + _DROP))
            left += _WIDTH + _GAP
    return corners


def _edges(group: DeviceGroup, corners: Mapping[str, tuple[int, int]]) -> Iterator[Edge]:
    end, bottom = corners[group.key]
    end += _WIDTH // 2
    for key in group.above:
        start, top = corners[key][0] + _WIDTH // 2, corners[key][1] + _HEIGHT
        yield Edge(start, top, (top + bottom) // 2, end, bottom)


def _box(fs: Filesystem, group: DeviceGroup, left: int, top: int) -> Box:
    look, text = _filesystem_text(fs) if group.key == TOP else _group_text(fs, group)
    name, *details = [each for each in text if each]
    lines = (_short_name(name), *(_short_detail(each) for each in details))
    return Box(left, top, look, lines, ", ".join((name, *details)))


def _filesystem_text(fs: Filesystem) -> tuple[str, tuple[str, ...]]:
    where = next(iter(fs.mount_points), "not mounted" if not fs.alive else "not mounted here")
    return "top", (where, type_text(fs), fs.label or "")


def _group_text(fs: Filesystem, group: DeviceGroup) -> tuple[str, tuple[str, ...]]:
    first, number = group.devices[0], len(group.devices)
    if group.unknown is not None:
        return "unknown", ("not known", group.unknown.what)
    if number == 1:
        return "", (first.path, _kind(fs, first), _queue(first))
    names = listed([device.name for device in group.devices], _NAMES_IN_BOX)
    return "pile", (counted(number, first.kind), names, _queue(first))


def _kind(fs: Filesystem, device: BlockDevice) -> str:
    chunk = chunk_bytes(fs, device)
    more = f"{binary_size(chunk)} chunk" if chunk else device.model or ""
    return f"{device.kind}, {more}" if more else device.kind


def _queue(device: BlockDevice) -> str:
    """Return the properties relevant to barriers and seeks: write cache and rotation."""
    cache = for_wording(device.queue.write_cache, "cache not known")
    return f"{cache}, {_rotational(device)}"


def _short_name(name: str) -> str:
    """Shorten a long name to its end, because that is where paths differ."""
    shown = visible(name)
    return name if len(shown) <= _LONGEST_NAME else f"…{shown[1 - _LONGEST_NAME :]}"


def _short_detail(detail: str) -> str:
    shown = visible(detail)
    return detail if len(shown) <= _LONGEST_DETAIL else f"{shown[: _LONGEST_DETAIL - 1]}…"


def rows_of(top: BlockDevice) -> tuple[tuple[DeviceGroup, ...], ...]:
    """Return the rows of the picture, with the top device alone in the first.

    A device is below all devices that it is a component of, so all lines go down.
    """
    depths = _depths(top)
    devices = [device for device in top.walk() if device.device_number in depths]
    places = {device.device_number: place for place, device in enumerate(devices)}
    by_depth: dict[int, list[BlockDevice]] = {}
    for device in devices:
        by_depth.setdefault(depths[device.device_number], []).append(device)
    keys: dict[DeviceNumber, str] = {}
    parents: dict[DeviceNumber, list[tuple[int, str]]] = {}
    rows = []
    for depth in range(max(depths.values()) + 2):
        here, over = by_depth.get(depth, []), by_depth.get(depth - 1, [])
        groups = list(_groups(here, parents))
        rows.append((*groups, *_unknown_groups(over, keys)))
        keys |= {each.device_number: group.key for group in groups for each in group.devices}
        for device in here:
            at = places[device.device_number], keys[device.device_number]
            for below in device.known_below:
                parents.setdefault(below.device_number, []).append(at)
    return tuple(row for row in rows if row)


def _depths(top: BlockDevice) -> dict[DeviceNumber, int]:
    """Return the depth of each device, measured by the longest path from the top device."""
    depths: dict[DeviceNumber, int] = {}

    def visit(device: BlockDevice, depth: int, path: frozenset[DeviceNumber]) -> None:
        number = device.device_number
        if number in path or depths.get(number, -1) >= depth:
            return
        depths[number] = depth
        for each in device.known_below:
            visit(each, depth + 1, path | {number})

    visit(top, 0, frozenset())
    return depths


def _groups(
    here: Sequence[BlockDevice], parents: Mapping[DeviceNumber, Sequence[tuple[int, str]]]
) -> Iterator[DeviceGroup]:
    """Yield the devices of one row in stack order, with many equal ones as one group.

    `parents` has, for each device, the stack positions and group keys of the devices above it.
    """
    alike: dict[object, list[tuple[BlockDevice, tuple[str, ...]]]] = {}
    for device in here:
        above = dict.fromkeys(key for _, key in sorted(parents.get(device.device_number, ())))
        keys = tuple(above) or (TOP,)
        alike.setdefault((_looks(device), keys), []).append((device, keys))
    for found in alike.values():
        keys = found[0][1]
        devices = tuple(device for device, _ in found)
        groups = [devices] if len(devices) > _MOST_APART else [(device,) for device in devices]
        yield from (DeviceGroup(str(group[0].device_number), group, keys) for group in groups)


def _looks(device: BlockDevice) -> tuple[object, ...]:
    """Return the properties of a device that its box shows, except the name."""
    cache = for_wording(device.queue.write_cache, None)
    rotational = for_wording(device.queue.rotational, None)
    return (device.kind, device.model, cache, rotational, isinstance(device.below, Unknown))


def _unknown_groups(
    over: Sequence[BlockDevice], keys: dict[DeviceNumber, str]
) -> Iterator[DeviceGroup]:
    """Yield a group for unknown components, one for each group above."""
    found: dict[str, DeviceGroup] = {}
    for device in over:
        above = keys[device.device_number]
        if isinstance(device.below, Unknown) and above not in found:
            found[above] = DeviceGroup(f"below {above}", (device,), (above,), device.below)
    yield from found.values()

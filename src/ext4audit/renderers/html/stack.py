"""The HTML report: the devices below a filesystem, as boxes in rows and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Known, Unknown, value_or
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.renderers.html.stack_rows import TOP, Pile, rows_of
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.words import binary_size, chunk_bytes, counted, listed, stack_words

_WIDTH = 208
_HEIGHT = 66
_GAP = 16
_DROP = 30
_MARGIN = 2
"""Sizes in a picture, in pixels: of a box, between boxes and rows, and around them."""
_LONGEST_NAME = 23
_LONGEST_DETAIL = 28
"""Characters that most often fit into a line of a box; the box clips wider text."""
_NAMES_IN_BOX = 3


@dataclass(frozen=True, slots=True)
class Box:
    """A box in a picture: its left upper corner, its look, and up to three lines of text.

    `lines` are shortened to the width of a box, `words` are the same in full.
    """

    left: int
    top: int
    look: str
    lines: tuple[str, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from the middle of a box down to the middle of another: right angles at `half`."""

    start: int
    top: int
    half: int
    end: int
    bottom: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes in rows with lines between them; sizes are in pixels."""

    width: int
    height: int
    box_width: int
    box_height: int
    edges: tuple[Edge, ...]
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device in the table; `more` is what only some devices have, `below` unknown devices."""

    device: BlockDevice
    size: str
    cache: str
    rotational: str
    more: tuple[str, ...]
    below: Unknown | None


@dataclass(frozen=True, slots=True)
class StackPart:
    """The device stack of a filesystem: its summary, its picture and its table."""

    summary: str
    picture: Picture
    rows: tuple[DeviceRow, ...]


def stack_part(fs: Filesystem, top: BlockDevice) -> StackPart:
    """Return the filesystem and the devices below it; `top` is the device that it lies on."""
    return StackPart(
        summary=f"Device stack: {stack_words(fs)}",
        picture=_picture(fs, top),
        rows=tuple(_device_row(fs, device) for device in top.walk()),
    )


def _device_row(fs: Filesystem, device: BlockDevice) -> DeviceRow:
    sectors = device.size_sectors
    size = binary_size(sectors.value * SECTOR_BYTES) if isinstance(sectors, Known) else "not known"
    return DeviceRow(
        device=device,
        size=size,
        cache=value_or(device.queue.write_cache, "not known"),
        rotational=_rotational(device),
        more=tuple(_more(fs, device)),
        below=device.below if isinstance(device.below, Unknown) else None,
    )


def _rotational(device: BlockDevice) -> str:
    if isinstance(device.queue.rotational, Unknown):
        return "rotation not known"
    return "rotational" if device.queue.rotational.value else "not rotational"


def _more(fs: Filesystem, device: BlockDevice) -> Iterator[str]:
    """Yield what only some devices have."""
    chunk = chunk_bytes(fs, device)
    if chunk is not None:
        yield f"{binary_size(chunk)} chunk"
    if device.model:
        yield f"model {device.model}"
    if device.loop is not None:
        yield f"backed by {device.loop.backing_file}"
    if device.dm is not None:
        yield f"device-mapper name {device.dm.name}"
    if isinstance(device.md, Known) and device.md.value.degraded:
        yield f"degraded: {device.md.value.degraded} missing"
    if device.known_below:
        yield f"on {listed([each.name for each in device.known_below])}"


def _picture(fs: Filesystem, top: BlockDevice) -> Picture:
    """Place the boxes, each row in the middle, the filesystem above its devices."""
    rows = ((Pile(TOP, (), ()),), *rows_of(top))
    width = max(len(row) for row in rows) * (_WIDTH + _GAP) - _GAP + 2 * _MARGIN
    corners = _corners(rows, width)
    piles = [pile for row in rows for pile in row]
    return Picture(
        width=width,
        height=len(rows) * (_HEIGHT + _DROP) - _DROP + 2 * _MARGIN,
        box_width=_WIDTH,
        box_height=_HEIGHT,
        edges=tuple(edge for pile in piles for edge in _edges(pile, corners)),
        boxes=tuple(_box(fs, pile, *corners[pile.key]) for pile in piles),
    )


def _corners(rows: Sequence[Sequence[Pile]], width: int) -> dict[str, tuple[int, int]]:
    """Return the left upper corner of each box by its key."""
    corners = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        for pile in row:
            corners[pile.key] = (left, _MARGIN + number * (_HEIGHT + _DROP))
            left += _WIDTH + _GAP
    return corners


def _edges(pile: Pile, corners: Mapping[str, tuple[int, int]]) -> Iterator[Edge]:
    end, bottom = corners[pile.key]
    end += _WIDTH // 2
    for key in pile.above:
        start, top = corners[key][0] + _WIDTH // 2, corners[key][1] + _HEIGHT
        yield Edge(start, top, (top + bottom) // 2, end, bottom)


def _box(fs: Filesystem, pile: Pile, left: int, top: int) -> Box:
    look, words = _filesystem_words(fs) if pile.key == TOP else _pile_words(fs, pile)
    name, *details = [each for each in words if each]
    lines = (_short_name(name), *(_short_detail(each) for each in details))
    return Box(left, top, look, lines, ", ".join((name, *details)))


def _filesystem_words(fs: Filesystem) -> tuple[str, tuple[str, ...]]:
    where = next(iter(fs.mount_points), "not mounted" if not fs.alive else "not mounted here")
    return "top", (where, value_or(fs.fstype, "type not known"), fs.label or "")


def _pile_words(fs: Filesystem, pile: Pile) -> tuple[str, tuple[str, ...]]:
    first, number = pile.devices[0], len(pile.devices)
    if pile.unknown is not None:
        return "hole", ("not known", pile.unknown.what)
    if number == 1:
        return "", (first.path, _kind(fs, first), _queue(first))
    names = listed([device.name for device in pile.devices], _NAMES_IN_BOX)
    return "pile", (counted(number, first.kind), names, _queue(first))


def _kind(fs: Filesystem, device: BlockDevice) -> str:
    chunk = chunk_bytes(fs, device)
    more = f"{binary_size(chunk)} chunk" if chunk else device.model or ""
    return f"{device.kind}, {more}" if more else device.kind


def _queue(device: BlockDevice) -> str:
    """Return what decides about barriers and seeks; what is unknown is named."""
    cache = value_or(device.queue.write_cache, "cache not known")
    return f"{cache}, {_rotational(device)}"


def _short_name(name: str) -> str:
    """Shorten a name to its end, because paths differ there."""
    shown = visible(name)
    return name if len(shown) <= _LONGEST_NAME else f"…{shown[1 - _LONGEST_NAME :]}"


def _short_detail(detail: str) -> str:
    shown = visible(detail)
    return detail if len(shown) <= _LONGEST_DETAIL else f"{shown[: _LONGEST_DETAIL - 1]}…"

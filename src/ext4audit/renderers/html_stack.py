"""The HTML report: the devices below a filesystem, as a picture and as a table."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, Unknown, value_or
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.renderers.html_markup import Html, joined, lines, tag
from ext4audit.renderers.html_parts import fold, hole_words, table
from ext4audit.renderers.html_picture import Box, draw
from ext4audit.renderers.html_stack_rows import Pile, rows_of
from ext4audit.renderers.shared.words import binary_size, chunk_bytes, counted, listed, stack_words

_NAMES_IN_BOX = 3
_HEADS = ("Device", "Kind", "Size", "Write cache", "Rotational", "More")


def stack_picture(fs: Filesystem) -> Html:
    """Return the filesystem on top and its devices below it; a table says the same in words."""
    if isinstance(fs.stack, Unknown):
        return tag("p", hole_words(fs.stack))
    top = fs.stack.value
    rows = [[_filesystem_box(fs)]]
    rows += [[_box(fs, pile) for pile in row] for row in rows_of(top)]
    return tag("div", draw(rows, f"Device stack: {stack_words(fs)}"), class_="scroll")


def stack_table(fs: Filesystem) -> Html:
    """Return each device of the stack with what is known of it, folded."""
    if isinstance(fs.stack, Unknown):
        return joined(())
    devices = tuple(fs.stack.value.walk())
    rows = [_row(fs, device) for device in devices]
    summary = f"Device stack: {stack_words(fs)}"
    return fold(summary, tag("div", table(_HEADS, rows, summary), class_="scroll"))


def _filesystem_box(fs: Filesystem) -> Box:
    where = next(iter(fs.mount_points), "not mounted" if not fs.alive else "not mounted here")
    words = (where, value_or(fs.fstype, "type not known"), fs.label or "")
    return Box("filesystem", words, (), "top")


def _box(fs: Filesystem, pile: Pile) -> Box:
    first, number = pile.devices[0], len(pile.devices)
    if pile.hole is not None:
        return Box(pile.key, ("not known", pile.hole.what), pile.above, "hole")
    if number > 1:
        names = listed([device.name for device in pile.devices], _NAMES_IN_BOX)
        title, kind = counted(number, first.kind), names
    else:
        title, kind = first.path, _kind(fs, first)
    return Box(pile.key, (title, kind, _queue(first)), pile.above, "pile" if number > 1 else "")


def _kind(fs: Filesystem, device: BlockDevice) -> str:
    chunk = chunk_bytes(fs, device)
    more = f"{binary_size(chunk)} chunk" if chunk else device.model or ""
    return f"{device.kind}, {more}" if more else device.kind


def _queue(device: BlockDevice) -> str:
    """Say what decides about barriers and seeks; a hole stays one."""
    cache = value_or(device.queue.write_cache, "cache not known")
    return f"{cache}, {_rotational(device)}"


def _rotational(device: BlockDevice) -> str:
    if isinstance(device.queue.rotational, Unknown):
        return "rotation not known"
    return "rotational" if device.queue.rotational.value else "not rotational"


def _row(fs: Filesystem, device: BlockDevice) -> tuple[str, ...]:
    sectors = device.size_sectors
    size = binary_size(sectors.value * SECTOR_BYTES) if isinstance(sectors, Known) else "not known"
    name = tag("code", device.path)
    cache = value_or(device.queue.write_cache, "not known")
    more = lines(tag("div", each) for each in _more(fs, device))
    return (name, device.kind, size, cache, _rotational(device), more)


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
    if isinstance(device.below, Unknown):
        yield hole_words(device.below)
    elif device.below.value:
        yield f"on {listed([each.name for each in device.below.value])}"

"""Finds where bytes really are: writes patterns to a device and looks for them on the members.

Every block is read on all members at all predicted places before and after it is written, so
that changes show at predicted and at other places: copies and parity alike.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
from collections.abc import Iterator, Sequence

from ext4audit.assemble.devices import StackReader
from ext4audit.evidence import Unknown, need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.byte_map import Place, StackMap
from ext4audit.layout.stack import map_stack
from ext4audit.sources.live import LiveSource
from lab.support.devices import serials
from lab.support.scenario import JsonObject

BLOCK_BYTES = 4096
BUFFER = mmap.mmap(-1, BLOCK_BYTES)
"""A mapping is aligned as O_DIRECT requires; another one for each block takes longer to make."""
RANDOM_BLOCKS = 24
FIRST_CHUNKS = 6
MOST_WRONG = 3


def follow(device: str, *edges_bytes: int, encrypted: bool = False) -> JsonObject:
    """Write blocks to a device, and return whether they are where its map says.

    `edges_bytes` are places where the map may change: the block on each side is written. Writes
    through an encrypted device show as changes, but cannot be read back.
    """
    number = os.stat(device).st_rdev  # noqa: PTH116 - one word for a node that must be there
    reader = StackReader(LiveSource())
    stack = need(reader.read(DeviceNumber(os.major(number), os.minor(number))))
    found = map_stack(stack)
    if isinstance(found, Unknown):
        return {"why": found.why.value, "detail": found.detail, "hint": found.hint}
    stack_map = found.value
    size_bytes = need(stack.size_sectors) * 512
    blocks = sorted(set(_blocks(stack_map, size_bytes, edges_bytes)))
    with opened_members(stack_map) as members:
        wrong = [
            each
            for block in blocks
            for each in _wrong(device, stack_map, members, block, encrypted)
        ]
    return {**_described(stack_map), "blocks": len(blocks), "wrong": wrong[:MOST_WRONG]}


def _described(stack_map: StackMap) -> JsonObject:
    names = serials()
    geometry = stack_map.geometry
    return {
        "members": [names.get(member, member) for member in stack_map.members],
        "copies": len(stack_map.data(0)),
        "parities": len(stack_map.parity(0)),
        "period_bytes": stack_map.period_bytes,
        "geometry": geometry
        and [
            geometry.device.rstrip("0123456789"),
            geometry.level,
            geometry.chunk_bytes,
            geometry.layout,
            geometry.offset_bytes,
            len(geometry.members),
        ],
    }


def _blocks(stack_map: StackMap, size_bytes: int, edges_bytes: tuple[int, ...]) -> Iterator[int]:
    """Yield blocks all over the device, and both sides of each change of member."""
    last = size_bytes // BLOCK_BYTES - 1
    chance = random.Random(1)  # noqa: S311 - a choice of places, the same in every run
    yield from (0, last)
    yield from (chance.randrange(last) for _ in range(RANDOM_BLOCKS))
    chunk_bytes = stack_map.geometry.chunk_bytes if stack_map.geometry else 1 << 20
    starts = [chunk * chunk_bytes for chunk in range(1, FIRST_CHUNKS)]
    for edge in (*starts, *edges_bytes):
        yield from (edge // BLOCK_BYTES - 1, edge // BLOCK_BYTES)


@contextlib.contextmanager
def opened_members(stack_map: StackMap) -> Iterator[list[int]]:
    """Open every member with O_DIRECT, once for all reads."""
    flags = os.O_RDONLY | os.O_DIRECT
    members = [os.open(f"/dev/{name}", flags) for name in stack_map.members]
    try:
        yield members
    finally:
        for descriptor in members:
            os.close(descriptor)


def _wrong(
    device: str, stack_map: StackMap, members: Sequence[int], block: int, encrypted: bool
) -> Iterator[str]:
    """Write one block of random bytes, and yield deviations from the map."""
    byte = block * BLOCK_BYTES
    data, parity = set(stack_map.data(byte)), set(stack_map.parity(byte))
    looked_at = {
        Place(member, place.byte)
        for place in data | parity
        for member in range(len(stack_map.members))
    }
    before = {place: _read(members[place.member], place.byte) for place in looked_at}
    noise = os.urandom(BLOCK_BYTES)
    _write(device, byte, noise)
    after = {place: _read(members[place.member], place.byte) for place in looked_at}
    changed = {place for place in looked_at if before[place] != after[place]}
    if changed != data | parity:
        yield f"block {block}: {data} and {parity} predicted, {changed} changed"
    if not encrypted and any(after[place] != noise for place in data):
        yield f"block {block}: {data} do not hold what was written"


def _read(descriptor: int, byte: int) -> bytes:
    """Read a block of a member with O_DIRECT; return b"" past the member's end."""
    return BUFFER[: os.preadv(descriptor, [BUFFER], byte)]


def _write(device: str, byte: int, content: bytes) -> None:
    descriptor = os.open(device, os.O_WRONLY | os.O_DIRECT | os.O_SYNC)
    try:
        BUFFER[:] = content
        os.pwritev(descriptor, [BUFFER], byte)
    finally:
        os.close(descriptor)

from __future__ import annotations

import struct

from ext4audit.probing.extents import Extent, length, parse


def answer(*rows: tuple[int, int, int, int]) -> bytes:
    """Return the kernel's answer for extents: logical, physical, length, flags."""
    head = struct.pack("=QQIIII", 0, 1 << 40, 0, len(rows), 512, 0)
    extents = (struct.pack("=QQQQQIIII", *row[:3], 0, 0, row[3], 0, 0, 0) for row in rows)
    return head + b"".join(extents) + bytes(56)


def test_the_extents_of_an_answer() -> None:
    """Only the mapped ones are read, each with its flags (include/uapi/linux/fiemap.h)."""
    found = parse(answer((0, 0, 4096, 0x6), (4096, 1 << 20, 8192, 0x801)))
    assert found == [Extent(0, 4096, 0x6), Extent(4096, 8192, 0x801)]
    assert [(one.is_delayed, one.is_unwritten) for one in found] == [(True, False), (False, True)]
    assert length(found) == 12288
    assert parse(answer()) == []

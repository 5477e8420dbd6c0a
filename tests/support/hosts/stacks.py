"""Device stacks for tests of byte maps, drawn by hypothesis."""

from __future__ import annotations

from typing import Any

from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment, MdArray, MdMember
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.byte_map import Layer
from ext4audit.parsers import parse_dm_table
from support.builders import disk, known, unknown

CHUNK_BYTES = 65536


def draw(layer: Layer, members: int, chunks: int) -> list[str]:
    """Return the rows of chunks on the members: data by number, parity P and Q, "." for none."""
    drawn: dict[tuple[int, int], str] = {}
    for chunk in range(chunks):
        byte = chunk * CHUNK_BYTES
        for name, (member, at) in zip("PQ", layer.parity(byte), strict=False):
            drawn[at // CHUNK_BYTES, member] = name
        for member, at in layer.data(byte):
            assert at % CHUNK_BYTES == 0
            drawn[at // CHUNK_BYTES, member] = str(chunk)
    rows = 1 + max(row for row, _ in drawn)
    return [
        " ".join(drawn.get((row, member), ".") for member in range(members)) for row in range(rows)
    ]


K64 = 65536
DATA_OFFSET_SECTORS = 2048
BIG_SECTORS = 1 << 31


def sd(letter: str, **changes: Any) -> BlockDevice:
    """Build a disk of 1 TiB whose device number follows from its letter."""
    minor = 16 * (ord(letter) - ord("a"))
    changes.setdefault("size_sectors", known(BIG_SECTORS))
    return disk(f"sd{letter}", DeviceNumber(8, minor), **changes)


def part(below: BlockDevice, number: int = 1, start_sectors: int | None = 2048) -> BlockDevice:
    """Build a partition."""
    return disk(
        f"{below.name}{number}",
        DeviceNumber(259, below.device_number.minor + number),
        kind="partition",
        below=known((below,)),
        start_sectors=start_sectors,
        size_sectors=known(BIG_SECTORS // 2),
    )


def md(
    *below: BlockDevice, level: str = "raid0", layout: int | None = -1, **changes: Any
) -> BlockDevice:
    """Build an array of these members, in this order, with chunks of 64 KiB."""
    number = changes.pop("number", 127)
    size_sectors = changes.pop("size_sectors", known(BIG_SECTORS // 4))
    members = tuple(
        MdMember(slot, member.name, DATA_OFFSET_SECTORS, BIG_SECTORS // 2)
        for slot, member in enumerate(below)
    )
    values: dict[str, Any] = {
        "chunk_bytes": K64,
        "raid_disks": len(below),
        "reshape_position": None,
        "members": members,
        **changes,
    }
    array = MdArray(level=level, layout=layout, **values)
    return disk(
        f"md{number}",
        DeviceNumber(9, number),
        kind=level,
        below=known(below),
        md=known(array, f"/sys/block/md{number}/md"),
        size_sectors=size_sectors,
    )


def dm(table: str | None, *below: BlockDevice, uuid: str = "LVM-x", minor: int = 0) -> BlockDevice:
    """Build a device-mapper device with a table; None is a table that only root can read."""
    parsed: Evidence[tuple[DmSegment, ...]] = unknown("table")
    if table is not None:
        parsed = known(parse_dm_table(table), f"dmsetup table 253:{minor}")
    return disk(
        f"dm-{minor}",
        DeviceNumber(253, minor),
        kind="dm",
        below=known(below),
        dm=DmDevice("vg-lv", uuid, parsed),
        size_sectors=known(BIG_SECTORS // 4),
    )

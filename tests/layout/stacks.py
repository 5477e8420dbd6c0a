"""Build device stacks for tests of the layout room."""

from __future__ import annotations

from typing import Any

from builders import disk, known, unknown
from ext4audit.evidence import Evidence
from ext4audit.facts.block import BlockDevice, DmDevice, DmSegment, MdArray, MdMember
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers.dm_table import parse_dm_table

K64 = 65536
DATA_OFFSET_SECTORS = 2048
BIG_SECTORS = 1 << 31


def sd(letter: str, **changes: Any) -> BlockDevice:
    """Build a disk of 1 TiB, numbered by its letter."""
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
    """Build an array over these members, in this order, with chunks of 64 KiB."""
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
    """Build a device-mapper device by its table; None where only root could read it."""
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

"""The partitions found in a partition table are those that libblkid finds (`partx`)."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from ext4audit.assemble.devices.target import Partition
from ext4audit.assemble.image import read_partitions
from ext4audit.evidence import Unknown, for_wording
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import run
from support.images.partitioned import (
    LINUX,
    SECTOR,
    boot_record,
    gpt_entry,
    gpt_header,
    grow,
    with_gpt,
    write_at,
)

MIB = 1 << 20
EXTENDED = 40960


needs_partx = pytest.mark.skipif(not shutil.which("partx"), reason="partx is missing")


def found(image: Path) -> tuple[Partition, ...]:
    """Return the partitions of an image, or none if it has no table."""
    return for_wording(read_partitions(LiveSource(), str(image)), ())


def in_sectors(image: Path) -> list[tuple[int, int, int]]:
    """Return number, start and size of each partition, in sectors."""
    return [(p.number, p.start_bytes // SECTOR, p.size_bytes // SECTOR) for p in found(image)]


def partitions_by_partx(image: Path) -> list[tuple[int, int, int]]:
    """Return the partitions that util-linux finds, without the extended ones."""
    lines = run("partx", "-g", "-b", "-o", "NR,START,SECTORS,TYPE", image).splitlines()
    rows = [line.split() for line in lines]
    return [
        (int(row[0]), int(row[1]), int(row[2]))
        for row in rows
        if row[3] not in {"0x5", "0xf", "0x85"}
    ]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return an empty image of 120 MiB."""
    image = tmp_path / "disk.img"
    grow(image, 120 * MIB)
    return image


def test_primary_and_logical_partitions_have_the_numbers_of_linux(disk: Path) -> None:
    """Logical ones start at 5; links are relative to the start of the extended partition."""
    write_at(
        disk,
        {
            0: boot_record((LINUX, 2048, 32768), (0, 0, 0), (0x82, 34816, 2048), (0x0F, 40960, 9)),
            EXTENDED * SECTOR: boot_record((LINUX, 2048, 16384), (0x05, 30000, 20000)),
            (EXTENDED + 30000) * SECTOR: boot_record((LINUX, 64, 16384)),
        },
    )
    expected = [(1, 2048, 32768), (3, 34816, 2048), (5, 43008, 16384), (6, 71024, 16384)]
    assert in_sectors(disk) == expected


def test_a_chain_of_boot_records_ends_at_the_limit_of_linux(disk: Path) -> None:
    """Only 255 records are read."""
    step = 64
    records = {
        (EXTENDED + each * step) * SECTOR: boot_record(
            (LINUX, 8, 8), (0x05, (each + 1) * step, step)
        )
        for each in range(300)
    }
    write_at(disk, {0: boot_record((0x0F, EXTENDED, 300 * step)), **records})
    numbers = [number for number, _, _ in in_sectors(disk)]
    assert numbers == list(range(5, 5 + 255))


LINK = (0x05, 30000, 20000)
FIRST = (LINUX, 2048, 16384)
NONE = (0, 0, 0)


@needs_partx
@pytest.mark.parametrize(
    ("record", "last", "logical"),
    [
        ([FIRST, LINK], [(LINUX, 64, 16384)], 2),
        ([LINK, FIRST], [(LINUX, 64, 16384)], 2),
        # The first two entries count, even beyond the extended partition.
        ([LINK, (LINUX, 20000, 130001)], [(LINUX, 64, 16384)], 2),
        ([(LINUX, 20000, 130001), LINK], [(LINUX, 64, 16384)], 2),
        ([FIRST, NONE, LINK], [(LINUX, 64, 16384)], 2),
        ([FIRST, NONE, NONE, LINK], [(LINUX, 64, 16384)], 2),
        ([FIRST, LINK, (LINUX, 20000, 4000)], [(LINUX, 64, 16384)], 3),
        ([FIRST, LINK, NONE, (LINUX, 20000, 4000)], [(LINUX, 64, 16384)], 3),
        # The limits are the end of the extended partition, and of the part given by the link.
        ([FIRST, LINK, (LINUX, 20000, 130000)], [(LINUX, 64, 16384)], 3),
        ([FIRST, LINK, (LINUX, 20000, 130001)], [(LINUX, 64, 16384)], 2),
        ([FIRST, LINK], [(LINUX, 64, 99), NONE, (LINUX, 4000, 16000)], 3),
        ([FIRST, LINK], [(LINUX, 64, 99), NONE, (LINUX, 4000, 16001)], 2),
        ([FIRST, (0x05, 30000, 200000)], [(LINUX, 64, 99), NONE, (LINUX, 4000, 116000)], 3),
        ([FIRST, (0x05, 30000, 200000)], [(LINUX, 64, 99), NONE, (LINUX, 4000, 116001)], 2),
    ],
)
def test_a_table_of_logical_partitions_reads_as_util_linux_reads_it(
    record: list[tuple[int, int, int]],
    last: list[tuple[int, int, int]],
    logical: int,
    disk: Path,
) -> None:
    """All four entries count; the extended partition is long enough for libblkid."""
    write_at(
        disk,
        {
            0: boot_record((LINUX, 2048, 32768), (0x05, EXTENDED, 150000)),
            EXTENDED * SECTOR: boot_record(*record),
            (EXTENDED + 30000) * SECTOR: boot_record(*last),
        },
    )
    assert in_sectors(disk) == partitions_by_partx(disk)
    assert len(in_sectors(disk)) == 1 + logical


@needs_partx
def test_a_gpt_reads_as_util_linux_reads_it(disk: Path) -> None:
    """Numbers may have gaps; the entries are those of the GPT, not of the protective MBR."""
    with_gpt(disk, {1: (2048, 34815), 3: (40960, 106495), 128: (200000, 200001)})
    expected = [(1, 2048, 32768), (3, 40960, 65536), (128, 200000, 2)]
    assert in_sectors(disk) == expected == partitions_by_partx(disk)


def test_of_a_hybrid_table_the_gpt_counts(disk: Path) -> None:
    """Boot loaders read its MBR entries; Linux does not."""
    with_gpt(disk, {1: (2048, 34815)})
    write_at(disk, {0: boot_record((0xEE, 1, 2047), (LINUX, 2048, 1000))})
    assert in_sectors(disk) == [(1, 2048, 32768)]


def test_a_gpt_behind_an_ordinary_mbr_is_stale(disk: Path) -> None:
    """Without a protective entry the MBR was written later, by a tool that did not wipe the GPT."""
    with_gpt(disk, {1: (2048, 34815)})
    write_at(disk, {0: boot_record((LINUX, 63, 1000))})
    assert in_sectors(disk) == [(1, 63, 1000)]


def test_a_gpt_of_a_disk_with_blocks_of_4_kib_is_found(disk: Path) -> None:
    """Its header is at byte 4096, and its unit is 4096 bytes."""
    entries = gpt_entry(256, 511).ljust(128 * 128, b"\0")
    pieces = {0: boot_record((0xEE, 1, 30719)), 4096: gpt_header(), 8192: entries}
    write_at(disk, pieces)
    assert found(disk) == (Partition(1, MIB, MIB),)


def test_a_chain_that_returns_to_itself_ends(disk: Path) -> None:
    """A record that links to itself or to the first one is read once."""
    write_at(
        disk,
        {
            0: boot_record((0x05, EXTENDED, 150000)),
            EXTENDED * SECTOR: boot_record((LINUX, 8, 8), (0x05, 100, 1)),
            (EXTENDED + 100) * SECTOR: boot_record((LINUX, 8, 8), (0x05, 0, 1)),
        },
    )
    assert in_sectors(disk) == [(5, 40968, 8), (6, 41068, 8)]


def test_two_extended_partitions_that_share_a_chain_end(disk: Path) -> None:
    """No record is read twice, whichever link leads to it."""
    write_at(
        disk,
        {
            0: boot_record(*[(0x05, EXTENDED, 150000)] * 4),
            EXTENDED * SECTOR: boot_record((LINUX, 8, 8), (0x05, 0, 1)),
        },
    )
    assert in_sectors(disk) == [(5, 40968, 8)]


def test_a_chain_without_end_is_followed_as_far_as_linux_shows_partitions(disk: Path) -> None:
    """Of a thousand records, the first 255 partitions are returned."""
    records = {
        (EXTENDED + n) * SECTOR: boot_record((LINUX, 1, 1), (0x05, n + 1, 1)) for n in range(1000)
    }
    write_at(disk, {0: boot_record((0x05, EXTENDED, 150000)), **records})
    partitions = in_sectors(disk)
    assert (len(partitions), partitions[-1]) == (255, (259, EXTENDED + 255, 1))


def test_a_chain_that_leaves_the_image_ends_there(disk: Path) -> None:
    """Records beyond the end cannot be read; the partitions before it count."""
    write_at(
        disk,
        {
            0: boot_record((LINUX, 2048, 8), (0x05, EXTENDED, 150000)),
            EXTENDED * SECTOR: boot_record((0, 0, 0), (0x05, 0xFFFFFFF0, 1)),
        },
    )
    assert in_sectors(disk) == [(1, 2048, 8)]


def test_of_a_million_entries_the_first_255_are_read(disk: Path) -> None:
    """Linux numbers at most 255 partitions; the header's larger count is not followed."""
    entries = b"".join(gpt_entry(2048 + n, 2048 + n) for n in range(300))
    header = gpt_header(count=1_000_000)
    write_at(disk, {0: boot_record((0xEE, 1, 9)), SECTOR: header, 2 * SECTOR: entries})
    assert [p.number for p in found(disk)] == list(range(1, 256))


@pytest.mark.parametrize(
    ("header", "detail"),
    [
        (bytes(SECTOR), "does not start with EFI PART"),
        (gpt_header(entry_bytes=0), "GPT entries of 0 bytes"),
        (gpt_header(crc=1), "checksum of the GPT header is wrong"),
        (gpt_header(entries_at=1 << 60), "no such place on any device"),
        (gpt_header(entries_at=1 << 30), "0 of 16384 bytes are there"),
    ],
)
def test_a_gpt_that_cannot_be_read_is_unknown(disk: Path, header: bytes, detail: str) -> None:
    """The protective entry selects the GPT, so the MBR is not used."""
    write_at(disk, {0: boot_record((0xEE, 1, 9)), SECTOR: header})
    gap = read_partitions(LiveSource(), str(disk))
    assert isinstance(gap, Unknown)
    assert detail in gap.detail


def test_an_entry_beyond_any_device_is_a_partition_of_which_nothing_is_read(disk: Path) -> None:
    """The partition is listed, but nothing is read from it."""
    entries = gpt_entry(2**63, 2**64 - 1)
    write_at(disk, {0: boot_record((0xEE, 1, 9)), SECTOR: gpt_header(count=1), 1024: entries})
    assert [p.start_bytes for p in found(disk)] == [2**63 * SECTOR]


@pytest.mark.parametrize("content", [b"", b"\x55\xaa", bytes(512), struct.pack("<Q", 1) * 64])
def test_a_file_without_a_table_has_no_partitions(tmp_path: Path, content: bytes) -> None:
    """A file shorter than a sector has none either."""
    image = tmp_path / "file"
    image.write_bytes(content)
    assert isinstance(read_partitions(LiveSource(), str(image)), Unknown)

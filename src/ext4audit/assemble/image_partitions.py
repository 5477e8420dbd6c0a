"""Read the partition table of a disk image, as far as Linux would."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Evidence, Known, Unknown, derive
from ext4audit.facts.partition import Partition
from ext4audit.parsers.partition_table import (
    EXTENDED,
    PROTECTIVE,
    RECORD_BYTES,
    BootEntry,
    GptHeader,
    parse_boot_record,
    parse_gpt_entries,
    parse_gpt_header,
    parse_mbr,
)
from ext4audit.sources.ask import ReadBytes, Source

MOST_PARTITIONS = 255
"""DISK_MAX_PARTS without the disk itself (include/linux/genhd.h): Linux shows no more."""
SECTOR_BYTES = 512
BLOCK_BYTES = (512, 4096)
"""The logical blocks of disks: a GPT counts in them, and nothing in it says which."""
FIRST_LOGICAL = 5


def read_partitions(source: Source, path: str) -> Evidence[tuple[Partition, ...]]:
    """Return the partitions of an image; Unknown where its beginning is no partition table.

    With a protective entry the GPT counts and the other entries of a hybrid MBR do not, as in
    Linux. An MBR counts in sectors of 512 bytes: those of disks with larger blocks are not
    found.
    """
    what = f"partition table of {path}"
    entries = derive(what, parse_mbr, source.fetch(ReadBytes(path, 0, RECORD_BYTES)))
    if isinstance(entries, Unknown):
        return entries
    if any(entry.type == PROTECTIVE for entry in entries.value):
        return _read_gpt(source, path, what)
    found = (*_primary(entries.value), *_logical(source, path, entries.value))
    return Known(found[:MOST_PARTITIONS], f"MBR of {path}")


def _read_gpt(source: Source, path: str, what: str) -> Evidence[tuple[Partition, ...]]:
    """Try the sizes of a logical block; the hole of the usual one is the one to tell."""
    holes = []
    for block_bytes in BLOCK_BYTES:
        answer = source.fetch(ReadBytes(path, block_bytes, RECORD_BYTES))
        header = derive(what, parse_gpt_header, answer)
        if isinstance(header, Known):
            return _read_entries(source, path, header.value, block_bytes)
        holes.append(header)
    return holes[0]


def _read_entries(
    source: Source, path: str, header: GptHeader, block_bytes: int
) -> Evidence[tuple[Partition, ...]]:
    """Read as many entries as Linux shows, however many the header claims."""
    length = min(header.entries, MOST_PARTITIONS) * header.entry_bytes
    place = ReadBytes(path, header.entries_at_blocks * block_bytes, length)

    def partitions(data: bytes) -> tuple[Partition, ...]:
        return tuple(
            Partition(number, first * block_bytes, (last - first + 1) * block_bytes)
            for number, first, last in parse_gpt_entries(data, header.entry_bytes)
        )

    origin = f"GPT of {path}"
    return derive(f"partitions of {path}", partitions, source.fetch(place), origin=origin)


def _primary(entries: tuple[BootEntry, ...]) -> Iterator[Partition]:
    for number, entry in enumerate(entries, 1):
        if entry.start_sectors and entry.size_sectors and entry.type not in EXTENDED:
            yield _partition(number, 0, entry)


def _logical(source: Source, path: str, entries: tuple[BootEntry, ...]) -> Iterator[Partition]:
    """Yield what the chains of records in extended partitions lead to."""
    number = FIRST_LOGICAL
    seen: set[int] = set()
    for entry in entries:
        if entry.type not in EXTENDED or not entry.size_sectors:
            continue
        for at_sectors, record in _chain(source, path, entry.start_sectors, seen):
            for inner in record[:2]:
                if inner.size_sectors and inner.type not in EXTENDED:
                    yield _partition(number, at_sectors, inner)
                    number += 1


def _chain(
    source: Source, path: str, first_sectors: int, seen: set[int]
) -> Iterator[tuple[int, tuple[BootEntry, ...]]]:
    """Yield each record and where it lies; a chain that returns to a record ends there.

    So does one that is longer than any that Linux follows, or that leaves the image.
    """
    at_sectors = first_sectors
    while at_sectors not in seen and len(seen) < MOST_PARTITIONS:
        seen.add(at_sectors)
        place = ReadBytes(path, at_sectors * SECTOR_BYTES, RECORD_BYTES)
        record = derive(f"boot record of {path}", parse_boot_record, source.fetch(place))
        if isinstance(record, Unknown):
            return
        yield at_sectors, record.value
        links = [e for e in record.value[:2] if e.type in EXTENDED and e.size_sectors]
        if not links:
            return
        at_sectors = first_sectors + links[0].start_sectors


def _partition(number: int, base_sectors: int, entry: BootEntry) -> Partition:
    start = (base_sectors + entry.start_sectors) * SECTOR_BYTES
    return Partition(number, start, entry.size_sectors * SECTOR_BYTES)

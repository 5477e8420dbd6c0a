"""Image files: the ext2, ext3 and ext4 filesystems in a file or in its partitions.

`find_image` recognizes filesystem images, disk images with an MBR or a GPT, and e2image files.
"""

from collections.abc import Iterator

from ext4audit.assemble.devices.target import BadImage, Image, ImageFilesystem, Partition, PlainFile
from ext4audit.assemble.image.unreadable import (
    cut_off,
    damaged,
    destroyed,
    explain,
    is_read,
    other_kind,
)
from ext4audit.assemble.layout import read_image_group_table
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording
from ext4audit.facts.devices import SECTOR_BYTES
from ext4audit.facts.superblock import JOURNAL_SUPERBLOCK_BYTES, GroupTable, Superblock, sizes_of
from ext4audit.layout import SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES
from ext4audit.parsers.disk_image import (
    EXTENDED,
    HEADER_BYTES,
    INODE_BYTES,
    PROTECTIVE,
    RECORD_BYTES,
    BootEntry,
    GptHeader,
    check_journal_inode,
    is_e2image,
    parse_boot_record,
    parse_e2image_header,
    parse_gpt_entries,
    parse_gpt_header,
    parse_mbr,
)
from ext4audit.parsers.dumpe2fs import parse_group_descriptors
from ext4audit.parsers.superblock import (
    parse_first_extent,
    parse_image_superblock,
    parse_journal_superblock,
    parse_raw_superblock,
)
from ext4audit.sources import ReadBytes, Source

CHECK_A_COPY = "check it with e2fsck -fn, and repair a copy"
FIRST_BYTES = 512
QCOW = b"QFI\xfb"
"""The magic number of QCOW2 files: output of `e2image -Q`, and disks of virtual machines."""
MAX_PARTITIONS = 255
"""The limit of Linux: DISK_MAX_PARTS without the disk itself (include/linux/genhd.h)."""
MAX_DESCRIBED = 8
"""The largest number of partitions without a filesystem that are described."""
BLOCK_BYTES = (512, 4096)
"""The logical block sizes of disks, which are the unit of a GPT; a GPT does not record it."""
FIRST_LOGICAL = 5
ENTRIES_IN_USE = 2
"""A logical partition and a link. Later entries may be garbage: Linux uses those that fit."""


def find_image(source: Source, path: str) -> Image | BadImage | PlainFile:
    """Return the image in a regular file, with its filesystems.

    A file is an image if it has a valid superblock: at byte 1024, in a partition, or in the copy
    that e2image makes.
    """
    first = source.fetch(ReadBytes(path, 0, FIRST_BYTES))
    if isinstance(first, Unknown):
        note = f"not checked whether it is an image: {first.detail}"
        # A file shorter than a boot record is FAILED, too.
        return explain(source, path) if first.why is Why.FAILED else PlainFile(note)
    if first.value.startswith(QCOW):
        advice = "qemu-img convert -O raw, or e2image -r for output of e2image -Q"
        return BadImage(f"a QCOW2 image, which is not supported: convert it to raw ({advice})")
    if is_e2image(first.value):
        return _e2image(source, path)
    return _filesystem_image(source, path) or _disk_image(source, path)


def _filesystem_image(source: Source, path: str) -> Image | BadImage | None:
    """Return the image of an unpartitioned filesystem, None without a superblock at byte 1024."""
    whole = superblock_at(source, path, SUPERBLOCK_OFFSET_BYTES)
    if isinstance(whole, BadImage):
        return BadImage(damaged(source, path, whole.reason))
    if whole is None:
        return None
    fs = ImageFilesystem(path, 0, whole)
    return Image(path, (fs,), _cut_short(source, fs))


def read_image_groups(source: Source, fs: ImageFilesystem) -> Evidence[GroupTable]:
    """Return the group table of a filesystem in an image."""
    if fs.descriptors_at_bytes is None:
        return read_image_group_table(source, fs.path, fs.superblock, fs.start_bytes)
    what = f"block groups of {fs.path}"
    known = derive(what, sizes_of, fs.superblock)
    if isinstance(known, Unknown):
        return known
    sizes = known.value

    def build(data: bytes) -> GroupTable:
        table = parse_group_descriptors(data, sizes.descriptor_bytes)
        return table.checked(sizes.groups, sizes.first_block, sizes.size_blocks)

    length = sizes.groups * sizes.descriptor_bytes
    return derive(what, build, source.fetch(ReadBytes(fs.path, fs.descriptors_at_bytes, length)))


def read_image_journal(source: Source, fs: ImageFilesystem) -> Evidence[int]:
    """Return the error number in the journal's superblock, 0 without an internal journal.

    An e2image file contains no journal, and an external journal is not in the image.
    """
    superblock, what = fs.superblock.value, f"journal of {fs.device}"
    if superblock.inode_of_journal is None or fs.descriptors_at_bytes:
        return Known(0, fs.superblock.origin)
    start = _start_of_journal(source, fs, what)
    if isinstance(start, Unknown):
        return start
    place = ReadBytes(fs.path, fs.start_bytes + start.value, JOURNAL_SUPERBLOCK_BYTES)
    found = derive(what, parse_journal_superblock, source.fetch(place))
    return found if isinstance(found, Known) else Unknown(what, found.why, found.detail)


def _start_of_journal(source: Source, fs: ImageFilesystem, what: str) -> Evidence[int]:
    """Return the byte where the journal begins, even if its extents do not fit in the inode.

    mke2fs makes such a journal, of 1 GiB, if the filesystem has 128 GiB (lib/ext2fs/mkjournal.c).
    """
    superblock = fs.superblock.value
    index, unit = superblock.journal_index_block, superblock.block_bytes
    if superblock.journal_at_bytes is not None:
        return Known(superblock.journal_at_bytes, fs.superblock.origin)
    if index is None or unit is None:
        return Unknown(what, Why.UNSUPPORTED, "the superblock does not show where it starts")
    extents = source.fetch(ReadBytes(fs.path, fs.start_bytes + index * unit, unit))
    return derive(what, lambda data: parse_first_extent(data) * unit, extents)


def read_journal_inode(
    source: Source, fs: ImageFilesystem, groups: Evidence[GroupTable]
) -> Evidence[bool]:
    """Return True, or Unknown if the inode of the journal is damaged.

    The superblock has a copy of its blocks only. Without known groups, the inode is not checked.
    """
    superblock, what = fs.superblock.value, f"inode of the journal of {fs.device}"
    number, sizes = superblock.inode_of_journal, superblock.sizes
    if fs.descriptors_at_bytes or not (number and sizes) or isinstance(groups, Unknown):
        return Known(value=True, origin=fs.superblock.origin)
    group, index = divmod(number - 1, sizes.inodes_per_group)
    if group >= groups.value.groups:
        return Unknown(what, Why.UNPARSABLE, f"there is no inode {number}")
    table = groups.value.inode_tables[group] * sizes.block_bytes
    offset = fs.start_bytes + table + index * sizes.inode_bytes
    return derive(what, check_journal_inode, source.fetch(ReadBytes(fs.path, offset, INODE_BYTES)))


def _e2image(source: Source, path: str) -> Image | BadImage:
    answer = source.fetch(ReadBytes(path, 0, HEADER_BYTES))
    header = derive(f"header of {path}", parse_e2image_header, answer)
    if isinstance(header, Unknown):
        return BadImage(header.detail)
    found = superblock_at(source, path, header.value.superblock_at_bytes)
    if found is None:
        return BadImage("an e2image file without a superblock")
    if isinstance(found, BadImage):
        return found
    descriptors_at = header.value.descriptors_at_bytes
    return Image(path, (ImageFilesystem(path, 0, found, descriptors_at_bytes=descriptors_at),))


def _disk_image(source: Source, path: str) -> Image | BadImage | PlainFile:
    """Return the filesystems in the partitions; the note lists partitions that cannot be read."""
    partitions = for_wording(read_partitions(source, path), ())
    found: list[ImageFilesystem] = []
    gaps: list[Unknown] = []
    unrecognized: list[Partition] = []
    for partition in partitions:
        start = partition.start_bytes
        superblock = superblock_at(source, path, start + SUPERBLOCK_OFFSET_BYTES)
        if isinstance(superblock, Known):
            found.append(ImageFilesystem(path, start, superblock, partition))
        elif isinstance(superblock, BadImage):
            gaps.append(_gap_of(partition, superblock.reason))
        elif _ends_before(source, path, partition):
            gaps.append(_gap_of(partition, "the image ends before it", "copy the whole disk"))
        else:
            unrecognized.append(partition)
    described = unrecognized[:MAX_DESCRIBED]
    gaps += [
        _gap_of(partition, reason)
        for partition in described
        if (reason := destroyed(source, path, partition.start_bytes))
    ]
    bad = [f"{gap.what}: {gap.detail}" for gap in gaps]
    if found:
        cut = (_cut_short(source, fs) for fs in found)
        return Image(path, tuple(found), "; ".join(filter(None, (*cut, *bad))), tuple(gaps))
    if bad:
        return BadImage("; ".join(bad))
    if not partitions:
        return explain(source, path)
    kinds = (
        f"partition {partition.number}: {kind}"
        for partition in described
        if (kind := other_kind(source, path, partition.start_bytes))
    )
    nothing = f"no ext2, ext3 or ext4 in its partitions ({len(partitions)})"
    return BadImage("; ".join((nothing, *kinds)))


def _gap_of(partition: Partition, reason: str, hint: str = CHECK_A_COPY) -> Unknown:
    return Unknown(f"partition {partition.number}", Why.UNPARSABLE, reason, hint)


def _ends_before(source: Source, path: str, partition: Partition) -> bool:
    """Return whether the image ends before the superblock of a partition that has room for one."""
    room_bytes = SUPERBLOCK_OFFSET_BYTES + SUPERBLOCK_BYTES
    last_byte = partition.start_bytes + room_bytes - 1
    return partition.size_bytes >= room_bytes and not is_read(source, path, last_byte)


def superblock_at(source: Source, path: str, offset: int) -> Known[Superblock] | BadImage | None:
    """Return the superblock at a byte, BadImage if it is damaged, None if there is none.

    A valid magic number with a valid block size and descriptor size is not a coincidence: any
    other error in such a superblock is damage.
    """
    answer = source.fetch(ReadBytes(path, offset, SUPERBLOCK_BYTES))
    what = f"superblock of {path}"
    if isinstance(derive(what, parse_raw_superblock, answer), Unknown):
        return None
    origin = f"superblock at byte {offset} of {path}"
    found = derive(what, parse_image_superblock, answer, origin=origin)
    return found if isinstance(found, Known) else BadImage(found.detail)


def _cut_short(source: Source, fs: ImageFilesystem) -> str:
    """Return a remark if the image ends before its filesystem does, else an empty string."""
    if not cut_off(source, fs):
        return ""
    where = "the image" if fs.partition is None else f"partition {fs.partition.number}"
    return f"{where} is cut short: its filesystem has {fs.superblock.value.size_bytes} bytes"


def read_partitions(source: Source, path: str) -> Evidence[tuple[Partition, ...]]:
    """Return the partitions of an image, Unknown if it does not begin with a partition table.

    As in Linux, a protective entry selects the GPT, and other entries of a hybrid MBR are ignored.
    MBR sectors are assumed to have 512 bytes: MBR partitions of disks with larger blocks are not
    found.
    """
    what = f"partition table of {path}"
    entries = derive(what, parse_mbr, source.fetch(ReadBytes(path, 0, RECORD_BYTES)))
    if isinstance(entries, Unknown):
        return entries
    if any(entry.type == PROTECTIVE for entry in entries.value):
        return _read_gpt(source, path, what)
    found = (*_primary(entries.value), *_logical(source, path, entries.value))
    return Known(found[:MAX_PARTITIONS], f"MBR of {path}")


def _read_gpt(source: Source, path: str, what: str) -> Evidence[tuple[Partition, ...]]:
    """Try each logical block size; if all fail, return the unknown for 512 bytes."""
    unknowns = []
    for block_bytes in BLOCK_BYTES:
        answer = source.fetch(ReadBytes(path, block_bytes, RECORD_BYTES))
        header = derive(what, parse_gpt_header, answer)
        if isinstance(header, Known):
            return _read_entries(source, path, header.value, block_bytes)
        unknowns.append(header)
    return unknowns[0]


def _read_entries(
    source: Source, path: str, header: GptHeader, block_bytes: int
) -> Evidence[tuple[Partition, ...]]:
    """Read the entries of a GPT, at most as many as Linux uses."""
    length = min(header.entries, MAX_PARTITIONS) * header.entry_bytes
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
    """Yield the logical partitions from the boot record chains of all extended partitions."""
    number = FIRST_LOGICAL
    seen: set[int] = set()
    for entry in entries:
        if entry.type not in EXTENDED or not entry.size_sectors:
            continue
        for place, record in _chain(source, path, entry, seen):
            if record is None:
                yield _partition(number, 0, place)
                continue
            for index, inner in enumerate(record):
                if not inner.size_sectors or inner.type in EXTENDED:
                    continue
                if index < ENTRIES_IN_USE or _is_inside(inner, place, entry):
                    yield _partition(number, place.start_sectors, inner)
                    number += 1


def _is_inside(inner: BootEntry, place: BootEntry, whole: BootEntry) -> bool:
    """Return whether a partition fits its link's range and the whole extended partition."""
    end_sectors = inner.start_sectors + inner.size_sectors
    room_sectors = whole.start_sectors + whole.size_sectors - place.start_sectors
    return end_sectors <= min(place.size_sectors, room_sectors)


def _chain(
    source: Source, path: str, whole: BootEntry, seen: set[int]
) -> Iterator[tuple[BootEntry, tuple[BootEntry, ...] | None]]:
    """Yield the place and the entries of each boot record of a chain.

    A chain ends if it returns to a record, leaves the image, or exceeds the limit of Linux.
    The entries are None if a record in the extended partition cannot be read from the image.
    """
    place = whole
    while place.start_sectors not in seen and len(seen) < MAX_PARTITIONS:
        seen.add(place.start_sectors)
        ask = ReadBytes(path, place.start_sectors * SECTOR_BYTES, RECORD_BYTES)
        record = derive(f"boot record of {path}", parse_boot_record, source.fetch(ask))
        if isinstance(record, Unknown):
            end_sectors = whole.start_sectors + whole.size_sectors
            if record.why is not Why.UNPARSABLE and place.start_sectors < end_sectors:
                yield place, None
            return
        yield place, record.value
        links = [e for e in record.value if e.type in EXTENDED and e.size_sectors]
        if not links:
            return
        place = links[0]._replace(start_sectors=whole.start_sectors + links[0].start_sectors)


def _partition(number: int, base_sectors: int, entry: BootEntry) -> Partition:
    start = (base_sectors + entry.start_sectors) * SECTOR_BYTES
    return Partition(number, start, entry.size_sectors * SECTOR_BYTES)

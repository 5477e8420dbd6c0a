"""Diagnosis of images without a readable superblock: another format, zeros, or only backups.

A regular file as a TARGET can also select the filesystem that contains it. A file that could be an
image must not do that: the audit would be of a filesystem that the user did not mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ext4audit.assemble.devices.target import BadImage, ImageFilesystem, PlainFile
from ext4audit.evidence import Known, Unknown, Why, derive, for_wording
from ext4audit.facts.superblock import MOST_CLUSTERS_PER_GROUP
from ext4audit.layout import (
    SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET_BYTES,
    USUAL_BLOCK_BYTES,
    usual_backups,
)
from ext4audit.layout.mkfs_parameters import (
    BITS_PER_BYTE,
    GROUP_STEP,
    LEAST_CLUSTERS_PER_GROUP,
)
from ext4audit.parsers.disk_image import SIGNATURES, is_named_as_image, is_text, is_zero
from ext4audit.parsers.superblock import parse_backup_superblock
from ext4audit.sources import ReadBytes, Source

SMALLEST_BYTES = 64 << 10
"""The size of the smallest filesystem that mke2fs makes."""
_BEGINNINGS_BYTES = (4136, 512)
"""Lengths to read: one covers most magic numbers, the other is for shorter files."""
_BACKUPS_SHOWN = 3
_MOST_CLUSTER_POWER = 10
_GROUPS_BELOW = 8
NO_BACKUP = (
    "no backup superblock where mke2fs puts it by default, with clusters of 2 to 1024 blocks, or "
    "with groups of a power of two or of 8 to 64 blocks less than the default"
)
"""What was searched, and where."""


def is_read(source: Source, path: str, byte: int) -> bool:
    """Return whether a byte of an image exists and can be read."""
    return isinstance(source.fetch(ReadBytes(path, byte, 1)), Known)


def cut_off(source: Source, fs: ImageFilesystem) -> tuple[Unknown, ...]:
    """Return a gap if the image ends before its filesystem does: no kernel mounts it."""
    if fs.descriptors_at_bytes is not None:  # e2image leaves the data out
        return ()
    size_bytes = fs.superblock.value.size_bytes
    if size_bytes is None or is_read(source, fs.path, fs.start_bytes + size_bytes - 1):
        return ()
    detail = f"it is truncated: it should have {fs.start_bytes + size_bytes} bytes"
    return (Unknown(f"end of {fs.path}", Why.ABSENT, detail, f"copy {fs.path} again"),)


def goes_on(source: Source, fs: ImageFilesystem) -> bool:
    """Return whether an image has bytes after the filesystem, which mke2fs would also use."""
    return is_read(source, fs.path, fs.start_bytes + (fs.superblock.value.size_bytes or 0))


def explain(source: Source, path: str) -> BadImage | PlainFile:
    """Return why a file without a readable superblock is a bad image, or that it is a plain file.

    A plain file is text or smaller than any filesystem, and neither its name nor its content looks
    like an image.
    """
    found = destroyed(source, path) or other_kind(source, path)
    if found:
        return BadImage(found)
    whole = is_read(source, path, SMALLEST_BYTES - 1)
    if is_named_as_image(path) or (whole and not is_text(_beginning(source, path, 0))):
        if not is_read(source, path, 0):
            return BadImage("the file is empty")
        what = "only zeros" if _is_zeroed(source, path, 0) else "no superblock"
        return BadImage(f"no ext2, ext3 or ext4: {what} at byte 1024, and {NO_BACKUP}")
    return PlainFile()


def other_kind(source: Source, path: str, start_bytes: int = 0) -> str:
    """Return the non-ext4 format of a file or partition, empty if it is not recognized."""
    kind = next(_kinds(source, path, start_bytes), "")
    return kind and f"no ext2, ext3 or ext4: {kind}"


def destroyed(source: Source, path: str, start_bytes: int = 0) -> str:
    """Return a message that the primary superblock is destroyed if backups can be read, else ""."""
    backups = _readable_backups(source, path, start_bytes)
    zeroed = backups and _is_zeroed(source, path, start_bytes)
    return backups and f"its superblock is {'zeroed' if zeroed else 'destroyed'}; {backups}"


def damaged(source: Source, path: str, damage: str) -> str:
    """Return the damage of a primary superblock, and the backups that can be read."""
    return "; ".join(filter(None, (damage, _readable_backups(source, path, 0))))


def _readable_backups(source: Source, path: str, start_bytes: int) -> str:
    for block_bytes in USUAL_BLOCK_BYTES:
        found = _backups(source, path, start_bytes, block_bytes)
        blocks = tuple(islice(found, _BACKUPS_SHOWN))
        if blocks:
            shown = ", ".join(map(str, blocks))
            what = "backups can be read, blocks" if blocks[1:] else "a backup can be read, block"
            command = f"e2fsck -b {blocks[0]} -B {block_bytes}"
            return f"{what} {shown} of {block_bytes} bytes (repair a copy with {command})"
    return ""


def _kinds(source: Source, path: str, start_bytes: int) -> Iterator[str]:
    beginning = _beginning(source, path, start_bytes)
    for each in SIGNATURES:
        end = each.offset_bytes + len(each.magic)
        found = beginning[each.offset_bytes : end]
        if end > len(beginning):
            place = ReadBytes(path, start_bytes + each.offset_bytes, len(each.magic))
            found = for_wording(source.fetch(place), b"")
        if found == each.magic:
            yield each.kind


def _beginning(source: Source, path: str, start_bytes: int) -> bytes:
    """Return the first bytes: as many of `_BEGINNINGS_BYTES` as can be read, else none."""
    for length in _BEGINNINGS_BYTES:
        answer = source.fetch(ReadBytes(path, start_bytes, length))
        if isinstance(answer, Known):
            return answer.value
    return b""


def _is_zeroed(source: Source, path: str, start_bytes: int) -> bool:
    place = ReadBytes(path, start_bytes + SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES)
    answer = source.fetch(place)
    return isinstance(answer, Known) and is_zero(answer.value)


def _backups(source: Source, path: str, start_bytes: int, block_bytes: int) -> Iterator[int]:
    """Yield the blocks of the first backups whose place, size and checksum are right.

    A group size other than the default is taken from the backup of group 1.
    """

    def is_one(group: int, block: int) -> bool:
        answer = source.fetch(ReadBytes(path, start_bytes + block * block_bytes, SUPERBLOCK_BYTES))
        place = Known((group, block, block_bytes), "")
        found = derive("backup superblock", parse_backup_superblock, answer, place)
        return isinstance(found, Known)

    usual = usual_backups(block_bytes)
    blocks = [block for group, block in usual if is_one(group, block)]
    if blocks:
        yield from blocks
        return
    for first_block, group_blocks in _other_groups(block_bytes):
        if is_one(1, first_block + group_blocks):
            places = ((group, first_block + group * group_blocks) for group, _ in usual)
            yield from (block for group, block in places if is_one(group, block))
            return


def _other_groups(block_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield first block and size of the groups that options of mke2fs make; see `NO_BACKUP`.

    Any multiple of 8 is legal, and each read takes a millisecond: this is no search over all.
    """
    largest = min(BITS_PER_BYTE * block_bytes, MOST_CLUSTERS_PER_GROUP)
    first_block = int(block_bytes == SUPERBLOCK_OFFSET_BYTES)
    for power in range(1, _MOST_CLUSTER_POWER + 1):
        yield 0, largest << power
    for less in range(GROUP_STEP, (_GROUPS_BELOW + 1) * GROUP_STEP, GROUP_STEP):
        yield first_block, largest - less
    group_blocks = LEAST_CLUSTERS_PER_GROUP
    while group_blocks < largest:
        yield first_block, group_blocks
        group_blocks *= 2

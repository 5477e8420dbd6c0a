from __future__ import annotations

import pytest

from ext4audit.assemble.layout import read_group_table, read_image_group_table
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import GroupTable, Superblock, sizes_of
from ext4audit.layout import descriptor_blocks
from ext4audit.parsers.superblock import parse_raw_superblock
from ext4audit.sources import CapturedDumpe2fs, ReadBytes, ResolvePath, RunCommand
from ext4audit.sources.captured import MapSource
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.evidence_host import HostEvidence, absent, debian_host, denied, failed
from support.images.partitioned import (
    descriptor_bytes,
    descriptors_at,
    superblock_at,
    superblock_bytes,
)

SDB = DeviceNumber(8, 16)
PATH = "/dev/sdb"
LISTED = RunCommand(("dumpe2fs", "-g", PATH))
LIST = """
group:block:super:gdt:bbitmap:ibitmap:itable
0:0:0:1-1:20:21:22
1:32768:32768:32769-32769:32788:32789:32790
"""
CAPTURED = """\
Filesystem volume name:   <none>
Last mounted on:          <not available>
Filesystem UUID:          4a1e8f2e-7a56-4f0a-9d0c-1c5d0a6e8b11
Filesystem magic number:  0xEF53
Filesystem revision #:    1 (dynamic)
Filesystem features:      64bit
Default mount options:    (none)
Filesystem state:         clean
Errors behavior:          Continue
Filesystem OS type:       Linux
Group 0: (Blocks 0-32767)
  Block bitmap at 30 (+30), Inode bitmap at 31 (+31)
  Inode table at 32-40 (+32)
Group 1: (Blocks 32768-65535)
  Block bitmap at 32798 (+30), Inode bitmap at 32799 (+31)
  Inode table at 32800-32810 (+32)
"""


def superblock(groups: int = 2) -> Evidence[Superblock]:
    """Return the superblock as evidence that was read before."""
    return Known(parse_raw_superblock(superblock_bytes(groups)), "dumpe2fs -h /dev/sdb")


def readable(host: HostEvidence, groups: int = 2, *sizes: int) -> HostEvidence:
    """Make superblock and descriptors readable; `sizes` are those of successive readings."""
    for reading, size in enumerate(sizes or (groups, groups)):
        host.answer(superblock_at(PATH, reading), superblock_bytes(size))
        host.answer(descriptors_at(PATH, size, reading), descriptor_bytes(0, size))
    return host


def table_of(host: HostEvidence, groups: int = 2) -> Evidence[GroupTable]:
    """Read the groups of /dev/sdb, whose superblock was read before."""
    return read_group_table(host.source(), PATH, SDB, superblock(groups))


def first_bitmap(table: Evidence[GroupTable]) -> tuple[str, int]:
    """Return the origin of a table and its first block bitmap, which differ for each reader."""
    assert isinstance(table, Known), table
    return table.origin, table.value.block_bitmaps[0]


def test_the_descriptors_themselves_are_the_best_reader() -> None:
    """They are read in one ask, and no program is run."""
    host = readable(debian_host()).answer(LISTED, LIST)
    recorder = RecordingSource(host.source())
    table = read_group_table(recorder, PATH, SDB, superblock())
    assert first_bitmap(table) == ("group descriptors of /dev/sdb", 10)
    assert [ask for ask in recorder.answers if isinstance(ask, RunCommand)] == []


@pytest.mark.parametrize("gap", [denied(), absent(), failed()])
def test_dumpe2fs_is_the_second_reader(gap: Unknown) -> None:
    """`dumpe2fs -g` reads the descriptors only."""
    host = debian_host().answer(superblock_at(PATH), gap).answer(LISTED, LIST)
    assert first_bitmap(table_of(host)) == ("dumpe2fs -g /dev/sdb", 20)


def test_an_archive_may_hold_the_full_text() -> None:
    """A sosreport has the output of dumpe2fs without options."""
    host = debian_host().answer(CapturedDumpe2fs(PATH), CAPTURED)
    assert first_bitmap(table_of(host)) == ("dumpe2fs /dev/sdb", 30)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (descriptor_bytes(0, 1), Why.UNPARSABLE),
        (bytes(128), Why.UNPARSABLE),
        (descriptor_bytes(1, 3), Why.UNPARSABLE),
        (descriptor_bytes(0, 2)[:-1], Why.UNPARSABLE),
        (denied(), Why.DENIED),
        (failed(), Why.FAILED),
    ],
)
def test_descriptors_that_cannot_be_are_no_table(answer: bytes | Unknown, why: Why) -> None:
    """Descriptors that are too few, zero or out of range are rejected, and dumpe2fs is used."""
    host = readable(debian_host()).answer(descriptors_at(PATH, 2), answer)
    table = table_of(host)
    assert isinstance(table, Unknown)
    assert table.why is why
    assert first_bitmap(table_of(host.answer(LISTED, LIST))) == ("dumpe2fs -g /dev/sdb", 20)


@pytest.mark.parametrize(
    ("raw", "listed", "expected"),
    [
        (denied(), absent(), denied()),
        (absent(), denied(), denied()),
        (absent(), absent(), absent()),
        (denied(), failed(), denied()),
        (
            Unknown("bytes", Why.NOT_CAPTURED),
            Unknown("dumpe2fs", Why.FAILED, "bad magic"),
            Unknown("dumpe2fs", Why.FAILED, "bad magic"),
        ),
    ],
)
def test_the_gap_is_the_one_that_can_be_cured(
    raw: Unknown, listed: Unknown, expected: Unknown
) -> None:
    """Installing dumpe2fs is no help if root could read the device."""
    host = debian_host().answer(superblock_at(PATH), raw).answer(LISTED, listed)
    assert table_of(host) == expected


def test_the_gap_of_an_archive_is_that_of_its_own_form() -> None:
    """Its hint names the option that captures the groups; no other reader has that hint."""
    own = Unknown("full dumpe2fs", Why.NOT_CAPTURED, hint="sos report -k filesys.dumpe2fs=on")
    node = debian_host().source().fetch(ResolvePath(PATH))
    archive = MapSource({ResolvePath(PATH): node, CapturedDumpe2fs(PATH): own})
    assert read_group_table(archive, PATH, SDB, superblock(2)) == own


@pytest.mark.parametrize(
    ("groups", "why"), [(1 << 22, Why.ABSENT), ((1 << 22) + 1, Why.UNPARSABLE)]
)
def test_a_table_of_more_than_256_mib_is_not_asked_for(groups: int, why: Why) -> None:
    """4,194,304 descriptors of 64 bytes describe 512 TiB: more groups are not plausible."""
    host = debian_host().answer(superblock_at(PATH), superblock_bytes(groups))
    table = table_of(host, groups)
    assert isinstance(table, Unknown)
    assert table.why is why


def test_another_device_of_the_same_name_is_not_read() -> None:
    """In a container, /dev/sdb may be the node of another disk."""
    table = table_of(readable(debian_host()).node(PATH, "8:32"))
    detail = "/dev/sdb is not the block device 8:16"
    assert table == Unknown(
        "superblock of /dev/sdb", Why.ABSENT, detail, "run on the host, outside containers"
    )


def test_without_a_superblock_there_is_no_table() -> None:
    """The superblock determines the number of groups."""
    gap = denied("superblock of /dev/sdb")
    assert read_group_table(readable(debian_host()).source(), PATH, SDB, gap) == gap


@pytest.mark.parametrize("sizes", [(2, 3, 3), (2, 3, 4, 4)])
def test_a_filesystem_that_grows_meanwhile_is_read_again(sizes: tuple[int, ...]) -> None:
    """Superblock, descriptors and superblock are read until both superblocks agree."""
    table = table_of(readable(debian_host(), 2, *sizes), sizes[-1])
    assert isinstance(table, Known)
    assert table.value.groups == sizes[-1]


def test_a_filesystem_that_does_not_stop_growing_is_unknown() -> None:
    """Only three readings are made."""
    table = table_of(readable(debian_host(), 2, 2, 3, 4, 5, 5))
    assert table == Unknown(
        "block groups of /dev/sdb",
        Why.FAILED,
        "the filesystem is being resized",
        "run again afterwards",
    )


def test_groups_that_were_added_since_are_left_out() -> None:
    """The table matches the reported filesystem, and groups never move."""
    table = table_of(readable(debian_host(), 5), 2)
    assert isinstance(table, Known)
    assert list(table.value.block_bitmaps) == [10, 32778]


def test_meta_bg_is_read_block_by_block() -> None:
    """Each descriptor block is in the first of its 64 groups, and group 64 has no backup."""
    host, size = debian_host(), 65
    for reading in (0, 1):
        host.answer(superblock_at(PATH, reading), superblock_bytes(size, meta_bg=True))
    host.answer(ReadBytes(PATH, 4096, 4096), descriptor_bytes(0, 64))
    host.answer(ReadBytes(PATH, 64 * 32768 * 4096, 64), descriptor_bytes(64, 65))
    table = table_of(host, size)
    assert isinstance(table, Known)
    assert list(table.value.inode_tables) == [32768 * group + 12 for group in range(65)]


@pytest.mark.parametrize(
    ("places", "origin"), [(64, "group descriptors of /dev/sdb"), (65, "dumpe2fs -g /dev/sdb")]
)
def test_many_places_are_left_to_dumpe2fs(places: int, origin: str) -> None:
    """One run of dumpe2fs is cheaper than thousands of asks, but not than a few."""
    groups = 64 * places
    raw = superblock_bytes(groups, meta_bg=True)
    host = debian_host().answer(superblock_at(PATH), raw).answer(superblock_at(PATH, 1), raw)
    known = parse_raw_superblock(raw)
    for block in descriptor_blocks(sizes_of(known)):
        first = block // 32768
        host.answer(ReadBytes(PATH, block * 4096, 4096), descriptor_bytes(first, first + 64))
    lines = (
        f"{n}:0:-1:-1:{n * 32768 + 10}:{n * 32768 + 11}:{n * 32768 + 12}" for n in range(groups)
    )
    host.answer(LISTED, LIST.partition("0:")[0] + "\n".join(lines))
    table = read_group_table(host.source(), PATH, SDB, Known(known, "dumpe2fs -h /dev/sdb"))
    assert isinstance(table, Known)
    assert (table.origin, table.value.groups) == (origin, groups)


def test_an_enormous_superblock_is_not_believed() -> None:
    """A damaged size must not cause a terabyte of descriptors to be read."""
    data = bytearray(superblock_bytes(2))
    data[0x150:0x154] = b"\xff\xff\xff\x7f"
    recorder = RecordingSource(debian_host().answer(superblock_at(PATH), bytes(data)).source())
    table = read_group_table(recorder, PATH, SDB, superblock())
    assert isinstance(table, Unknown)
    assert table.why is Why.UNPARSABLE
    assert max(a.length_bytes for a in recorder.answers if isinstance(a, ReadBytes)) == 1024


def test_more_than_64_mib_are_asked_for_in_parts() -> None:
    """No answer is larger than the live source's limit for one read."""
    groups = (64 << 20) // 64 + 1
    host = debian_host()
    for reading in (0, 1):
        host.answer(superblock_at(PATH, reading), large_superblock(groups))
    host.answer(ReadBytes(PATH, 4096, 64 << 20), bytes(64 << 20))
    host.answer(ReadBytes(PATH, 4096 + (64 << 20), 64), bytes(64))
    recorder = RecordingSource(host.source())
    read_group_table(recorder, PATH, SDB, superblock())
    places = [
        (a.offset_bytes, a.length_bytes) for a in recorder.answers if isinstance(a, ReadBytes)
    ]
    superblock_place, second = (1024, 1024), 4096 + (64 << 20)
    assert places == [superblock_place, (4096, 64 << 20), (second, 64), superblock_place]


def large_superblock(groups: int) -> bytes:
    """Return a superblock with more blocks than fit in 32 bits."""
    data, blocks = bytearray(superblock_bytes(1)), groups * 32768
    data[0x4:0x8] = (blocks & 0xFFFFFFFF).to_bytes(4, "little")
    data[0x150:0x154] = (blocks >> 32).to_bytes(4, "little")
    return bytes(data)


def test_an_image_holds_the_filesystem_at_its_start_by_default() -> None:
    """Only partitions have an offset."""
    host = HostEvidence()
    for reading in (0, 1):
        host.answer(superblock_at("/img", reading), superblock_bytes(2))
    host.answer(descriptors_at("/img", 2), descriptor_bytes(0, 2))
    assert isinstance(read_image_group_table(host.source(), "/img", superblock()), Known)


def test_an_image_may_hold_the_filesystem_at_an_offset() -> None:
    """All positions are shifted by it; the device of the path is not checked."""
    host = HostEvidence()
    for reading in (0, 1):
        host.answer(superblock_at("/img", reading, offset=1 << 20), superblock_bytes(2))
    host.answer(descriptors_at("/img", 2, offset=1 << 20), descriptor_bytes(0, 2))
    table = read_image_group_table(host.source(), "/img", superblock(), 1 << 20)
    assert isinstance(table, Known)
    assert (table.origin, list(table.value.block_bitmaps)) == (
        "group descriptors of /img",
        [10, 32778],
    )
    gap = denied("superblock of /img")
    assert read_image_group_table(host.source(), "/img", gap) == gap


def test_a_superblock_without_a_geometry_finds_no_table() -> None:
    """The ioctl returns neither block size nor group size."""
    known = superblock()
    assert isinstance(known, Known)
    tuned = Known(known.value._replace(blocks_per_group=None), "ioctl")
    table = read_group_table(readable(debian_host()).source(), PATH, SDB, tuned)
    assert isinstance(table, Unknown)
    assert table.why is Why.UNPARSABLE

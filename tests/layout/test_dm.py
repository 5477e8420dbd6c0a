from __future__ import annotations

import pytest

from ext4audit.facts.devices import DmSegment
from ext4audit.layout.byte_map import Stripes
from ext4audit.layout.stack import split_raid, split_segment

K64 = 65536


def raid_segment(words: str) -> DmSegment:
    """Return a segment of 1 GiB from the words that `dmsetup table` prints after "raid"."""
    return DmSegment(0, 1 << 21, "raid", tuple(words.split()))


FOUR = "{} 3 128 region_size 4096 4 1:0 1:1 1:2 1:3 1:4 1:5 1:6 1:7"


@pytest.mark.parametrize(
    ("words", "stripes", "data", "parity"),
    [
        ("raid0 1 128 2 - 1:0 - 1:1", Stripes("dm-striped", K64, None), ((1, 0),), ()),
        ("raid1 1 0 2 1:0 1:1 1:2 1:3", None, ((0, K64), (1, K64)), ()),
        (FOUR.format("raid10"), Stripes("raid10", K64, 0x102), ((2, 0), (3, 0)), ()),
        (
            "raid10 3 128 raid10_copies 3 3 - 1:0 - 1:1 - 1:2",
            Stripes("raid10", K64, 0x103),
            ((0, K64), (1, K64), (2, K64)),
            (),
        ),
        (FOUR.format("raid4"), Stripes("raid5", K64, 4), ((2, 0),), ((0, 0),)),
        (FOUR.format("raid5_la"), Stripes("raid5", K64, 0), ((1, 0),), ((3, 0),)),
        (FOUR.format("raid5_ra"), Stripes("raid5", K64, 1), ((2, 0),), ((0, 0),)),
        (FOUR.format("raid5_ls"), Stripes("raid5", K64, 2), ((1, 0),), ((3, 0),)),
        (FOUR.format("raid5_rs"), Stripes("raid5", K64, 3), ((2, 0),), ((0, 0),)),
        (FOUR.format("raid5_n"), Stripes("raid5", K64, 5), ((1, 0),), ((3, 0),)),
        (FOUR.format("raid6_zr"), Stripes("raid6", K64, 8), ((3, 0),), ((0, 0), (1, 0))),
        (FOUR.format("raid6_nr"), Stripes("raid6", K64, 9), ((1, 0),), ((2, 0), (3, 0))),
        (FOUR.format("raid6_nc"), Stripes("raid6", K64, 10), ((1, 0),), ((3, 0), (2, 0))),
        (FOUR.format("raid6_la_6"), Stripes("raid6", K64, 16), ((1, 0),), ((2, 0), (3, 0))),
        (FOUR.format("raid6_ra_6"), Stripes("raid6", K64, 17), ((2, 0),), ((0, 0), (3, 0))),
        (FOUR.format("raid6_ls_6"), Stripes("raid6", K64, 18), ((1, 0),), ((2, 0), (3, 0))),
        (FOUR.format("raid6_rs_6"), Stripes("raid6", K64, 19), ((2, 0),), ((0, 0), (3, 0))),
        (FOUR.format("raid6_n_6"), Stripes("raid6", K64, 5), ((1, 0),), ((2, 0), (3, 0))),
    ],
)
def test_the_raid_type_decides_the_place_of_the_second_chunk(
    words: str,
    stripes: Stripes | None,
    data: tuple[tuple[int, int], ...],
    parity: tuple[tuple[int, int], ...],
) -> None:
    """dm-raid uses the numbers of md's layouts (dm-raid.c, raid_types)."""
    split = split_raid(raid_segment(words))
    assert split.stripes == stripes
    assert (split.layer.data(K64), split.layer.parity(K64)) == (data, parity)


def test_metadata_devices_are_not_components() -> None:
    """Each member has a pair of devices: the first holds the superblock and the bitmap."""
    split = split_raid(raid_segment("raid1 4 0 region_size 4096 nosync 2 1:0 1:1 1:2 1:3"))
    assert split.components == (("1:1", 0), ("1:3", 0))


@pytest.mark.parametrize(
    "words",
    [
        "raid0 1",
        "raid0 1 128",
        "raid0 1 128 3 - 1:0 - 1:1",
        "raid0 1 128 2 - 1:0 - -",
        "raid0 0 2 - 1:0 - 1:1",
        "raid0 1 0 2 - 1:0 - 1:1",
        "raid0 99999 128 2 - 1:0 - 1:1",
        "raid9 1 128 2 - 1:0 - 1:1",
        "raid1 1 0 0",
        "raid10 3 128 raid10_format far 2 - 1:0 - 1:1",
        "raid10 3 128 raid10_copies x 2 - 1:0 - 1:1",
        "raid10 3 128 raid10_copies 900 2 - 1:0 - 1:1",
        "raid5_ls 3 128 delta_disks 1 3 - 1:0 - 1:1 - 1:2",
        "raid5_ls 3 128 data_offset 8192 3 - 1:0 - 1:1 - 1:2",
        "raid5_ls 2 128 region_size 3 - 1:0 - 1:1 - 1:2",
        "raid6_ls_6 1 128 2 - 1:0 - 1:1",
    ],
)
def test_an_unsupported_raid_volume_is_refused(words: str) -> None:
    """A reshape moves data; the parity of a missing member may be anywhere."""
    with pytest.raises(ValueError, match=r".+"):
        split_raid(raid_segment(words))


def test_a_parameter_without_its_value_is_named() -> None:
    """Its effect on the mapping is unknown."""
    with pytest.raises(ValueError, match=r"'region_size'.* may move data"):
        split_raid(raid_segment("raid5_ls 2 128 region_size 3 - 1:0 - 1:1 - 1:2"))


def segment_of(line: str) -> DmSegment:
    """Return a segment of 1 GiB from the words that `dmsetup table` prints after its length."""
    target, *arguments = line.split()
    return DmSegment(0, 1 << 21, target, tuple(arguments))


COMPONENTS = [
    ("linear 9:127 4096", (("9:127", 2097152),)),
    ("crypt aes-xts-plain64 :64:logon:x 0 9:127 32768", (("9:127", 16777216),)),
    ("crypt aes-xts-plain64 0000 0 259:1 4096 1 allow_discards", (("259:1", 2097152),)),
    ("striped 2 128 8:0 2048 8:16 0", (("8:0", 1048576), ("8:16", 0))),
    ("snapshot-origin 253:1", (("253:1", 0),)),
    ("raid raid0 1 128 2 - 253:0 - 253:1", (("253:0", 0), ("253:1", 0))),
]


@pytest.mark.parametrize(("line", "expected"), COMPONENTS)
def test_a_segment_names_its_components_and_where_they_begin(
    line: str, expected: tuple[tuple[str, int], ...]
) -> None:
    """A key is not a component, and neither is the metadata of a RAID volume."""
    assert split_segment(segment_of(line)).components == expected


@pytest.mark.parametrize(
    ("line", "stripes", "data"),
    [
        ("linear 8:0 0", None, ((0, K64),)),
        ("crypt aes 0 0 8:0 8", None, ((0, K64),)),
        ("snapshot-origin 8:0", None, ((0, K64),)),
        ("striped 2 128 8:0 0 8:16 0", Stripes("dm-striped", K64, None), ((1, 0),)),
        ("striped 1 128 8:0 0", Stripes("dm-striped", K64, None), ((0, K64),)),
        ("raid raid0 1 128 2 - 253:0 - 253:1", Stripes("dm-striped", K64, None), ((1, 0),)),
    ],
)
def test_the_target_decides_the_place_of_the_second_chunk(
    line: str, stripes: Stripes | None, data: tuple[tuple[int, int], ...]
) -> None:
    """Byte 65536 of the segment, as an offset from the start of its component."""
    split = split_segment(segment_of(line))
    assert (split.stripes, split.layer.data(K64)) == (stripes, data)


@pytest.mark.parametrize(
    "line",
    [
        "thin 253:4 1",
        "snapshot 253:1 253:2 P 8",
        "mirror core 1 1024 2 8:0 0 8:16 0",
        "cache 8:0 8:16 8:32 512 0 default 0",
        "integrity 8:0 0 32 J 0",
        "error",
        "\x1b[31m",
        "linear 8:0",
        "linear 8:0 -1",
        "linear 8:0 0x10",
        "linear 8:0 " + "9" * 5000,
        "crypt aes 0 0 8:0",
        "striped",
        "striped 0 128",
        "striped 2 0 8:0 0 8:16 0",
        "striped 2 128 8:0 0",
        "striped 3 128 8:0 0 8:16 0",
        "striped 99999999999 128 8:0 0",
        "striped x 128 8:0 0",
        "snapshot-origin",
        "snapshot-origin 8:0 0",
        "raid",
    ],
)
def test_an_unsupported_table_line_is_refused(line: str) -> None:
    """A target that moves data, an invalid number, or a missing component."""
    with pytest.raises(ValueError, match=r".+"):
        split_segment(segment_of(line))

from __future__ import annotations

import pytest

from ext4audit.facts.block import DmSegment
from ext4audit.layout.dm_map import split_segment
from ext4audit.layout.split import Stripes

K64 = 65536


def segment(line: str) -> DmSegment:
    """Build a segment of 1 GiB of what `dmsetup table` prints after its length."""
    target, *arguments = line.split()
    return DmSegment(0, 1 << 21, target, tuple(arguments))


LEGS = [
    ("linear 9:127 4096", (("9:127", 2097152),)),
    ("crypt aes-xts-plain64 :64:logon:x 0 9:127 32768", (("9:127", 16777216),)),
    ("crypt aes-xts-plain64 0000 0 259:1 4096 1 allow_discards", (("259:1", 2097152),)),
    ("striped 2 128 8:0 2048 8:16 0", (("8:0", 1048576), ("8:16", 0))),
    ("snapshot-origin 253:1", (("253:1", 0),)),
    ("raid raid0 1 128 2 - 253:0 - 253:1", (("253:0", 0), ("253:1", 0))),
]


@pytest.mark.parametrize(("line", "legs"), LEGS)
def test_a_segment_names_its_legs_and_where_they_begin(
    line: str, legs: tuple[tuple[str, int], ...]
) -> None:
    """A key is no leg, and neither is the metadata of a RAID volume."""
    assert split_segment(segment(line)).legs == legs


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
def test_the_second_chunk_lies_where_the_target_puts_it(
    line: str, stripes: Stripes | None, data: tuple[tuple[int, int], ...]
) -> None:
    """Byte 65536 of the segment, seen from the start of its leg."""
    split = split_segment(segment(line))
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
        "raid",
    ],
)
def test_a_line_that_is_not_understood_is_refused(line: str) -> None:
    """A target that moves data, a number that is none, a leg that is missing."""
    with pytest.raises(ValueError, match=r".+"):
        split_segment(segment(line))

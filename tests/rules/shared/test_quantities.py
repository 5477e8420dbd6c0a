"""Times in evidence, as words and as seconds."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.rules.shared.quantities import (
    block_bytes,
    device_bytes,
    full_share,
    has_room_to_grow,
    percent,
    seconds_since_1970,
    size,
    utc,
)
from support.builders import GIB, disk, filesystem, known, superblock, unknown, usage


@pytest.mark.parametrize(
    ("count_bytes", "words"),
    [
        (0, "0 bytes"),
        (1 << 20, "1 MiB"),
        (50 * GIB, "50 GiB"),
        (1536 * GIB, "1.5 TiB"),
        (1023 * GIB, "1023 GiB"),
    ],
)
def test_a_size_is_spelled_in_its_largest_unit(count_bytes: int, words: str) -> None:
    """One digit after the point is enough."""
    assert size(count_bytes) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(1, 2, "50 %"), (999_999, 1_000_000, "99.9 %"), (3, 3, "100 %"), (0, 0, "0 %")],
)
def test_a_share_is_never_rounded_up_to_all(part: int, whole: int, words: str) -> None:
    """Only what is full is said to be full."""
    assert percent(part, whole) == words


@pytest.mark.parametrize(
    ("free", "available", "share"), [(50, 40, 50 / 90), (10, 0, 1.0), (100, 95, 0.0)]
)
def test_fullness_is_what_df_says(free: int, available: int, share: float) -> None:
    """The reserve is no space of users."""
    found = usage(size_blocks=100, free_blocks=free, available_blocks=available)
    assert full_share(found) == pytest.approx(share)


def test_a_filesystem_without_blocks_is_full() -> None:
    """Nothing can be written to it."""
    assert full_share(usage(size_blocks=0, free_blocks=0, available_blocks=0)) == 1.0


BY_IOCTL = known(superblock(block_bytes=None))
NO_USAGE = unknown("space in use")


@pytest.mark.parametrize(
    ("fs", "origin"),
    [
        (filesystem(), "dumpe2fs -h /dev/sda"),
        (filesystem(superblock=BY_IOCTL), "statfs /data"),
        (filesystem(superblock=unknown("superblock")), "statfs /data"),
        (filesystem(superblock=BY_IOCTL, usage=NO_USAGE), None),
        (filesystem(superblock=unknown("superblock"), usage=NO_USAGE), None),
    ],
)
def test_the_block_size_is_known_without_root(fs: Filesystem, origin: str | None) -> None:
    """statfs(2) tells it where the superblock's reader does not."""
    found = block_bytes(fs)
    assert (found.origin if isinstance(found, Known) else None) == origin


def test_the_size_of_a_device_that_is_not_seen() -> None:
    """The gap of the stack is the gap of the size."""
    assert isinstance(device_bytes(filesystem(stack=unknown("stack"))), Unknown)


@pytest.mark.parametrize(
    ("changes", "room"),
    [
        ({}, True),
        ({"stack": unknown("stack")}, False),
        ({"superblock": unknown("superblock")}, False),
        ({"superblock": known(superblock(size_blocks=300 * GIB // 4096))}, False),
    ],
)
def test_room_to_grow_must_be_known(changes: dict[str, Any], *, room: bool) -> None:
    """A device of 300 GiB around a filesystem of 100 GiB has room; a gap is none."""
    large = known(disk(size_sectors=known(300 * GIB // 512, "/sys")))
    own = known(superblock(size_blocks=100 * GIB // 4096))
    fs = filesystem(**{"stack": large, "superblock": own, **changes})
    assert has_room_to_grow(fs) is room


MOST = 4102444800 * 4


@given(st.integers(0, MOST))
def test_a_time_is_spelled_as_the_calendar_has_it(seconds: int) -> None:
    """The words are those of the standard library, and read back as the same second."""
    expected = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert utc(seconds) == expected
    assert seconds_since_1970(expected) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02", "2026-01-02T03:04:05+01:00"])
def test_what_is_no_time_in_utc_is_none(text: str) -> None:
    """A time in another zone is not taken for one in UTC."""
    assert seconds_since_1970(text) is None


def test_fractions_of_a_second_are_dropped() -> None:
    """RFC 3339 allows them."""
    assert seconds_since_1970("1970-01-02T00:00:00.5Z") == 86400

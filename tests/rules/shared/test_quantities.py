"""Sizes, shares and times as text; the journal and the stripe of a filesystem as numbers."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Undetermined, Unknown, need
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.layout import journal_blocks_of
from ext4audit.rules.shared.quantities import (
    Journal,
    RecommendedStripe,
    block_bytes,
    block_bytes_of,
    cite_journal,
    cite_space,
    device_bytes,
    full_share,
    has_room_to_grow,
    journal_of,
    largest_stripe_blocks,
    least_idle,
    percent,
    recommended_stripe,
    seconds_since_1970,
    size,
    utc,
)
from support.builders import (
    GIB,
    disk,
    filesystem,
    known,
    loop,
    queue,
    raid,
    superblock,
    unknown,
    usage,
)


@pytest.mark.parametrize(
    ("count_bytes", "words"),
    [
        (0, "0 bytes"),
        ((1 << 20) - 1, "1048575 bytes"),
        (1 << 20, "1 MiB"),
        (GIB - 1, "1024 MiB"),
        (GIB, "1 GiB"),
        (1024 * GIB - 1, "1024 GiB"),
        (1024 * GIB, "1 TiB"),
        (-2 * GIB, "-2 GiB"),
        (50 * GIB, "50 GiB"),
        (1536 * GIB, "1.5 TiB"),
        (1023 * GIB, "1023 GiB"),
    ],
)
def test_size_in_its_largest_unit(count_bytes: int, words: str) -> None:
    """At most one decimal is used."""
    assert size(count_bytes) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (1, 1000, "0.1 %"),
        (1, 2, "50 %"),
        (999_999, 1_000_000, "99.9 %"),
        (3, 3, "100 %"),
        (0, 0, "0 %"),
    ],
)
def test_share_is_never_rounded_up_to_100_percent(part: int, whole: int, words: str) -> None:
    """Only a full filesystem is called full."""
    assert percent(part, whole) == words


@pytest.mark.parametrize(
    ("free", "available", "share"), [(50, 40, 50 / 90), (10, 0, 1.0), (100, 95, 0.0)]
)
def test_used_share_equals_df(free: int, available: int, share: float) -> None:
    """The reserve does not count as space for users."""
    found = usage(size_blocks=100, free_blocks=free, available_blocks=available)
    assert full_share(found) == pytest.approx(share)


def test_filesystem_without_blocks_is_full() -> None:
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
def test_block_size_without_root(fs: Filesystem, origin: str | None) -> None:
    """statfs(2) returns it if the superblock's reader does not."""
    found = block_bytes(fs)
    assert (found.origin if isinstance(found, Known) else None) == origin


def test_size_of_an_unknown_device() -> None:
    """The gap of the stack becomes the gap of the size."""
    assert isinstance(device_bytes(filesystem(stack=unknown("stack"))), Unknown)


def test_size_of_a_device_and_of_an_image() -> None:
    """An image ends with its filesystem, so its size is that of its blocks."""
    of = known(superblock(size_blocks=1000))
    assert device_bytes(filesystem(stack=known(disk(size_sectors=known(7))))) == Known(
        7 * 512, "test"
    )
    image = device_bytes(filesystem(stack=known(disk(kind="image")), superblock=of))
    assert need(image) == 1000 * 4096


@pytest.mark.parametrize(
    ("device", "idle"),
    [(GIB, GIB), (100 * GIB, GIB), (101 * GIB, GIB * 101 // 100), (300 * GIB, 3 * GIB)],
)
def test_allowed_unused_space(device: int, idle: int) -> None:
    """On smaller devices the limit is 1 GiB."""
    assert least_idle(device) == idle


@pytest.mark.parametrize(("beyond_blocks", "room"), [(0, False), (1, True)])
def test_room_to_grow_exceeds_the_allowed_unused_space(beyond_blocks: int, *, room: bool) -> None:
    """CAP005 does not report up to 1 GiB of 50 GiB either."""
    device = known(disk(size_sectors=known(50 * GIB // 512)))
    own = superblock(size_blocks=49 * GIB // 4096 - beyond_blocks)
    assert has_room_to_grow(filesystem(stack=device, superblock=known(own))) is room


def test_space_is_cited_in_bytes() -> None:
    """The value is blocks times block size; without the usage there is no citation."""
    (cited,) = cite_space(filesystem())
    assert cited.value == "100 GiB in all, 50 GiB free, 45 GiB free for users"
    assert cite_space(filesystem(usage=NO_USAGE)) == ()


@pytest.mark.parametrize(
    ("changes", "room"),
    [
        ({}, True),
        ({"stack": known(loop(size_sectors=known(300 * GIB // 512)))}, True),
        ({"stack": known(loop(size_sectors=known(300 * GIB // 512), offset_bytes=512))}, False),
        ({"stack": known(loop(size_sectors=known(300 * GIB // 512), offset_bytes=None))}, False),
        ({"stack": unknown("stack")}, False),
        ({"superblock": unknown("superblock")}, False),
        ({"superblock": known(superblock(size_blocks=300 * GIB // 4096))}, False),
    ],
)
def test_room_to_grow_with_unknown_sizes(changes: dict[str, Any], *, room: bool) -> None:
    """A device of 300 GiB around a filesystem of 100 GiB has room; unknown sizes have none."""
    large = known(disk(size_sectors=known(300 * GIB // 512, "/sys")))
    own = known(superblock(size_blocks=100 * GIB // 4096))
    fs = filesystem(**{"stack": large, "superblock": own, **changes})
    assert has_room_to_grow(fs) is room


LAST_TIME = 4102444800 * 4


@given(st.integers(0, LAST_TIME))
@example(951_782_399)  # the end of 2000-02-28
@example(951_782_400)  # 2000-02-29
@example(951_868_800)  # 2000-03-01
@example(978_220_800)  # 2000-12-31, day 366
@example(978_307_200)  # 2001-01-01
@example(4_107_542_399)  # the end of 2100-02-28, no leap year
@example(4_107_542_400)  # 2100-03-01
@example(13_574_563_200)  # 2400-02-29, the last day of 400 years
@example(13_574_649_600)  # 2400-03-01
def test_time_in_rfc_3339(seconds: int) -> None:
    """The text equals that of the standard library, and is parsed as the same second."""
    expected = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert utc(seconds) == expected
    assert seconds_since_1970(expected) == seconds


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-02", "2026-01-02T03:04:05+01:00", "2026-13-02T03:04:05Z"]
)
def test_times_outside_utc_are_none(text: str) -> None:
    """A time in another zone is not treated as UTC."""
    assert seconds_since_1970(text) is None


def test_fractions_of_a_second_are_dropped() -> None:
    """RFC 3339 allows them."""
    assert seconds_since_1970("1970-01-02T00:00:00.5Z") == 86400


@pytest.mark.parametrize(
    ("size_mib", "block_bytes", "journal_kib"),
    [
        (3, 4096, 0),
        (100, 4096, 4096),
        (200, 4096, 16 << 10),
        (900, 4096, 16 << 10),
        (1 << 10, 4096, 32 << 10),
        (2 << 10, 4096, 64 << 10),
        (15 << 10, 4096, 64 << 10),
        (16 << 10, 4096, 128 << 10),
        (20 << 10, 4096, 128 << 10),
        (32 << 10, 4096, 256 << 10),
        (64 << 10, 4096, 512 << 10),
        (127 << 10, 4096, 512 << 10),
        (128 << 10, 4096, 1 << 20),
        (200 << 10, 4096, 1 << 20),
        (4 << 10, 1024, 32 << 10),
        (8 << 10, 1024, 64 << 10),
        (200 << 10, 1024, 256 << 10),
    ],
)
def test_usual_journal_size_equals_mke2fs(
    size_mib: int, block_bytes: int, journal_kib: int
) -> None:
    """The sizes are what dumpe2fs printed for filesystems of these sizes by mke2fs 1.47.0."""
    assert journal_blocks_of((size_mib << 20) // block_bytes) * block_bytes == journal_kib << 10


@pytest.mark.parametrize(
    ("from_blocks", "below_it", "journal_blocks"),
    [
        (2048, 0, 1024),
        (32768, 1024, 4096),
        (262144, 4096, 8192),
        (524288, 8192, 16384),
        (4194304, 16384, 32768),
        (8388608, 32768, 65536),
        (16777216, 65536, 131072),
        (33554432, 131072, 262144),
    ],
)
def test_usual_journal_size_steps(from_blocks: int, below_it: int, journal_blocks: int) -> None:
    """The cases are sizes at which mke2fs 1.47 takes the next step, and one block less."""
    assert journal_blocks_of(from_blocks - 1) == below_it
    assert journal_blocks_of(from_blocks) == journal_blocks


@pytest.mark.parametrize(
    ("present", "filesystem_bytes", "undersized"),
    [
        (1024, 200 * GIB, False),
        (128, 20 * GIB + 1, False),
        (127, 20 * GIB + 1, True),
        (8, 200 * GIB, True),
        (127, 20 * GIB, False),
    ],
)
def test_journal_below_an_eighth_is_undersized(
    present: int, filesystem_bytes: int, *, undersized: bool
) -> None:
    """An older mke2fs makes an eighth; up to 20 GiB a larger journal is not needed."""
    assert Journal(present, 1024, filesystem_bytes).undersized is undersized


def test_unread_journal_size_is_unknown() -> None:
    """The superblock itself does not always have the journal's size."""
    gap = journal_of(filesystem(superblock=known(superblock(journal_bytes=None))))
    assert isinstance(gap, Unknown)
    assert gap.what == "size of the journal"


def test_journal_sizes_are_in_bytes() -> None:
    """100 GiB have 26,214,400 blocks of 4 KiB, and usually a journal of 131072 blocks."""
    fs = filesystem(superblock=known(superblock(journal_bytes=64 << 20)))
    journal = need(journal_of(fs))
    assert journal == Journal(64 << 20, 512 << 20, 100 * GIB)
    present, usual = cite_journal(fs, journal)
    assert (present.value, usual.value) == ("64 MiB", "512 MiB for a filesystem of 100 GiB")


@pytest.mark.parametrize(
    ("changes", "external"),
    [
        ({"journal_device": "8:16", "journal_bytes": None}, True),
        ({"journal_device": "8:16", "journal_bytes": 1}, False),
        ({"journal_device": "8:16", "journal_bytes": None, "journal_inode": 8}, False),
        ({"journal_device": None, "journal_bytes": None}, False),
        ({"journal_device": None, "journal_bytes": None, "journal_inode": 8}, False),
        ({}, False),
        ({"journal_device": "8:16", "journal_bytes": None, "features": frozenset()}, False),
    ],
)
def test_external_journal(changes: dict[str, Any], *, external: bool) -> None:
    """The superblock names its device, and has neither an inode nor a size for it."""
    assert bool(superblock(**changes).external_journal) is external


KIB = 1024


def disk_with_io_sizes(chunk: int, width: int, physical: int = 512) -> BlockDevice:
    """Build a disk with these I/O sizes."""
    limits = queue(minimum_io_bytes=chunk, optimal_io_bytes=width, physical_block_bytes=physical)
    return disk(limits=limits)


@pytest.mark.parametrize(
    ("device", "stripe"),
    [
        (disk_with_io_sizes(512, 2048, 256), None),
        (disk_with_io_sizes(513, 1026, 256), RecommendedStripe(513, 1026)),
        (disk_with_io_sizes(4096, 8192, 4096), None),
        (disk_with_io_sizes(4097, 8194, 4096), RecommendedStripe(4097, 8194)),
        (disk_with_io_sizes(64 * KIB, 64 * KIB), None),
        (disk_with_io_sizes(64 * KIB, 128 * KIB), RecommendedStripe(64 * KIB, 128 * KIB)),
        (disk_with_io_sizes(64 * KIB, 128 * KIB + 1), None),
        (disk_with_io_sizes(64 * KIB, 256 * 64 * KIB), RecommendedStripe(64 * KIB, 256 * 64 * KIB)),
        (disk_with_io_sizes(64 * KIB, 257 * 64 * KIB), None),
        (
            raid([disk(), disk("sdb")], limits=queue(minimum_io_bytes=4096, optimal_io_bytes=8192,
                                        physical_block_bytes=4096)),
            RecommendedStripe(4096, 8192),
        ),
    ],
)  # fmt: skip
def test_stripe_is_2_to_256_chunks(device: BlockDevice, stripe: RecommendedStripe | None) -> None:
    """A chunk is more than a sector, and more than the physical block of a single disk."""
    assert recommended_stripe(device) == stripe


def test_default_blocks_per_group() -> None:
    """If the superblock does not have the group size, the size of a bitmap block gives it."""
    assert (
        largest_stripe_blocks(filesystem(superblock=known(superblock(blocks_per_group=64)))) == 64
    )
    unknown_group = superblock(blocks_per_group=None, block_bytes=1024)
    assert largest_stripe_blocks(filesystem(superblock=known(unknown_group))) == 8192
    assert largest_stripe_blocks(filesystem(superblock=unknown("superblock"))) == 32768


def test_origin_of_the_block_size() -> None:
    """The superblock comes first; without it and statfs, the missing evidence is reported."""
    small, unread = known(superblock(block_bytes=1024)), unknown("superblock")
    assert need(block_bytes(filesystem(superblock=small))) == 1024
    assert need(block_bytes(filesystem(superblock=unread))) == 4096
    for nothing in (NO_USAGE, known(usage(block_bytes=0))):
        assert isinstance(block_bytes(filesystem(superblock=unread, usage=nothing)), Unknown)
    with pytest.raises(Undetermined):
        block_bytes_of(superblock(block_bytes=None))

"""Plan: the stripe that mke2fs and md make of an array."""

from __future__ import annotations

import pytest

from planned import disk_plan, plan


@pytest.mark.parametrize(
    ("level", "members", "words"),
    [
        ("raid0", 12, ("stride=128", "stripe_width=1536")),
        ("raid5", 4, ("stride=128", "stripe_width=384")),
        ("raid6", 6, ("stride=128", "stripe_width=512")),
        ("raid10", 4, ("stride=128", "stripe_width=256")),
        ("raid10", 5, ("stride=128", "stripe_width=640")),
        ("raid1", 2, ()),
    ],
)
def test_the_words_of_the_stripe(level: str, members: int, words: tuple[str, ...]) -> None:
    """As mke2fs 1.47.0 took them from the I/O sizes of real md arrays of these levels."""
    assert plan(level=level, members=members).stripe_words(4096) == words


def test_a_chunk_smaller_than_a_block_has_no_words() -> None:
    """A stride of no block is no stride."""
    assert plan(chunk_bytes=32 << 10).stripe_words(65536) == ()


def test_only_what_stripes_has_a_geometry() -> None:
    """The members of an array have no names yet."""
    geometry = plan(members=3).geometry
    assert geometry is not None
    assert geometry.members == ("disk0", "disk1", "disk2")
    assert plan(level="raid1", members=2).geometry is None
    assert disk_plan().geometry is None


def test_the_type_is_ext4_unless_it_is_said() -> None:
    """The option -t says it."""
    assert plan().fstype == "ext4"
    assert plan("-t ext3").fstype == "ext3"

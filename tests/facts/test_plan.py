"""Plan: the stripe that mke2fs and md make of an array."""

from __future__ import annotations

import pytest

from ext4audit.facts.plan import MkfsArguments
from support.hosts.plans import disk_plan, plan

GIVEN = MkfsArguments(
    (("-g", "32768"), ("-m", "0")), ("^metadata_csum", "bigalloc"), ("stripe-width=8",), ("-F",)
)


def test_words_are_the_command_line_without_the_manner() -> None:
    """They determine the filesystem; -O and -E are joined, because mke2fs takes -E once."""
    line = "-g 32768 -m 0 -O ^metadata_csum,bigalloc -E stripe-width=8"
    assert GIVEN.arguments() == tuple(line.split())
    assert MkfsArguments().arguments() == ()


def test_a_flag_is_set_where_it_stood() -> None:
    """A flag that was not given is added at the end."""
    assert GIVEN.with_value("-g", "32744").values == (("-g", "32744"), ("-m", "0"))
    assert GIVEN.with_value("-G", "16").values[-1] == ("-G", "16")
    assert GIVEN.without_value("-g").values == (("-m", "0"),)
    assert GIVEN.value("-g") == "32768"
    assert GIVEN.value("-G") is None


def test_extended_words_of_the_user_stay() -> None:
    """Both spellings of a name are treated as one, so that no number is given twice."""
    more = GIVEN.with_extended("stripe_width=16", "stride=4")
    assert more.extended == ("stripe-width=8", "stride=4")
    assert GIVEN.without_extended("stripe_width").extended == ()
    assert GIVEN.has_extended("stripe_width=1")


def test_features_of_the_user_come_last_and_win() -> None:
    """mke2fs uses the last setting of a feature."""
    assert GIVEN.with_features_first("^64bit").features == ("^64bit", "^metadata_csum", "bigalloc")


def test_each_word_can_be_left_out() -> None:
    """They are left out one at a time, named as the user typed them."""
    left = dict(GIVEN.shorter())
    assert list(left) == [
        "-E stripe-width=8",
        "-g 32768",
        "-m 0",
        "-O ^metadata_csum",
        "-O bigalloc",
    ]
    assert left["-O bigalloc"].features == ("^metadata_csum",)
    assert left["-E stripe-width=8"].arguments() == GIVEN.arguments()[:-2]


def test_both_numbers_of_a_stripe_are_left_out_first() -> None:
    """Leaving out only one would keep the other number of the same wrong stripe."""
    given = MkfsArguments(extended=("stride=16", "nodiscard", "stripe-width=48"))
    left = dict(given.shorter())
    assert list(left)[:2] == ["-E stride=16,stripe-width=48", "-E stride=16"]
    assert left["-E stride=16,stripe-width=48"].extended == ("nodiscard",)


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
    """mke2fs 1.47.0 took these from the I/O sizes of real md arrays of the levels."""
    assert plan(level=level, members=members).stripe_options(4096) == words


@pytest.mark.parametrize(("cluster_blocks", "width"), [(1, 24), (8, 24), (16, 48), (64, 192)])
def test_the_width_is_a_multiple_of_a_cluster(cluster_blocks: int, width: int) -> None:
    """Linux 6.18 turns off any other: "stripe (24) is not aligned with cluster size (16)"."""
    of = plan(level="raid5", members=4, chunk_bytes=32 << 10)
    assert of.stripe_options(4096, cluster_blocks) == ("stride=8", f"stripe_width={width}")


def test_a_chunk_smaller_than_a_block_has_no_words() -> None:
    """A stride of 0 blocks is not a stride."""
    assert plan(chunk_bytes=32 << 10).stripe_options(65536) == ()


def test_a_stride_that_its_field_cannot_hold_is_left_out() -> None:
    """mke2fs 1.47.0 stores 11264 for stride=76800, which is 300 MiB of 4 KiB, and 0 for 65536."""
    assert plan(chunk_bytes=65535 << 12).stripe_options(4096)[0] == "stride=65535"
    assert plan(chunk_bytes=256 << 20).stripe_options(4096) == ("stripe_width=786432",)


def test_only_what_stripes_has_a_geometry() -> None:
    """The members of an array have no names yet."""
    geometry = plan(members=3).geometry
    assert geometry is not None
    assert geometry.members == ("disk0", "disk1", "disk2")
    assert plan(level="raid1", members=2).geometry is None
    assert disk_plan().geometry is None


def test_the_type_is_ext4_unless_it_is_given() -> None:
    """The option -t sets it."""
    assert plan().fstype == "ext4"
    assert plan("-t ext3").fstype == "ext3"

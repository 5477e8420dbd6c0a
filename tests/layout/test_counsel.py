"""counsel: what helps a filesystem that exists, what does not, and at which price."""

from __future__ import annotations

from typing import Any

import pytest

from builders import layout, superblock
from ext4audit.facts.counsel import Advice, Counsel
from ext4audit.facts.layout import MetadataLayout, Spread
from ext4audit.layout.closed_form import predict_table
from ext4audit.layout.counsel import counsel, effectively
from ext4audit.layout.load import measure
from ext4audit.layout.map_of import map_of
from ext4audit.layout.mkfs_parameters import MkfsOptions, parameters
from ext4audit.records import replace
from real_mke2fs import TWELVE_DISKS_BLOCKS, stripe

TIB = 1 << 40


def told(members: int, size_bytes: int = TWELVE_DISKS_BLOCKS * 4096, **options: Any) -> Counsel:
    """Return the counsel for a filesystem on a RAID0 with chunks of 512 KiB."""
    block = parameters(size_bytes, MkfsOptions(**options))
    measured = measure(predict_table(block), block, map_of(stripe(members, 512)))
    return counsel(measured, block)


def rounded_advice(advice: Advice) -> Advice:
    """Return the advice with an evenness of two digits."""
    return replace(advice, evenness=round(advice.evenness, 2))


def test_the_counsel_for_the_default_on_twelve_disks() -> None:
    """The sentence, the options, the growth and the price of each."""
    said = told(12)
    assert said.sentence == "Effectively 3 of 12 disks serve this metadata."
    assert said.advice is not None
    assert rounded_advice(said.advice) == Advice(32744, 16, 1.0, is_default=False)
    assert said.growth is not None
    assert said.growth.members == 13
    assert said.curable == (
        "The bitmaps: -g 32744 -G 16 spreads them over all disks, evenness 1.00 instead of 0.25."
    )
    assert said.recreate == (
        "Back up, recreate the filesystem with -g 32744 -G 16, restore. "
        "Nothing smaller changes the groups."
    )
    assert said.in_place is not None
    assert said.in_place.startswith("Grow md127 from 12 to 13 members")
    assert "back up first" in said.in_place


def test_the_counsel_names_what_does_not_help() -> None:
    """Stride, flex_bg, tune2fs, resize2fs and a chunk of another power of two."""
    said = " ".join(told(12).no_help)
    for word in ("stride", "flex_bg", "tune2fs", "resize2fs", "chunk"):
        assert word in said
    assert "journal" in told(12).mitigations[0]


@pytest.mark.parametrize(
    ("size_tib", "words"),
    [
        (1.2, "Effectively 1.4 of 12 disks serve the descriptor table, and no -g moves it"),
        (24, "The descriptor table is spread over all disks because the filesystem is large"),
    ],
)
def test_the_descriptor_table_is_not_curable(size_tib: float, words: str) -> None:
    """One chunk of it for each TiB: it reaches all of 12 disks at 12 TiB, and needs no cure."""
    assert told(12, int(size_tib * TIB), group_option=32744).incurable.startswith(words)


def test_from_which_size_the_descriptor_table_is_even() -> None:
    """12 chunks of 8192 descriptors, each of 128 MiB: 12 TiB."""
    assert told(12).incurable.endswith("reaches all disks from 12 TiB.")


def test_an_even_layout_needs_no_counsel() -> None:
    """The default is kept on an odd number of disks, and nothing is to be done."""
    said = told(5)
    assert said.is_even
    assert said.advice is not None
    assert rounded_advice(said.advice) == Advice(32768, 16, 1.0, is_default=True)
    assert (said.recreate, said.in_place, said.growth) == (None, None, None)
    assert (said.no_help, said.mitigations) == ((), ())
    assert said.curable == "The bitmaps are spread over all disks."


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"chunk_bytes": 2048}, "No group size", id="chunk smaller than a block"),
        pytest.param({"blocks_per_group": 1 << 40}, "No group size", id="an invented group size"),
    ],
)
def test_what_cannot_be_advised_is_said(changes: dict[str, int], says: str) -> None:
    """A made-up superblock must neither crash nor run for hours."""
    said = counsel(layout([100, 0], **changes), superblock())
    assert said.curable.startswith(says)
    assert (said.advice, said.growth, said.recreate) == (None, None, None)


def test_without_a_stripe_there_is_no_counsel() -> None:
    """One disk has nothing to spread over."""
    bare: MetadataLayout = replace(layout([1]), geometry=None)
    with pytest.raises(ValueError, match="nothing stripes"):
        counsel(bare, superblock())


@pytest.mark.parametrize(
    ("loads", "words"),
    [
        ((1, 0, 0), "Effectively 1 of 3 disks serves"),
        ((3, 1, 0), "Effectively 1.6 of 3 disks serve"),
        ((1, 1, 1), "Effectively 3 of 3 disks serve"),
    ],
)
def test_the_sentence_counts_disks(loads: tuple[int, ...], words: str) -> None:
    """One digit, and the verb that goes with it."""
    assert effectively(Spread(loads)) == words

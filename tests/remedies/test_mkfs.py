"""Recreating a filesystem with parameters that spread its bitmaps, as exact commands."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.layout import MetadataLayout
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Disruption, Phase, Remedy
from ext4audit.layout.advice import advice_for
from ext4audit.remedies.mkfs import even_out_bitmaps
from support.builders import layout, superblock

HOT = (6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0)


def striped(members: int = 12, **geometry: Any) -> MetadataLayout:
    """Build the layout of mke2fs's defaults on an array with chunks of 512 KiB."""
    found = layout(HOT[:members])
    assert found.geometry is not None
    return found._replace(geometry=found.geometry._replace(**geometry))


def remedies(of: MetadataLayout, made: Superblock | None = None) -> list[Remedy]:
    """Return the remedies for /dev/md0."""
    return list(even_out_bitmaps("/dev/md0", of, made or superblock()))


def recreated(of: MetadataLayout, made: Superblock | None = None) -> list[str]:
    """Return the commands of the remedy that recreates the filesystem."""
    return [s.command for r in remedies(of, made) if r.destructive for s in r.steps]


@pytest.mark.parametrize(
    ("geometry", "columns"),
    [
        ({}, 12),
        ({"level": "raid10", "layout": None}, 6),
        ({"level": "raid10", "layout": 0x102}, 6),
        ({"level": "raid10", "layout": 0x103}, 4),
    ],
)
def test_the_stripe_width_counts_members_with_data(geometry: dict[str, Any], columns: int) -> None:
    """A RAID10 has as many as its near copies leave; two are mdadm's default."""
    command, *_ = recreated(striped(**geometry))
    stride = 0 if " -G 1 " in command else 128
    assert command.endswith(f"-E stride={stride},stripe_width={128 * columns} /dev/md0")


def test_the_check_reads_the_size_of_groups() -> None:
    """mke2fs may lower it silently."""
    remedy, *_ = remedies(striped())
    assert (remedy.disruption, remedy.destructive) == (Disruption.RECREATE, True)
    assert [step.phase for step in remedy.steps] == [Phase.PERSISTENT, Phase.VERIFY]
    assert remedy.steps[1].command == (
        "dumpe2fs -h /dev/md0 2>/dev/null | grep -Eq '^Blocks per group: +32744$'"
    )


def test_a_name_that_no_shell_takes_has_no_command() -> None:
    """The advice stands."""
    (remedy, *_) = even_out_bitmaps("/dev/m\n", striped(), superblock())
    assert remedy.steps == ()
    assert "DESTROYS all data" in remedy.summary


def test_without_a_stripe_there_is_no_remedy() -> None:
    """One disk has nothing to spread over."""
    assert remedies(striped()._replace(geometry=None)) == []


@pytest.mark.parametrize(
    ("more_blocks", "more_flex", "stride", "offered"),
    [(0, 0, 0, False), (0, 0, 16, False), (8, 0, 0, True), (0, 16, 0, True)],
)
def test_what_is_as_advised_is_not_recreated(
    more_blocks: int, more_flex: int, stride: int, *, offered: bool
) -> None:
    """Groups and packing must both be as advised; a stride moves nothing that is packed."""
    made = superblock(stride_blocks=stride)
    advice = advice_for(striped(), made)
    assert advice is not None
    as_advised = striped()._replace(
        blocks_per_group=advice.blocks_per_group_option + more_blocks,
        flex_bg_groups=advice.flex_bg_groups + more_flex,
    )
    assert bool(recreated(as_advised, made)) is offered


def test_growth_is_reported_with_the_width_that_it_makes() -> None:
    """Blocks of all members: 13 chunks of 128."""
    (grow,) = [remedy for remedy in remedies(striped()) if not remedy.destructive]
    assert grow.summary == "Grow the array from 12 to 13 members with mdadm, online."
    assert grow.disruption is Disruption.ONLINE
    assert "Then set the stripe width of the superblock to 1664 blocks" in (grow.trade_off or "")

"""Small files on twelve disks: the disks that LAY001 names receive the most writes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.conftest import Guest
from lab.support.scenario import JsonObject

LAYOUTS = {
    "default": ([6368, 0, 0, 0, 6400, 0, 0, 0, 6388, 32, 0, 0], "fail"),
    "-g 32744": ([1572, *[1600] * 8, 1632, 1600, 1600], "pass"),
}


def hottest(counts: list[int], number: int) -> set[int]:
    """Return the indices of the highest counts."""
    return set(sorted(range(len(counts)), key=counts.__getitem__)[-number:])


def skew(counts: list[int]) -> float:
    """Return the ratio of the highest count to the mean."""
    return max(counts) * len(counts) / sum(counts)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_bitmaps_lie_where_the_group_descriptors_say(guest: Guest, name: str) -> None:
    """The default puts all but a shifted 32 on three of twelve disks; -g 32744 evenly on all."""
    found: JsonObject = guest["hotspot"][name]
    assert found["slots"] == found["members"], "the members were not in the order of creation"
    assert (found["bitmaps"], found["outcome"]) == LAYOUTS[name]


def test_the_disks_that_hold_the_bitmaps_get_the_writes(guest: Guest) -> None:
    """The three disks with more bitmaps than the mean are the three written most often.

    Each receives more than five times the writes of any other.
    """
    found = guest["hotspot"]["default"]
    bitmaps, writes = found["bitmaps"], found["writes"]
    predicted = {slot for slot, count in enumerate(bitmaps) if count > sum(bitmaps) / len(bitmaps)}
    assert predicted == {0, 4, 8}
    assert hottest(writes, 3) == predicted
    others = [count for slot, count in enumerate(writes) if slot not in predicted]
    assert min(writes[slot] for slot in predicted) > 5 * max(others)


def test_groups_of_32744_blocks_spread_the_writes(guest: Guest) -> None:
    """With -g 32744 all members but the first are written equally, and max/mean is halved.

    The first holds the superblock and group descriptors, which no -g moves.
    """
    default, spread = (guest["hotspot"][name]["writes"] for name in LAYOUTS)
    for name, counts in zip(LAYOUTS, (default, spread), strict=True):
        share = sum(sorted(counts)[-3:]) / sum(counts)
        print(f"\n{name}: writes a member {counts}, max/mean {skew(counts):.2f}, ", end="")
        print(f"without the first {skew(counts[1:]):.2f}; the top three get {share:.0%}")
    assert skew(default) > 3.4
    assert skew(spread) < 0.65 * skew(default)
    assert skew(default[1:]) > 3.4
    assert skew(spread[1:]) < 1.5


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_modelled_churn_is_within_5_points_of_the_writes(guest: Guest, name: str) -> None:
    """Each member's share of all writes is predicted, including those of the journal."""
    found = guest["hotspot"][name]
    modelled, written = shares(found["churn"]), shares(found["writes"])
    errors = [abs(one - other) for one, other in zip(modelled, written, strict=True)]
    text = " ".join(f"{one:.1%}/{other:.1%}" for one, other in zip(modelled, written, strict=True))
    print(f"\n{name}: modelled/written {text}; largest difference {max(errors):.1%}")
    assert max(errors) < 0.05


@pytest.mark.parametrize("name", ["default", "-g 32744", "-g 32744, meta_bg"])
def test_the_touch_model_predicts_the_shares_of_the_writes(guest: Guest, name: str) -> None:
    """When small files are replaced, each member's predicted share is within 6 percentage points.

    The journal, directories and file data are written to all members equally, whatever the
    layout. Their volume is measured on the members that hold no metadata with the defaults, and
    subtracted first.
    """
    churn = guest["hotspot_churn"]
    found, flat = churn[name], flat_writes(churn["default"])
    predicted = shares(found["touches"])
    written = shares([count - flat for count in found["writes"]])
    errors = [abs(one - other) for one, other in zip(predicted, written, strict=True)]
    text = " ".join(f"{one:.1%}/{other:.1%}" for one, other in zip(predicted, written, strict=True))
    print(f"\n{name}: predicted/written {text}; largest error {max(errors):.1%}, flat {flat:.0f}")
    assert max(errors) < 0.06


def flat_writes(default: JsonObject) -> float:
    """Return the mean writes of the eight members (of twelve) that hold no metadata."""
    touches, writes = default["touches"], default["writes"]
    bare: list[int] = [
        count for slot, count in enumerate(writes) if touches[slot] < sum(touches) / 1000
    ]
    assert len(bare) == 8
    assert max(bare) < 1.2 * min(bare)
    return sum(bare) / len(bare)


def shares(counts: Sequence[float]) -> list[float]:
    """Return each count as a fraction of the total."""
    return [count / sum(counts) for count in counts]

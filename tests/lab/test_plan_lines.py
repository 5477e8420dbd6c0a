"""The lines of a plan on a real array of twelve: what the plan predicted is what they make."""

from __future__ import annotations

from lab.conftest import Guest


def test_a_plan_predicts_the_real_array(guest: Guest) -> None:
    """As it was planned, LAY001 fails on both; as it was corrected, it passes on both.

    Each member holds the bitmaps that were predicted, to the last block.
    """
    found = guest["plan_md_raid0"]
    assert found["basis"] == "simulated"
    assert found["changes"] == ["Create it with -g 32744 -G 16"]
    assert found["before"] == found["planned"]
    assert found["after"] == found["corrected"]
    assert (found["before"]["outcome"], found["after"]["outcome"]) == ("fail", "pass")

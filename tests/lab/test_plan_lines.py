"""The mkfs lines of a plan, run on a real array of twelve: the result is as predicted."""

from __future__ import annotations

from lab.conftest import Guest


def test_a_plan_predicts_the_real_array(guest: Guest) -> None:
    """With the planned line LAY001 fails in both; with the corrected one it passes in both.

    Each member holds exactly the predicted number of bitmaps.
    """
    found = guest["plan_md_raid0"]
    assert found["basis"] == "simulated"
    assert found["changes"] == ["Create it with -g 32744 -G 16"]
    assert found["before"] == found["planned"]
    assert found["after"] == found["corrected"]
    assert (found["before"]["outcome"], found["after"]["outcome"]) == ("fail", "pass")

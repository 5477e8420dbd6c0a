"""A mounted filesystem that is smaller than its device can be grown on every kernel."""

from __future__ import annotations

import pytest

from lab.conftest import Guest


@pytest.mark.parametrize("scenario", ["cap005_grow_online", "cap005_grow_clusters_online"])
def test_growing_online_cures_and_lasts(any_guest: Guest, scenario: str) -> None:
    """The printed check passes only once the device is filled, and the next mount has the space."""
    found = any_guest[scenario]
    verdicts = found["before"], found["after"], found["persisted"]
    assert verdicts == ("fail low", "pass", "pass")
    assert found["disruption"] == "online"
    assert [command.partition(":")[0] for command in found["commands"]] == ["immediate", "verify"]
    assert "Checking group summary information" in found["fsck"]

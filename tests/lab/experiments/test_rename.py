"""The duration of a stalled rename on a disk of 30 MiB/s, against PRF002's estimate."""

from __future__ import annotations

import pytest

from lab.conftest import Guest

MIB = 1 << 20
MODES = ("default", "noauto_da_alloc", "wbt off")


@pytest.fixture(scope="module", autouse=True)
def printed_measurement(guest: Guest) -> None:
    """Print the measurement, for readers of pytest -s."""
    for name in MODES:
        found = guest["rename_stall"][name]
        print(
            f"\n{name}: rename of {found['dirty_bytes'] // MIB} MiB dirty took "
            f"{found['seconds']} s; the queue takes {found['queue_bytes'][0] // MIB} MiB, "
            f"estimate {found['estimate_seconds']} s",
            end="",
        )
    print()


def test_the_rename_waits_for_nearly_all_of_the_file(guest: Guest) -> None:
    """With writeback throttling the rename takes what PRF002 estimates, within a factor of 3."""
    found = guest["rename_stall"]["default"]
    assert found["dirty_bytes"] > 115 * MIB, "it was written before the rename"
    assert (found["outcome"], found["severities"]) == ("fail", ["info"])
    assert found["estimate_seconds"] > 3
    assert found["estimate_seconds"] / 3 < found["seconds"] < found["estimate_seconds"] * 3


def test_without_throttling_the_queue_takes_the_file(guest: Guest) -> None:
    """With wbt_lat_usec 0 the file fits into the queue: estimate and duration are near zero."""
    found = guest["rename_stall"]["wbt off"]
    assert found["dirty_bytes"] > 115 * MIB, "it was written before the rename"
    assert found["wbt_lat_usec"] == [0]
    assert found["estimate_seconds"] == 0
    assert found["seconds"] < 1


def test_without_auto_da_alloc_nothing_is_submitted(guest: Guest) -> None:
    """With noauto_da_alloc the rule passes, and the rename returns at once."""
    found = guest["rename_stall"]["noauto_da_alloc"]
    assert found["dirty_bytes"] > 115 * MIB, "it was written before the rename"
    assert (found["outcome"], found["severities"]) == ("pass", [])
    assert found["seconds"] < 0.5

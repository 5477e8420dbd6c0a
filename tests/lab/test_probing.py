"""Each probe distinguishes a bad disk, option or layout from a good one."""

from __future__ import annotations

import pytest

from lab.conftest import Guest
from lab.support.scenario import JsonObject


def result(found: JsonObject, probe: str) -> JsonObject:
    """Return the result of a probe, and print it for readers of pytest -s."""
    one: JsonObject = found["results"][probe]
    print(f"\n{one['rule']} {one['verdict']}: {one['why']}\n  {one['measured']}")
    return one


@pytest.mark.parametrize(
    ("case", "probe", "verdict", "code"),
    [
        ("barrier", "fsync", "healthy", 0),
        ("nobarrier", "fsync", "affected", 1),
        ("write through", "fsync", "healthy", 0),
        ("noauto_da_alloc", "rename", "healthy", 0),
        ("nodelalloc", "rename", "healthy", 0),
        ("extents", "extents", "healthy", 0),
        ("extents, nodelalloc", "extents", "healthy", 0),
    ],
)
def test_options(any_guest: Guest, case: str, probe: str, verdict: str, code: int) -> None:
    """The option decides the result on every kernel of the lab; all have the fix of PRF001."""
    found = any_guest["probe_options"][case]
    assert result(found, probe)["verdict"] == verdict
    assert found["exit_code"] == code


def test_flushes_are_counted(any_guest: Guest) -> None:
    """A commit with barriers flushes twice on a disk without FUA, and never without barriers."""
    found = any_guest["probe_options"]

    def flushes(case: str) -> float:
        measured = result(found[case], "fsync")["measured"]
        return float(next(v for k, v in measured.items() if k.startswith("flushes_per_fsync")))

    assert 1.9 <= flushes("barrier") <= 2.1
    assert flushes("nobarrier") == 0
    assert flushes("write through") == 0


@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        ("spare", "healthy"),
        ("mq, barrier", "healthy"),
        ("mq, nobarrier", "affected"),
        ("bio, barrier", "healthy"),
        ("bio, nobarrier", "affected"),
    ],
)
def test_a_spare_or_an_idle_path_is_not_flushed(guest: Guest, case: str, verdict: str) -> None:
    """Only what is written has to be flushed, and either the map or a path counts that."""
    assert result(guest["probe_idle_disks"][case], "fsync")["verdict"] == verdict


def test_a_throttled_disk_stalls_the_rename(guest: Guest) -> None:
    """Beside a reader the rename waits for most of the file at 30 MiB/s."""
    found = guest["probe_rename"]
    slow = result(found["slow"], "rename")
    assert slow["verdict"] == "affected"
    assert slow["measured"]["rename_reading_seconds"] > 0.5
    assert 20 < slow["measured"]["written_reading_mib_per_second"] < 40
    assert result(found["slow, noauto_da_alloc"], "rename")["verdict"] == "healthy"


def test_the_members_that_are_predicted_are_written(guest: Guest) -> None:
    """Three of twelve disks hold the bitmaps by default; with -g 32744 all of them do."""
    found = guest["probe_members"]
    hot, even = (result(found[case], "members") for case in ("default", "-g 32744"))
    assert (hot["verdict"], even["verdict"]) == ("affected", "healthy")
    busiest = sorted(hot["members"], key=lambda member: -member["writes"])[:3]
    predicted = sorted(hot["members"], key=lambda member: -member["predicted_share"])[:3]
    assert {member["name"] for member in busiest} == {member["name"] for member in predicted}


def test_an_observation_shows_missing_flushes(guest: Guest) -> None:
    """Commits without any flush show that barriers are off, and nothing has to be written."""
    found = guest["probe_observe"]
    assert result(found["barrier"], "fsync")["verdict"] == "healthy"
    assert result(found["nobarrier"], "fsync")["verdict"] == "affected"

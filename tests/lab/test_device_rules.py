"""Tests that need real devices: an NVMe timeout, a thin pool that fills, an external journal."""

from __future__ import annotations

from lab.conftest import Guest


def test_hlt008_is_cured_now_and_at_every_start(guest: Guest) -> None:
    """The printed commands raise the timeout; the udev rule does so for a disk that appears."""
    found = guest["hlt008_network_disk_timeout"]
    assert {name: found[name] for name in ("before", "after", "persisted", "rolled_back")} == {
        "before": "fail medium",
        "after": "pass",
        "persisted": "pass",
        "rolled_back": "fail medium",
    }
    assert found["knob_restored"]


def test_cap008_sees_a_pool_that_fills(guest: Guest) -> None:
    """The df command shows 150 MiB, no matter how much space the pool of 40 MiB has left."""
    found = guest["cap008_thin_pool"]
    assert found["empty"] == "pass"
    assert found["nearly"] == "fail medium"
    assert found["full"] == "fail critical"
    assert "no space left" in found["message"] or "read-only" in found["message"]


def test_dur001_judges_the_journals_own_disk(guest: Guest) -> None:
    """The filesystem's disk has no volatile cache, but the journal's disk has one."""
    found = guest["dur001_external_journal"]
    assert (found["inside"], found["outside"]) == ("fail info", "fail critical")


def test_lay009_sees_partitions_that_overlap(guest: Guest) -> None:
    """The kernel accepts such a table; the guest's other filesystems are not involved."""
    found = guest["lay009_overlapping_partitions"]
    assert found["verdicts"] == ["fail critical", "fail critical"]
    assert set(found["others"]) <= {"pass", "not_applicable"}

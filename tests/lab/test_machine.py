"""The lab's machine: the intended kernel boots, and disks report their caches."""

from __future__ import annotations

from lab.conftest import Guest


def test_the_guest_runs_the_kernel_that_was_unpacked(any_guest: Guest) -> None:
    """The guest boots the kernel of the era, as root, with disks of every kind."""
    found = any_guest["the_machine"]
    assert (found["release"], found["uid"]) == (any_guest.release, 0)
    assert found["caches"] == {
        "wide": "write back",
        "through": "write through",
        "nvme": "write back",
    }


def test_the_program_finds_what_the_mount_table_hides(any_guest: Guest) -> None:
    """`ext4audit scan -f json` in the guest: nobarrier in the superblock, and a volatile cache."""
    report = any_guest["the_program"]
    (fs,) = report["filesystems"]
    assert (fs["options"]["mount_table"], fs["options"]["hidden"]) == (["rw"], ["nobarrier"])
    (verdict,) = [v for v in report["verdicts"] if v["rule"] == "DUR001"]
    assert [finding["severity"] for finding in verdict["findings"]] == ["critical"]
    assert report["complete"] is True

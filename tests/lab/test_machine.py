"""The lab's machine: the kernel that was meant, and disks that tell their caches."""

from __future__ import annotations

from lab.conftest import Guest


def test_the_guest_runs_the_kernel_that_was_unpacked(any_guest: Guest) -> None:
    """What boots is the kernel of the era, as root, with disks of every kind."""
    found = any_guest["the_machine"]
    assert (found["release"], found["uid"]) == (any_guest.release, 0)
    assert found["caches"] == {
        "wide": "write back",
        "through": "write through",
        "nvme": "write back",
    }

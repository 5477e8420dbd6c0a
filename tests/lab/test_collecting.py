"""The shell collector captures the same evidence of a stack as a live scan."""

from __future__ import annotations

from lab.conftest import Guest


def test_every_shell_captures_a_stack_as_the_live_source_sees_it(any_guest: Guest) -> None:
    """LUKS on a partition of a RAID0: each answer is equal, under dash, bash and busybox."""
    assert any_guest["the_collector"] == {"dash": {}, "bash": {}, "busybox sh": {}}


def test_every_kind_of_stack_is_captured(guest: Guest) -> None:
    """Arrays, one of them degraded, logical volumes, device mapper and NVMe."""
    found = guest["the_collector_on_stacks"]
    assert {kind: each["dash"] for kind, each in found.items()} == {
        "raid10": {},
        "degraded raid5": {},
        "lvm": {},
        "dm-linear": {},
        "nvme": {},
    }

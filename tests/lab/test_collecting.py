"""The shell collector captures the same evidence of a stack as a live scan."""

from __future__ import annotations

from lab.conftest import Guest


def test_every_shell_captures_a_stack_as_the_live_source_sees_it(any_guest: Guest) -> None:
    """LUKS on a partition of a RAID0: each answer is equal, under dash, bash and busybox."""
    assert any_guest["the_collector"] == {"dash": {}, "bash": {}, "busybox sh": {}}


def test_a_degraded_array_is_captured(guest: Guest) -> None:
    """A RAID5 of which one member is missing."""
    assert guest["the_collector_on_a_degraded_array"] == {"dash": {}}

"""Synced files that a crash takes from a thin volume without barriers."""

from __future__ import annotations

from lab.conftest import Guest


def test_synced_files_need_the_flush_of_a_thin_volume(guest: Guest) -> None:
    """The pool keeps new mappings in memory until a flush, whatever cache the disk has."""
    found = guest["synced_files_on_a_thin_volume"]
    print(f"\n{found}")
    assert found["barrier"] == {"lost": 0, "severities": []}
    assert found["nobarrier"]["lost"] > 0
    assert found["nobarrier"]["severities"] == ["critical"]

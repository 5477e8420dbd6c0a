"""What nobarrier takes away: the flushes that reach the disk, counted at the block layer."""

from __future__ import annotations

import pytest

from lab.conftest import Guest

FSYNCS = 100


@pytest.mark.parametrize(
    ("serial", "option", "flushes", "graded"),
    [
        # Before the commit block and after it: virtio has no FUA, which would save the second.
        ("wide", "barrier", range(2 * FSYNCS, 2 * FSYNCS + 5), []),
        ("wide", "nobarrier", range(1), [("critical", "confirmed")]),
        ("through", "barrier", range(1), []),
        ("through", "nobarrier", range(1), [("info", "confirmed")]),
    ],
)
def test_flushes_are_lost_only_where_there_were_some(
    guest: Guest, serial: str, option: str, flushes: range, graded: list[tuple[str, str]]
) -> None:
    """Two flushes an fsync reach a write-back disk, none with nobarrier: DUR001 is critical.

    A write-through disk gets none either way: there it is info.
    """
    found = guest["flushes_by_barrier"][serial][option]
    print(f"\n{serial}, {option}: {found['flushes']} flushes in {found['fsyncs']} fsyncs, {graded}")
    assert found["fsyncs"] == FSYNCS
    assert found["flushes"] in flushes
    assert found["outcome"] == ("fail" if graded else "pass")
    assert list(zip(found["severities"], found["confidences"], strict=True)) == graded

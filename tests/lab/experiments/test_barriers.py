"""Cache flushes that nobarrier suppresses, counted at the block layer."""

from __future__ import annotations

import pytest

from lab.conftest import Guest

FSYNCS = 100


@pytest.mark.parametrize(
    ("serial", "option", "flushes", "graded"),
    [
        # One before and one after the commit block: virtio has no FUA, which would save the second.
        ("wide", "barrier", range(2 * FSYNCS, 2 * FSYNCS + 5), []),
        ("wide", "nobarrier", range(1), [("critical", "confirmed")]),
        ("through", "barrier", range(1), []),
        ("through", "nobarrier", range(1), [("info", "confirmed")]),
    ],
)
def test_flushes_are_lost_only_where_there_were_some(
    guest: Guest, serial: str, option: str, flushes: range, graded: list[tuple[str, str]]
) -> None:
    """An fsync flushes a write-back disk twice, with nobarrier never: DUR001 is critical.

    A write-through disk is never flushed, with or without barriers: there DUR001 is info.
    """
    found = guest["flushes_by_barrier"][serial][option]
    print(f"\n{serial}, {option}: {found['flushes']} flushes in {found['fsyncs']} fsyncs, {graded}")
    assert found["fsyncs"] == FSYNCS
    assert found["flushes"] in flushes
    assert found["outcome"] == ("fail" if graded else "pass")
    assert list(zip(found["severities"], found["confidences"], strict=True)) == graded

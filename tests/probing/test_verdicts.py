"""The verdict of each probe on its measurements."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ext4audit.facts import MIB
from ext4audit.facts.measurement import MemberFigures
from ext4audit.probing import extents, fsync, members, rename
from ext4audit.probing.bench import percentile
from ext4audit.probing.counters import Disk
from ext4audit.probing.extents import DELALLOC, UNWRITTEN, Extent
from ext4audit.probing.fsync import Flushes
from ext4audit.probing.members import Churn
from ext4audit.probing.rename import Stall

BACK, THROUGH, UNSEEN = (
    Disk("vda", "write back"),
    Disk("vdb", "write through"),
    Disk("vdc", None),
)


@pytest.mark.parametrize(
    ("flushes", "fsyncs", "barrier", "verdict", "why"),
    [
        ([Flushes(BACK, 2.0, 0, 900)], 100, "barrier", "healthy", "each fsync flushed vda"),
        ([Flushes(UNSEEN, 1.0, 0, 900)], 100, "barrier", "healthy", "each fsync flushed vdc"),
        ([Flushes(BACK, 0.0, 0, 900)], 100, "nobarrier", "affected", "100 fsyncs flushed nothing"),
        ([Flushes(UNSEEN, 0.0, 0, 900)], 100, "", "affected", "vdc"),
        (
            [Flushes(BACK, 2.0, 0, 900), Flushes(UNSEEN, 0.0, 0, 900)],
            100,
            "barrier",
            "affected",
            "on vdc",
        ),
        ([Flushes(BACK, 1.5, 1.0, 900)], 100, "barrier", "inconclusive", "other programs"),
        ([Flushes(BACK, 0.5, 0, 900)], 100, "barrier", "inconclusive", "other programs"),
        ([Flushes(BACK, 2.0, 0, 900)], 100, "nobarrier", "inconclusive", "by other programs"),
        ([Flushes(THROUGH, 0.0, 0, 900)], 100, "barrier", "healthy", "write through"),
        ([Flushes(THROUGH, 0.0, 0, 900)], 100, "nobarrier", "inconclusive", "no flush is needed"),
        ([Flushes(THROUGH, 0.0, 0, 900)], 100, "", "inconclusive", "no flush is needed"),
        ([Flushes(BACK, None, 0, 900)], 100, "barrier", "inconclusive", "Linux 5.5"),
        ([], 100, "barrier", "inconclusive", "Linux 5.5"),
        ([Flushes(THROUGH, None, 0, 900)], 100, "barrier", "healthy", "write through"),
        (
            [Flushes(THROUGH, 0.0, 0, 900), Flushes(UNSEEN, None, 0, 900)],
            100,
            "barrier",
            "inconclusive",
            "Linux 5.5",
        ),
        (
            [Flushes(BACK, 2.0, 0, 900), Flushes(UNSEEN, None, 0, 900)],
            100,
            "barrier",
            "inconclusive",
            "each fsync flushed vda; no flushes are counted by vdc",
        ),
        (
            [Flushes(BACK, 0.0, 0, 900), Flushes(UNSEEN, None, 0, 900)],
            100,
            "nobarrier",
            "affected",
            "on vda",
        ),
        ([Flushes(BACK, 2.0, 0, 900)], 10, "barrier", "healthy", "each fsync flushed vda"),
        ([Flushes(BACK, 0.0, 0, 900)], 9, "barrier", "inconclusive", "only 9 fsyncs"),
    ],
)
def test_flushes(
    flushes: Sequence[Flushes], fsyncs: int, barrier: str, verdict: str, why: str
) -> None:
    """No flush on a volatile cache is the defect, one for each fsync is healthy."""
    found = fsync.judge(flushes, fsyncs, barrier)
    assert found.verdict.value == verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("dry_writes", "barrier", "verdict", "why"),
    [
        (0, "barrier", "healthy", "each fsync flushed vda"),
        (9, "barrier", "healthy", "each fsync flushed vda"),
        (10, "barrier", "affected", "flushed nothing on vdc"),
    ],
)
def test_a_disk_without_writes_needs_no_flush(
    dry_writes: int, barrier: str, verdict: str, why: str
) -> None:
    """A spare or a failed member of an array gets neither; its superblock may be written."""
    found = fsync.judge(
        [Flushes(BACK, 2.0, 0, 900), Flushes(UNSEEN, 0, 0, dry_writes)], 100, barrier
    )
    assert found.verdict.value == verdict
    assert why in found.why


def test_without_writes_nothing_is_known() -> None:
    """A device that counts no writes may count no flushes either."""
    found = fsync.judge([Flushes(BACK, 0, 0, 9)], 100, "barrier")
    assert (found.verdict.value, found.why) == (
        "inconclusive",
        "vda completed fewer than 10 writes",
    )


def stall(
    seconds: float, rest: float, *, delayed: int = 96, kept: int = 0, load: str = "idle"
) -> Stall:
    """Return a rename of 96 MiB; `delayed` and `kept` are in MiB."""
    return Stall(load, 96 * MIB, seconds, rest, delayed * MIB, kept * MIB)


@pytest.mark.parametrize(
    ("stalls", "largest_mib", "verdict", "why"),
    [
        ([stall(0.01, 0.01)], 1000, "healthy", "~0.2 s for 1000 MiB"),
        ([stall(0.1, 0.1)], 4000, "affected", "at this speed ~8.2 s for 4000 MiB"),
        ([stall(2.5, 0.1)], 100, "affected", "waited 2.50 s (idle)"),
        ([stall(0.1, 0.1), stall(3, 0.1, load="reading")], None, "affected", "(reading)"),
        ([stall(0.1, 0.1)], None, "inconclusive", "is unknown"),
        ([stall(0.001, 0.2)], 4000, "inconclusive", "the queue took the whole file"),
        ([stall(0.001, 0.2)], 90, "healthy", "~0.0 s for 90 MiB"),
        ([stall(0, 0.2, kept=96)] * 2, 4000, "healthy", "submitted no data"),
        ([stall(0, 0.2, kept=96), stall(3, 0.2)], 4000, "affected", "3.00 s"),
        ([stall(0, 0.2, delayed=0)] * 2, 4000, "healthy", "delayed allocation is off"),
        ([stall(0, 0.2, delayed=20)], 4000, "inconclusive", "wrote the file before"),
        ([stall(0, 0.2, delayed=0), stall(0, 0.2)], 4000, "inconclusive", "wrote the file before"),
    ],
)
def test_renames(stalls: Sequence[Stall], largest_mib: int | None, verdict: str, why: str) -> None:
    """The expected wait for a larger file, at the measured speed, decides."""
    found = rename.judge(stalls, None if largest_mib is None else largest_mib * MIB)
    assert found.verdict.value == verdict
    assert why in found.why


def pages(count: int, flags: int = 0) -> tuple[Extent, ...]:
    """Return extents of one page each."""
    return tuple(Extent(n * 4096, 4096, flags) for n in range(count))


@pytest.mark.parametrize(
    ("before", "after", "verdict", "why"),
    [
        (pages(1, DELALLOC), pages(1), "healthy", "1.0 extents"),
        (pages(256, UNWRITTEN), pages(2), "affected", "every page"),
        (pages(64, UNWRITTEN), pages(2), "affected", "64 unwritten extents"),
        (pages(63, UNWRITTEN), pages(2), "healthy", "63.0 extents"),
        (pages(256), pages(2), "inconclusive", "not unwritten"),
        (pages(256, UNWRITTEN), pages(200), "inconclusive", "fragmented"),
        (pages(1, DELALLOC), pages(100), "inconclusive", "fragmented"),
        ((), pages(1), "inconclusive", "no extents"),
    ],
)
def test_extents(
    before: tuple[Extent, ...], after: tuple[Extent, ...], verdict: str, why: str
) -> None:
    """Many unwritten extents that writeback joins are the defect; fragmentation stays."""
    found = extents.judge(extents.Split(before, after, MIB))
    assert found.verdict.value == verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("writes", "others", "predicted", "verdict", "why"),
    [
        ((100, 110, 90, 100), 0, 1.0, "healthy", "the busiest member got 28%"),
        ((1076, 84, 27, 29, 835, 29, 29, 29, 831, 39, 28, 26), 0, 0.25, "affected", "35%"),
        ((1076, 84, 27, 29), 0, 1.0, "inconclusive", "although the bitmaps are distributed evenly"),
        ((100, 110, 90, 100), 100, 1.0, "inconclusive", "other programs"),
        ((19, 19), 0, 1.0, "inconclusive", "too few"),
        ((1000,), 0, 1.0, "inconclusive", "1 members"),
        ((), 0, 1.0, "inconclusive", "0 members"),
    ],
)
def test_members(
    writes: tuple[int, ...], others: float, predicted: float, verdict: str, why: str
) -> None:
    """Uneven writes are the defect if the layout predicts them."""
    figures = tuple(
        MemberFigures(f"vd{n}", count, count * 4096, 0, 1.0, None) for n, count in enumerate(writes)
    )
    found = members.judge(Churn(figures, others), predicted)
    assert found.verdict.value == verdict
    assert why in found.why


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([3], 99, 3), ([4, 1, 3, 2], 50, 2), (list(range(1, 101)), 99, 99)],
)
def test_percentiles(values: list[float], percent: float, expected: float | None) -> None:
    """The nearest rank is used, so that each percentile is a measured value."""
    assert percentile(values, percent) == expected

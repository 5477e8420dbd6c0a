from __future__ import annotations

import pytest

from ext4audit.probing.counters import BlockStat, Disk
from ext4audit.probing.observing import (
    Journal,
    judge_commits,
    parse_journal,
)

INFO = """100 transactions (90 requested), each up to 2730 blocks
average:
  0ms waiting for transaction
  4082us average transaction commit time
  2 handles per transaction
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INFO, Journal(100, 90, 4.082)),
        ("0 transactions (0 requested), each up to 2730 blocks\n", Journal(0, 0, None)),
        ("", None),
        ("garbage", None),
    ],
)
def test_the_journal_of_the_kernel(text: str, expected: Journal | None) -> None:
    """The averages are left out if nothing was committed (fs/jbd2/journal.c)."""
    assert parse_journal(text) == expected


def test_a_disk_that_counts_no_flushes_proves_no_health() -> None:
    """The other disk of the array was flushed; what it did is not known."""
    disks = (Disk("vda", "write back"), Disk("pmem0", "write back"))
    stats = {"vda": stat(200), "pmem0": stat(None)}
    found = judge_commits(Journal(100, 100, None), stats, disks, "barrier")
    assert found.verdict.value == "inconclusive"


def stat(flushes: int | None) -> BlockStat:
    """Return counters of a disk that is written."""
    return BlockStat(0, 900, 0, 0, flushes, None)


@pytest.mark.parametrize(
    ("commits", "flushes", "cache", "barrier", "verdict"),
    [
        (100, 200, "write back", "barrier", "healthy"),
        (100, 89, "write back", "barrier", "inconclusive"),
        (100, 200, "write back", "nobarrier", "inconclusive"),
        (100, 200, "write back", "", "inconclusive"),
        (100, 0, "write back", "nobarrier", "affected"),
        (100, 10, None, "nobarrier", "affected"),
        (100, 0, "write through", "nobarrier", "inconclusive"),
        (100, None, "write back", "barrier", "inconclusive"),
        (9, 0, "write back", "nobarrier", "inconclusive"),
        (None, 0, "write back", "nobarrier", "inconclusive"),
    ],
)
def test_commits_and_flushes(
    commits: int | None, flushes: int | None, cache: str | None, barrier: str, verdict: str
) -> None:
    """Each commit of the journal flushes a volatile cache, unless barriers are off."""
    journal = None if commits is None else Journal(commits, commits, None)
    spare = {"spare": stat(0)._replace(writes=9)}
    disks = (Disk("vda", cache), Disk("spare", "write back"))
    found = judge_commits(journal, {"vda": stat(flushes), **spare}, disks, barrier)
    assert found.verdict.value == verdict

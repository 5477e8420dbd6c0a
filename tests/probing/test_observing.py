from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ext4audit.probing import observing
from ext4audit.probing.counters import BlockStat, Disk
from ext4audit.probing.observing import (
    Journal,
    Sampler,
    Wait,
    Waits,
    judge_commits,
    parse_journal,
    sample,
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


def stat(flushes: int | None) -> BlockStat:
    """Return counters of a disk."""
    return BlockStat(0, 0, 0, 0, flushes, None)


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
    found = judge_commits(journal, {"vda": stat(flushes)}, (Disk("vda", cache),), barrier)
    assert found.verdict.value == verdict


HERE, ELSEWHERE = 7, 8


def task(
    proc: Path, number: int, call: str, state: str = "D", **links: int
) -> dict[str, os.stat_result]:
    """Make a task; `links` are its open files and cwd with the device of each."""
    folder = proc / str(number) / "task" / str(number)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{number} (a) D) x) {state} 1 2 3")
    (folder / "syscall").write_text(call)
    places = {name.replace("_", "/"): device for name, device in links.items()}
    return {
        str(folder / place): os.stat_result((0, 0, device, *[0] * 7))
        for place, device in places.items()
    }


@pytest.mark.parametrize(
    ("call", "state", "links", "expected"),
    [
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"fd_5": HERE}, ("fsync", True)),
        ("75 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"fd_5": HERE}, ("fsync", True)),
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"fd_5": ELSEWHERE}, None),
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {}, ("fsync", None)),
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "S", {"fd_5": HERE}, None),
        ("82 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"cwd": HERE}, ("rename", True)),
        ("316 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"cwd": ELSEWHERE}, ("rename", None)),
        ("1 0x5 0x0 0x0 0x7ffe 0x7f00", "D", {"fd_5": HERE}, None),
        ("running", "D", {}, None),
        ("-1 0x7ffe 0x7f00", "D", {}, None),
        ("", "D", {}, None),
    ],
)
def test_a_sample(
    tmp_path: Path, call: str, state: str, links: dict[str, int], expected: tuple[str, bool] | None
) -> None:
    """Only sleeping tasks count, and an fsync on another filesystem does not."""
    stats = task(tmp_path, 12, call, state, **links)

    def stat(path: str) -> os.stat_result:
        if path not in stats:
            raise FileNotFoundError(path)
        return stats[path]

    found = sample(HERE, "x86_64", tmp_path, stat)
    assert found == ({Wait("12", *expected)} if expected else set())


def test_an_unknown_machine_shows_nothing(tmp_path: Path) -> None:
    """The numbers of system calls differ between architectures."""
    task(tmp_path, 12, "74 0x5 0x0 0x0 0x7ffe 0x7f00")
    assert sample(HERE, "s390x", tmp_path) == set()


def test_samples_are_joined() -> None:
    """A wait lasts while each sample finds it; after a break a new wait begins."""
    one, other = Wait("1", "fsync", on_filesystem=True), Wait("2", "fsync", on_filesystem=None)
    sampler = Sampler()
    for now, waiting in ((0, {one}), (1, {one, other}), (3, {one}), (4, set()), (5, {one})):
        sampler.add(now, frozenset(waiting))
    assert sampler.samples == 5
    assert sampler.of("fsync", on_filesystem=True) == Waits(1, 3)
    assert sampler.of("fsync", on_filesystem=None) == Waits(1, 0)
    assert sampler.of("rename", on_filesystem=True) == Waits(0, 0)


@pytest.mark.parametrize(
    ("took", "slept"),
    [
        (0.0, [0.2, 0.2, 0.1]),
        (0.01, [0.2, 0.2, 0.07]),
        # Only a tenth of the time goes into looking at tasks, so as not to load a busy machine.
        (0.03, [0.3, 0.14]),
    ],
)
def test_samples_are_taken_five_times_a_second(
    monkeypatch: pytest.MonkeyPatch, took: float, slept: list[float]
) -> None:
    """The last pause ends at the requested time."""
    now = [100.0]
    pauses: list[float] = []
    parts: list[float] = []

    def look(_device: int, _machine: str) -> set[Wait]:
        now[0] += took
        return set()

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 6))
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(observing, "time", clock)
    monkeypatch.setattr(observing, "sample", look)
    observing.watch(HERE, 0.5, parts.append)
    assert pauses == slept
    assert parts[-1] == 1.0
    assert parts == sorted(parts)

"""Writes and counts of the probes, on a plain directory with fake counters and extents."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ext4audit.facts import MIB
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.measurement import Measurement, MemberFigures, Number
from ext4audit.probing import ProbeTarget, extents, fsync, members, observing, probe, rename
from ext4audit.probing.bench import Bench, Budget, BudgetExceeded, Limits
from ext4audit.probing.counters import BlockStat
from ext4audit.probing.extents import DELALLOC, LAST, UNWRITTEN, Extent
from ext4audit.probing.members import Churn, member_figures
from ext4audit.probing.observing import observe
from ext4audit.probing.waits import Sampler, Wait
from ext4audit.probing.workspace import opened_directory, workspace
from support.builders import disk, filesystem, host, known, layout, memory, unknown

PAGE = 4096
LIMITS = Limits(20 * MIB, 60, 1000 * MIB, 1000)


def stat(writes: int = 0, flushes: int | None = None) -> BlockStat:
    """Return counters of a device that writes pages in 2 ms, and flushes in 4 ms."""
    waited = None if flushes is None else 4 * flushes
    return BlockStat(0, writes, writes * PAGE, 2 * writes, flushes, waited)


def readings(monkeypatch: pytest.MonkeyPatch, module: Any, *found: dict[str, BlockStat]) -> None:
    """Make a module read these counters, one after the other."""
    left = iter(found)
    monkeypatch.setattr(module, "read_stats", lambda _names: next(left))


def value(measurement: Measurement, name: str) -> Number:
    """Return a figure of a measurement."""
    (found,) = (figure.value for figure in measurement.figures if figure.name == name)
    return found


class Clock:
    """A clock that advances only while sleeping."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds


@pytest.fixture
def reported() -> list[float]:
    """Return the parts that probes report as done."""
    return []


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: list[float]
) -> Iterator[Bench]:
    """Return a bench in a plain directory with a device vda; nothing is flushed."""
    monkeypatch.setattr("os.fsync", lambda _descriptor: None)
    monkeypatch.setattr("os.fdatasync", lambda _descriptor: None)
    clock = Clock()
    budget = Budget(LIMITS, clock, clock.sleep)
    fs = filesystem(stack=known(disk(name="vda")))
    with opened_directory(str(tmp_path)) as parent, workspace(parent) as room:
        yield Bench(room, budget, fs, host(fs), reported.append)


def test_flushes_are_counted_for_each_fsync(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reported: list[float]
) -> None:
    """320 one-page appends are a sixteenth of 20 MiB; those of others are scaled to the time."""
    idle, before, after = ({"vda": stat(count, count)} for count in (5, 5, 645))
    readings(monkeypatch, fsync, idle, before, after)
    found = fsync.measure(bench)
    assert (found.verdict.value, found.why) == ("healthy", "each fsync flushed vda")
    assert (value(found, "fsyncs"), value(found, "fdatasyncs")) == (320, 160)
    assert value(found, "flushes_per_fsync_vda") == 2.0
    assert reported[-1] == 1.0
    assert value(found, "foreign_flushes_per_fsync_vda") == 0
    filled = 20 * MIB // 16
    assert bench.budget.written_bytes == 321 * PAGE + filled + 161 * 8192


def test_the_disk_of_an_external_journal_is_flushed_too() -> None:
    """Where the device of the journal is not known, neither is what has to be flushed."""
    stack, journal = known(disk(name="vda")), known(disk(name="vdb"))

    def names(**given: Any) -> list[str]:
        return [each.name for each in fsync.flushed_disks_of(filesystem(stack=stack, **given))]

    assert names() == ["vda"]
    assert names(journal_stack=journal) == ["vda", "vdb"]
    assert names(journal_stack=stack) == ["vda"]
    assert names(journal_stack=unknown("block device")) == []


def test_a_device_that_counts_no_flushes_is_no_zero(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 5.5 has no such counter; a device that was removed meanwhile is left out."""
    readings(monkeypatch, fsync, *({"vda": stat()} for _ in range(3)))
    found = fsync.measure(bench)
    assert "Linux 5.5" in found.why
    readings(monkeypatch, fsync, {"vda": stat()}, {"vda": stat()}, {})
    assert "Linux 5.5" in fsync.measure(bench).why


@pytest.mark.parametrize(
    ("count", "of", "expected"), [(None, 3, None), (3, 0, None), (0, 3, 0.0), (6, 3, 2.0)]
)
def test_a_ratio_needs_both_numbers(count: int | None, of: int, expected: float | None) -> None:
    """The ratio is None if nothing was counted, or nothing done."""
    assert fsync._ratio(count, of) == expected


def test_all_extents_of_a_file_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call begins at the end of the last extent, until the last one is marked."""
    answers = {0: [Extent(0, 8, 0), Extent(8, 4, 0)], 12: [Extent(12, 1, LAST)]}
    asked: list[int] = []

    def fetch(_descriptor: int, start: int) -> list[Extent]:
        asked.append(start)
        return answers[start]

    monkeypatch.setattr(extents, "_fetch", fetch)
    assert extents.extents(3) == (*answers[0], *answers[12])
    assert asked == [0, 12]
    answers[12] = []
    assert extents.extents(3) == tuple(answers[0])


def test_the_kernel_is_asked_for_the_rest_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The range is from the start to the largest file size, without flushing the file first."""
    seen: list[tuple[int, ...]] = []

    def ioctl(_descriptor: int, _request: int, buffer: bytearray) -> None:
        seen.append(extents._HEAD.unpack_from(buffer))

    monkeypatch.setattr("fcntl.ioctl", ioctl)
    assert extents._fetch(3, PAGE) == []
    assert seen == [(PAGE, extents._WHOLE_FILE - PAGE, 0, 0, extents._AT_ONCE, 0)]


def test_extents_are_counted_for_each_mib(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extents are counted before and after writeback, by their flags."""
    before = tuple(Extent(n * PAGE, PAGE, UNWRITTEN) for n in range(320))
    left = iter([(*before, Extent(0, MIB, DELALLOC)), (Extent(0, MIB, 0),)])
    monkeypatch.setattr(extents, "extents", lambda _descriptor: next(left))
    found = extents.measure(bench)
    assert found.verdict.value == "affected"
    assert value(found, "written_mib") == 1.25
    assert value(found, "extents_per_mib_before_writeback") == 321 / 1.25
    assert value(found, "unwritten_extents_before_writeback") == 320
    assert value(found, "delayed_mib_before_writeback") == 1
    assert value(found, "extents_per_mib_after_writeback") == 0.8


@pytest.mark.parametrize(
    ("changes", "expected_mib"),
    [
        ({}, 7),  # three eighths of 20 MiB, in whole MiB
        ({"available_bytes": 100 * MIB, "dirty_background_ratio_percent": 10}, 5),
        ({"dirty_background_bytes": 6 * MIB}, 3),
        ({"dirty_background_bytes": MIB}, 1),
    ],
)
def test_a_renamed_file_is_not_soon_written_back(
    bench: Bench, changes: dict[str, int], expected_mib: int
) -> None:
    """Its size is at most half of what starts background writeback, and at least 1 MiB."""
    with_memory = bench._replace(host=host(memory=known(memory(**changes))))
    assert rename._size(with_memory) == expected_mib * MIB


@pytest.mark.parametrize(("size_mib", "expected_mib"), [(400, 8), (40, 2), (15, 1)])
def test_the_file_to_read_is_a_part_of_all(bench: Bench, size_mib: int, expected_mib: int) -> None:
    """It is a sixteenth of the size in whole MiB, at least one and at most eight."""
    budget = Budget(Limits(size_mib * MIB, 60, 1000 * MIB, 0))
    with rename._file_to_read(bench._replace(budget=budget)):
        descriptor = bench.workspace.reopen("read", os.O_RDONLY)
        assert os.fstat(descriptor).st_size == expected_mib * MIB
        os.close(descriptor)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (disk(size_sectors=known(1 << 40)), 300 * MIB),
        (disk(size_sectors=known(200 * MIB // 512)), 200 * MIB),
        (disk(size_sectors=unknown("size")), 300 * MIB),
    ],
)
def test_no_more_is_dirty_than_the_filesystem_holds(
    bench: Bench, device: BlockDevice, expected: int
) -> None:
    """The limit is that of dirty pages, or the size of a smaller device."""
    limited = host(memory=known(memory(dirty_bytes=300 * MIB)))
    fs = filesystem(stack=known(device))
    assert rename.largest_file_bytes(bench._replace(fs=fs, host=limited)) == expected
    lost = host(memory=unknown("memory"))
    assert rename.largest_file_bytes(bench._replace(host=lost)) is None


def test_figures_of_members_have_their_shares() -> None:
    """They are in slot order; a member without counters is left out."""
    found = layout([30, 10, 20])
    first, second, _ = (member.name for member in found.members)
    figures = member_figures(found, {second: stat(30), first: stat(10)})
    assert [(each.name, each.writes, each.share) for each in figures] == [
        (first, 10, 0.25),
        (second, 30, 0.75),
    ]
    assert [each.predicted_share for each in figures] == [0.5, 1 / 6]
    assert figures[0].write_wait_ms == 2
    assert [each.share for each in member_figures(found, {first: stat(0)})] == [None]


def churn(writes: Sequence[int], others: float = 0) -> Churn:
    """Return the writes of members."""
    figures = (MemberFigures(f"vd{n}", w, w, 0, 1.0, None) for n, w in enumerate(writes))
    return Churn(tuple(figures), others)


@pytest.mark.parametrize(
    ("writes", "others", "verdict"),
    [
        ((20, 20), 0, "healthy"),
        ((20, 19), 0, "inconclusive"),
        ((50, 50), 20, "healthy"),
        ((50, 50), 20.1, "inconclusive"),
        ((300, 0, 300, 300), 0, "healthy"),  # exactly three quarters
        ((301, 0, 300, 300), 0, "affected"),
    ],
)
def test_where_the_verdict_on_members_changes(
    writes: Sequence[int], others: float, verdict: str
) -> None:
    """The limits are 20 writes per member, a fifth by other programs, and an evenness of 0.75."""
    assert members.judge(churn(writes, others), 0.25).verdict.value == verdict


def test_small_files_are_made_in_rounds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, reported: list[float]
) -> None:
    """58 directories of 16 files make the thousand inodes; counters are read before and after."""
    monkeypatch.setattr(members, "_spread_below", lambda _directory: None)
    monkeypatch.setattr(members, "sync_filesystem", lambda _directory: None)
    found = layout([5, 5])
    names = [member.name for member in found.members]
    loads = [dict.fromkeys(names, stat(count)) for count in (0, 0, 100)]
    readings(monkeypatch, members, *loads)
    fs = filesystem(layout=known(found), stack=known(disk(name="vda")))
    measured = members.measure(bench._replace(fs=fs))
    assert (value(measured, "directories"), value(measured, "files")) == (58, 928)
    assert measured.verdict.value == "healthy"
    assert value(measured, "evenness") == 1.0
    assert value(measured, "busiest_share") == 1 / len(names)
    assert value(measured, "foreign_writes") == 0
    assert reported == [40 / 58, 1.0]
    top = bench.workspace.reopen("churn", os.O_RDONLY | os.O_DIRECTORY)
    assert sorted(map(int, os.listdir(top)))  # noqa: PTH208 - of a descriptor == list(range(58))
    os.close(top)
    assert bench.budget.written_bytes == 58 * (PAGE + 16 * 256)


def test_an_observation_counts_between_two_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits, flushes, waits and the time that tasks were stalled are counted.

    The last sample may end after the requested time.
    """
    clock = Clock()
    info = "{} transactions ({} requested), each up to 10 blocks\n  500us average transaction "
    journal, pressure = tmp_path / "vda-8" / "info", tmp_path / "pressure"
    journal.parent.mkdir()
    journal.write_text(info.format(5, 2) + "commit time\n")
    pressure.write_text("some avg10=0.00 total=1000\nfull avg10=0.00 total=7\n")
    sampler = Sampler()
    sampler.add(0, frozenset({Wait("1", "rename", on_filesystem=True)}))

    def watch(_device: int, seconds: float, tell: Any, _device_of: object) -> Sampler:
        clock.now += seconds + 0.5
        journal.write_text(info.format(25, 14) + "commit time\n")
        pressure.write_text("some avg10=0.00 total=51000\nfull avg10=0.00 total=7\n")
        tell(1.0)
        return sampler

    monkeypatch.setattr(observing, "JBD2", tmp_path)
    monkeypatch.setattr(observing, "PRESSURE", pressure)
    monkeypatch.setattr(observing, "watch", watch)
    monkeypatch.setattr(observing, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="x86_64"))
    readings(monkeypatch, observing, {"vda": stat(3, 10)}, {"vda": stat(23, 50)})
    fs = filesystem(name="vda", stack=known(disk(name="vda")), layout=None)
    progress: list[tuple[str, float]] = []
    with opened_directory(str(tmp_path)) as directory:
        subject = ProbeTarget(directory, fs, host(fs))
        found = observe(subject, 2.0, lambda *each: progress.append(each), lambda _path: None)
    flushed, renamed = found.results
    assert (flushed.verdict.value, flushed.why) == ("healthy", "20 commits, 40 flushes")
    assert (value(flushed, "journal_commits"), value(flushed, "requested_commits")) == (20, 12)
    assert value(flushed, "mean_commit_ms") == 0.5
    assert [(each.writes, each.flushes, each.flush_wait_ms) for each in flushed.members] == [
        (20, 40, 4)
    ]
    assert renamed.verdict.value == "healthy"
    assert value(renamed, "tasks_seen_waiting_in_rename_anywhere") == 1
    assert value(renamed, "time_with_tasks_stalled_on_io_percent") == 2.0
    assert [skip.probe for skip in found.skipped] == ["extents", "members"]
    assert (found.written_bytes, progress) == (0, [("observe", 1.0)])


def test_a_file_of_a_few_pages_is_no_measurement(bench: Bench) -> None:
    """One extent of 16 KiB would count as 64 per MiB, like the defect; --rate 1K leaves no page."""
    for rate in (1024, MIB - 1):
        slow = bench._replace(budget=Budget(LIMITS._replace(rate=rate)))
        with pytest.raises(BudgetExceeded, match="raise --rate"):
            extents.measure(slow)


def test_a_turn_after_the_time_is_empty() -> None:
    """It ends at once, and does not start in the past; the last turn has all the remaining time."""
    clock = Clock()
    budget = Budget(Limits(100, 10, 100, 0), clock, clock.sleep)
    budget.give_turn(0)
    assert budget.seconds_left() == 10
    budget.give_turn(4)
    assert budget.seconds_left() == 2.5
    clock.now += 11
    budget.give_turn(2)
    assert budget.seconds_left() == 0
    with pytest.raises(BudgetExceeded, match="--time 10"):
        budget.check()


def test_a_probe_that_has_nothing_to_measure_is_done_and_skipped(tmp_path: Path) -> None:
    """The progress display continues with the next one."""
    fs = filesystem(layout=None)
    progress: list[tuple[str, float]] = []
    with opened_directory(str(tmp_path)) as directory:
        subject = ProbeTarget(directory, fs, host(fs))
        found = probe(subject, ["members"], LIMITS, lambda *each: progress.append(each))
    assert (found.results, found.written_bytes) == ((), 0)
    assert [(skip.probe, skip.rule) for skip in found.skipped] == [("members", "LAY001")]
    assert progress == [("members", 1.0)]
    assert list(tmp_path.iterdir()) == []

"""The time of an audit grows linearly with the number of mounts and of filesystems.

Run with `uv run pytest -m bench -s tests/bench/test_large_hosts.py`: it prints what it measured.
The bounds are ratios within one run, because machines differ and are noisy.
"""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.cli import run_program
from ext4audit.engine import audit
from ext4audit.parsers.devices_and_mounts import parse_lsblk_json
from ext4audit.renderers import Audited, Page
from ext4audit.renderers.shared.subjects import subjects
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from support.hosts.evidence_host import TAKEN_AT, HostSource
from support.hosts.large_hosts import (
    many_bind_mounts,
    many_containers,
    many_filesystems,
    many_in_other_namespaces,
    many_mounted_copies,
    many_other_mounts,
    many_stacked_mounts,
    many_unmounted_lines,
    write_sosreport,
)
from support.timing import relative_time

pytestmark = pytest.mark.bench


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, whose time depends on the objects that other tests keep."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


MOST = 13
"""Maximum ratio of times for ten times the lines; quadratic growth would give a hundred."""
TRIES = 6
MOUNTS, FILESYSTEMS = 1_000, 50
SECOND = 500
"""One second as a multiple of 100,000 multiplications, which take 2 ms."""
FORMATS = ("text", "json_v1", "html")
PAGE = Page("0.0", TAKEN_AT)


def audited(source: HostSource, formats: Sequence[str]) -> Report:
    """Audit a host with all rules and render the report in the given formats."""
    host = assemble_host(source, TAKEN_AT)
    report = audit(ReportSource("live", host.name), host, all_rules())
    for module in formats:
        import_module(f"ext4audit.renderers.{module}").render([Audited("", report)], PAGE)
    return report


def best_pair(few: Callable[[], float], many: Callable[[], float]) -> tuple[float, float]:
    """Return the pair of times with the lowest ratio; try until `many` is below MOST times `few`.

    The machine may slow down between the two; quadratic growth would show in every pair.
    """
    pairs = []
    for _ in range(TRIES):
        pairs.append((few(), many()))
        if pairs[-1][1] < MOST * pairs[-1][0]:
            break
    return min(pairs, key=lambda pair: pair[1] / pair[0])


def times(
    build: Callable[[int], HostSource], lines: int, formats: Sequence[str] = ()
) -> tuple[float, float]:
    """Return the times of audits of a host and of one with ten times the lines."""
    small, large = build(lines), build(10 * lines)
    audited(small, formats)  # warm up: imports and compilation happen only once
    few, many = best_pair(
        lambda: relative_time(lambda: audited(small, formats), rounds=2),
        lambda: relative_time(lambda: audited(large, formats), rounds=1),
    )
    print(f"\n{build.__name__}: {lines} {few:.1f}, {10 * lines} {many:.1f}: ", end="")
    print(f"{many / few:.1f} times")
    return few, many


@pytest.mark.parametrize(
    "build", [many_bind_mounts, many_stacked_mounts, many_other_mounts, many_containers]
)
def test_time_grows_with_the_mounts(build: Callable[[int], HostSource]) -> None:
    """Ten times the lines of the mount table take less than 13 times as long, and a second."""
    few, many = times(build, MOUNTS, FORMATS)
    assert many < MOST * few
    assert many < SECOND


def test_time_grows_with_the_filesystems_and_lines_of_fstab() -> None:
    """Ten times as many take less than 13 times as long, and a thousand less than 5 seconds."""
    few, many = times(many_filesystems, 2 * FILESYSTEMS)
    assert many < MOST * few
    assert many < 5 * SECOND


def test_time_grows_with_the_unmounted_lines_of_fstab() -> None:
    """Ten times the lines take less than 13 times as long, in an fstab of a stranger, too."""
    few, many = times(many_unmounted_lines, 4 * FILESYSTEMS)
    assert many < MOST * few


def test_time_of_a_report_grows_with_its_filesystems() -> None:
    """Grouping ten times the filesystems by subject takes less than 13 times as long."""
    few, many = best_pair(
        lambda: time_of_subjects(FILESYSTEMS), lambda: time_of_subjects(10 * FILESYSTEMS)
    )
    print(f"\nsubjects: {FILESYSTEMS} {few:.2f}, {10 * FILESYSTEMS} {many:.2f}")
    assert many < MOST * few


def time_of_subjects(count: int) -> float:
    """Return the time that grouping the verdicts of `count` filesystems takes."""
    report = audited(many_filesystems(count), ())
    return relative_time(lambda: subjects(report), rounds=5)


@pytest.mark.parametrize("build", [many_mounted_copies, many_in_other_namespaces])
def test_time_grows_with_filesystems_that_need_a_second_look(
    build: Callable[[int], HostSource],
) -> None:
    """Ten times the copies, or filesystems of other namespaces, take less than 13 times as long."""
    few, many = times(build, FILESYSTEMS)
    assert many < MOST * few


def test_time_grows_with_the_members_that_lsblk_lists() -> None:
    """An array is listed below each of its members; its parents are collected once."""
    few, many = best_pair(
        lambda: relative_time(lambda: parse_lsblk_json(_members(2_000)), rounds=1),
        lambda: relative_time(lambda: parse_lsblk_json(_members(20_000)), rounds=1),
    )
    assert many < MOST * few


def _members(count: int) -> str:
    array = {"name": "md0", "kname": "md0", "maj:min": "9:0"}
    disks = (
        {"name": f"d{index}", "kname": f"d{index}", "maj:min": f"8:{index}", "children": [array]}
        for index in range(count)
    )
    return json.dumps({"blockdevices": list(disks)})


def test_time_grows_with_the_filesystems_of_a_captured_directory(tmp_path: Path) -> None:
    """Each file name is looked up once, because each lookup is a call to a helper process."""
    folders = (tmp_path / f"{number}" for number in itertools.count())
    few, many = best_pair(
        lambda: _captured(next(folders), 100), lambda: _captured(next(folders), FILESYSTEMS * 20)
    )
    print(f"\nsosreport: 100 {few:.1f}, {FILESYSTEMS * 20} {many:.1f}: {many / few:.1f} times")
    assert many < MOST * few
    assert many < 5 * SECOND


def _captured(folder: Path, count: int) -> float:
    """Return the time of an audit of a sosreport with `count` filesystems."""
    write_sosreport(folder, count)
    words = ["scan", "--from", str(folder), "-f", "json", "-o", str(folder.with_suffix(".json"))]
    time = relative_time(lambda: run_program(words), rounds=1)
    assert len(json.loads(folder.with_suffix(".json").read_text())["filesystems"]) == count + 2
    return time

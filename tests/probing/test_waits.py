"""Tasks in fsync and rename: which filesystem they wait for, and how long."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from ext4audit.probing import waits
from ext4audit.probing.waits import Sampler, Wait, Waits, sample

HERE, ELSEWHERE = os.makedev(7, 1), os.makedev(8, 1)
MOUNTS = (
    "20 1 7:1 / / rw,relatime - ext4 /dev/loop1 rw\n"
    "21 20 8:1 / /srv rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
)
PATH_AT = 0x10


def task(proc: Path, number: int, call: str, state: str = "D", path: str | None = None) -> Path:
    """Make a task with two open files, of which 5 is HERE; its memory has a path at PATH_AT."""
    folder = proc / str(number) / "task" / str(number)
    (folder / "fdinfo").mkdir(parents=True)
    (folder / "stat").write_text(f"{number} (a) D) x) {state} 1 2 3")
    (folder / "syscall").write_text(call)
    (folder / "mountinfo").write_text(MOUNTS)
    for descriptor, mount in ((5, 20), (6, 21), (7, 99)):
        info = f"pos:\t0\nflags:\t0100001\nmnt_id:\t{mount}\nino:\t12\n"
        (folder / "fdinfo" / str(descriptor)).write_text(info)
    if path is not None:
        (folder / "mem").write_bytes(bytes(PATH_AT) + os.fsencode(path))
    return folder


@pytest.mark.parametrize(
    ("call", "state", "expected"),
    [
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", True)),
        ("75 0x5 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", True)),
        ("75 0x100000005 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", True)),
        ("74 0x6 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", False)),
        ("74 0x7 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", None)),
        ("74 0x8 0x0 0x0 0x7ffe 0x7f00", "D", ("fsync", None)),
        ("74 0x5 0x0 0x0 0x7ffe 0x7f00", "S", None),
        ("1 0x5 0x0 0x0 0x7ffe 0x7f00", "D", None),
        ("82 0x10 0x0 0x0 0x7ffe 0x7f00", "D", ("rename", None)),
        ("running", "D", None),
        ("-1 0x7ffe 0x7f00", "D", None),
        ("", "D", None),
    ],
)
def test_a_sample(tmp_path: Path, call: str, state: str, expected: tuple[str, bool] | None) -> None:
    """Only sleeping tasks count; an open file is on the device of its mount, if that is listed."""
    task(tmp_path, 12, call, state)
    found = sample(HERE, "x86_64", lambda _path: HERE, tmp_path)
    assert found == ({Wait("12", *expected, moment=call)} if expected else set())


@pytest.mark.parametrize(
    ("call", "path", "folder"),
    [
        ("82 0x10 0x20 0x0 0x7ffe 0x7f00", "/srv/db/new\0old\0", "root//srv/db"),
        ("82 0x10 0x20 0x0 0x7ffe 0x7f00", "/new\0", "root//"),
        ("82 0x10 0x20 0x0 0x7ffe 0x7f00", "new\0", "cwd/"),
        ("82 0x10 0x20 0x0 0x7ffe 0x7f00", "a/../b/new\0", "cwd/a/../b"),
        ("264 0x5 0x10 0x6 0x20 0x7f00", "db/new\0", "fd/5/db"),
        ("316 0xffffff9c 0x10 0x6 0x20 0x7f00", "db/new\0", "cwd/db"),
        ("316 0xffffffffffffff9c 0x10 0x6 0x20 0x7f00", "db/new\0", "cwd/db"),
        ("316 0x5 0x10 0x6 0x20 0x7f00", "/new\0", "root//"),
        ("82 0x10 0x20 0x0 0x7ffe 0x7f00", "unterminated", None),
        ("82 0xffffffffffffffff 0x20 0x0 0x7ffe 0x7f00", "/new\0", None),
    ],
)
@pytest.mark.parametrize(("device", "here"), [(HERE, True), (ELSEWHERE, False), (None, None)])
def test_a_rename_is_where_its_path_leads(
    tmp_path: Path,
    *,
    call: str,
    path: str,
    folder: str | None,
    device: int | None,
    here: bool | None,
) -> None:
    """The working directory alone proves nothing: that of most services is the root."""
    place = task(tmp_path, 12, call, path=path)
    asked: list[str] = []

    def device_of(path: str) -> int | None:
        asked.append(path)
        return device

    found = sample(HERE, "x86_64", device_of, tmp_path)
    assert asked == ([] if folder is None else [f"{place}/{folder}"])
    known = here if folder is not None else None
    assert found == {Wait("12", "rename", known, call)}


@pytest.mark.parametrize(
    ("changed", "content", "seconds"),
    [
        ("io", "rchar: 1\nwchar: 8\nsyscr: 1\nsyscw: 2\nread_bytes: 0\nwrite_bytes: 9\n", 1),
        ("io", "rchar: 1\nwchar: 9\nsyscr: 1\nsyscw: 3\nread_bytes: 0\nwrite_bytes: 0\n", 0),
        ("syscall", "82 0x10 0x30 0x0 0x7ffe 0x7f00", 0),
        ("stat", "12 (b) D 1 2 3", 1),
    ],
)
def test_many_short_waits_are_no_long_one(
    tmp_path: Path, changed: str, content: str, seconds: float
) -> None:
    """What a task has written since the last sample, it wrote after an earlier call."""
    folder = task(tmp_path, 12, "82 0x10 0x20 0x0 0x7ffe 0x7f00", path="new\0")
    io = "rchar: 1\nwchar: 8\nsyscr: 1\nsyscw: 2\nread_bytes: 0\nwrite_bytes: 0\n"
    (folder / "io").write_text(io)
    sampler = Sampler()
    sampler.add(0, sample(HERE, "x86_64", lambda _path: HERE, tmp_path))
    (folder / changed).write_text(content)
    sampler.add(1, sample(HERE, "x86_64", lambda _path: HERE, tmp_path))
    assert sampler.here("rename") == Waits(1, seconds)
    assert sampler.anywhere("rename") == 1


def test_an_unknown_machine_shows_nothing(tmp_path: Path) -> None:
    """The numbers of system calls differ between architectures."""
    task(tmp_path, 12, "74 0x5 0x0 0x0 0x7ffe 0x7f00")
    assert sample(HERE, "s390x", lambda _path: None, tmp_path) == set()


def test_samples_are_joined() -> None:
    """A wait lasts while each sample finds it; after a break a new wait begins."""
    one, other = Wait("1", "fsync", on_filesystem=True), Wait("2", "fsync", on_filesystem=None)
    third = Wait("3", "fsync", on_filesystem=False)
    sampler = Sampler()
    for now, waiting in ((0, {one}), (1, {one, other}), (3, {one, third}), (4, set()), (5, {one})):
        sampler.add(now, frozenset(waiting))
    assert sampler.samples == 5
    assert sampler.here("fsync") == Waits(1, 3)
    assert sampler.anywhere("fsync") == 3
    assert (sampler.here("rename"), sampler.anywhere("rename")) == (Waits(0, 0), 0)


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

    def look(_device: int, _machine: str, _device_of: object) -> set[Wait]:
        now[0] += took
        return set()

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 6))
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(waits, "time", clock)
    monkeypatch.setattr(waits, "sample", look)
    waits.watch(HERE, 0.5, parts.append, lambda _path: None)
    assert pauses == slept
    assert parts[-1] == 1.0
    assert parts == sorted(parts)

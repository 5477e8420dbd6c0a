"""The cost of starting the program, compared with an interpreter that does nothing.

Run with `uv run pytest -m bench -s`: it prints what it measured, and the numbers in
docs/measurements.md come from here. The bounds are ratios of instructions, which valgrind counts:
the CPU time of one commit was 12.0 and 14.2 times that of an empty interpreter on two days on one
machine, while its instructions differed by less than 1 %.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ext4audit.assemble.devices.target import Superblocks, TargetResolver
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.sources import RunCommand
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.writing import RecordingSource
from support.filesystems.scratch import TAKEN_AT, Scratch
from support.hosts.fixture_hosts import HOSTS
from support.timing import command_seconds

ROUNDS = 7
USUAL = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
"""An environment in which bytecode is cached, as in an installation."""

pytestmark = [pytest.mark.bench, pytest.mark.kernel]


def milliseconds(*commands: Sequence[str]) -> list[float]:
    """Return the median CPU time of each command in milliseconds.

    The commands run in turn, so that a temporary slowdown of the machine does not decide a ratio.
    An extra first round caches their bytecode, as in an installation: some environments forbid
    writing it.
    """
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(ROUNDS + 1):
        for command, taken in zip(commands, times, strict=True):
            taken.append(command_seconds(command, USUAL) * 1000)
    return [statistics.median(taken[1:]) for taken in times]


EMPTY = (sys.executable, "-I", "-c", "pass")
"""An interpreter that does nothing."""


def program(*arguments: str) -> tuple[str, ...]:
    """Return the command line of the installed program."""
    return (str(Path(sys.executable).with_name("ext4audit")), *arguments)


@pytest.fixture(scope="module")
def count_instructions(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[str]], int]:
    """Return a function that counts the instructions of a command, without its child processes."""
    if shutil.which("valgrind") is None:
        reason = "needs valgrind"
        if os.environ.get("EXT4AUDIT_REQUIRE_VALGRIND") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    counts = tmp_path_factory.mktemp("callgrind") / "%p"
    counting = ("valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}")
    return lambda command: collected((*counting, *command))


def collected(command: Sequence[str]) -> int:
    """Run a command under callgrind, and return the instruction count of its own process.

    Its forked processes print their counts earlier. The order of sets is the same in each run
    (PYTHONHASHSEED), and the modules are compiled.
    """
    environment = {**USUAL, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = re.search(
        r"\A==(\d+)== Callgrind,.*^==\1== Collected : (\d+)$", done.stderr, re.MULTILINE | re.DOTALL
    )
    assert found is not None, done.stderr
    return int(found[2])


def test_version_costs_little_more_than_an_interpreter(
    count_instructions: Callable[[Sequence[str]], int],
) -> None:
    """`--version` takes at most 4.5 times the instructions of an empty interpreter."""
    empty, version = milliseconds(EMPTY, program("--version"))
    ratio = count_instructions(program("--version")) / count_instructions(EMPTY)
    print(f"\ninterpreter {empty:.0f} ms, --version {version:.0f} ms, {version / empty:.1f} times")
    print(f"--version: {ratio:.2f} times the instructions")
    assert ratio <= 4.5


@pytest.fixture
def five_mounts(
    tmp_path_factory: pytest.TempPathFactory,
    private_mounts: None,  # noqa: ARG001 - a fixture that acts
) -> Iterator[list[Scratch]]:
    """Mount five filesystems."""
    root = tmp_path_factory.mktemp("five")
    mounts = [Scratch(root / f"image{n}", root / f"mnt{n}").make().mount() for n in range(5)]
    yield mounts
    for mount in mounts:
        mount.unmount()


def tools_of_a_scan(mounts: list[Scratch]) -> list[tuple[str, ...]]:
    """Return every command that a scan of the mounts runs.

    Their number is not fixed: if the images are on ext4 themselves, there is one more dumpe2fs.
    """
    source = RecordingSource(LiveSource())
    resolver = TargetResolver(source, take_inventory(source))
    found = [resolver.resolve(str(mount.mount_point)) for mount in mounts]
    numbers = {n for each in found if isinstance(each, Superblocks) for n in each.device_numbers}
    assemble_host(source, TAKEN_AT, only=numbers)
    return [ask.argv for ask in source.answers if isinstance(ask, RunCommand)]


def test_a_json_scan_of_five_mounts_is_quick(
    five_mounts: list[Scratch], count_instructions: Callable[[Sequence[str]], int]
) -> None:
    """A JSON scan takes at most 18.5 times the instructions of an empty interpreter.

    Its tools (dumpe2fs, lsblk) are not counted. In CPU time this is 12 to 17 times, because the
    share of the empty interpreter that stays in the CPU caches differs from day to day.
    """
    command = program("scan", "-f", "json", *(str(mount.mount_point) for mount in five_mounts))
    found = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    assert len(found["filesystems"]) == 5
    commands = tools_of_a_scan(five_mounts)
    assert len(commands) >= 7
    empty, scan, *each = milliseconds(EMPTY, command, *commands)
    tools = sum(each)
    own = scan - tools
    ratio = count_instructions(command) / count_instructions(EMPTY)
    print(f"\nscan -f json {scan:.0f} ms, tools {tools:.0f} ms, own {own:.0f} ms: ", end="")
    print(f"{own / empty:.1f} interpreters of {empty:.0f} ms, {ratio:.2f} in instructions")
    assert ratio <= 18.5


SCAN = (
    "import sys, os; sys.argv = ['ext4audit', 'scan', '-f', 'json', '--from', {snapshot!r}]; "
    "from ext4audit.cli import run_program; code = run_program(sys.argv[1:]); "
    "sys.stdout.flush(); {leave}(code)"
)


def test_a_direct_exit_earns_its_place() -> None:
    """`__main__` exits directly, which saves the time of the interpreter's shutdown."""
    snapshot = str(HOSTS / "healthy-debian-12" / "snapshot")
    ways = [SCAN.format(snapshot=snapshot, leave=leave) for leave in ("os._exit", "sys.exit")]
    direct, usual = milliseconds(*((sys.executable, "-c", way) for way in ways))
    print(f"\nusual exit: {usual / direct:.2f} times the direct one")
    assert usual > direct

"""How long the program takes to start, beside an interpreter that does nothing.

Run with `uv run pytest -m bench -s`: it prints what it measured. The bounds are ratios within
one run, because machines differ and are noisy; the numbers in docs/measurements.md come from here.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ext4audit.assemble.devices.target import Superblocks, TargetResolver
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.sources import RunCommand
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot import RecordingSource
from support.hosts.stories import HOSTS
from support.scratch import TAKEN_AT, Scratch
from support.timing import command_seconds

ROUNDS = 15

pytestmark = [pytest.mark.bench, pytest.mark.kernel]


def milliseconds(*commands: Sequence[str]) -> list[float]:
    """Return the median processor time of each command, measured in turn.

    Round by round, because a machine that becomes slow for a while must not decide a ratio. Each
    has been run once before, with its bytecode kept, as an installation has it: some environments
    forbid to write it.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(ROUNDS + 1):
        for command, taken in zip(commands, times, strict=True):
            taken.append(command_seconds(command, kept) * 1000)
    return [statistics.median(taken[1:]) for taken in times]


EMPTY = (sys.executable, "-I", "-c", "pass")
"""An interpreter that does nothing."""


def program(*arguments: str) -> tuple[str, ...]:
    """Return the command line of the installed program."""
    return (str(Path(sys.executable).with_name("ext4audit")), *arguments)


def test_version_costs_little_more_than_an_interpreter() -> None:
    """`--version` takes at most 5.5 times what an empty interpreter takes; 4 on a quiet machine."""
    empty, version = milliseconds(EMPTY, program("--version"))
    print(f"\ninterpreter {empty:.0f} ms, --version {version:.0f} ms, {version / empty:.1f} times")
    assert version <= 5.5 * empty


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

    Recorded, not counted: where the images lie on ext4 themselves, that is one dumpe2fs more.
    """
    source = RecordingSource(LiveSource())
    resolver = TargetResolver(source, take_inventory(source))
    found = [resolver.resolve(str(mount.mount_point)) for mount in mounts]
    numbers = {n for each in found if isinstance(each, Superblocks) for n in each.device_numbers}
    assemble_host(source, TAKEN_AT, only=numbers)
    return [ask.argv for ask in source.answers if isinstance(ask, RunCommand)]


def test_a_json_scan_of_five_mounts_is_quick(five_mounts: list[Scratch]) -> None:
    """A JSON scan takes at most 18 empty interpreters beside what its tools take.

    On a quiet machine it takes 12. One commit took 12.0 and 14.2 on two days on one machine: what
    else runs there decides how much of an interpreter that does nothing stays in its caches.
    """
    command = program("scan", "-f", "json", *(str(mount.mount_point) for mount in five_mounts))
    found = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    assert len(found["filesystems"]) == 5
    commands = tools_of_a_scan(five_mounts)
    assert len(commands) >= 7
    empty, scan, *each = milliseconds(EMPTY, command, *commands)
    tools = sum(each)
    own = scan - tools
    print(f"\nscan -f json {scan:.0f} ms, tools {tools:.0f} ms, own {own:.0f} ms: ", end="")
    print(f"{own / empty:.1f} interpreters of {empty:.0f} ms")
    assert own <= 18 * empty


SCAN = (
    "import sys, os; sys.argv = ['ext4audit', 'scan', '-f', 'json', '--from', {snapshot!r}]; "
    "from ext4audit.cli import run_program; code = run_program(sys.argv[1:]); "
    "sys.stdout.flush(); {leave}(code)"
)


def test_a_direct_exit_earns_its_place() -> None:
    """It saves the time in which the interpreter is torn down; `__main__` has it."""
    snapshot = str(HOSTS / "healthy-debian-12" / "snapshot")
    ways = [SCAN.format(snapshot=snapshot, leave=leave) for leave in ("os._exit", "sys.exit")]
    direct, usual = milliseconds(*((sys.executable, "-c", way) for way in ways))
    print(f"\nusual exit: {usual / direct:.2f} times the direct one")
    assert usual > direct

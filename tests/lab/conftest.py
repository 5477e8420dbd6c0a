"""Boot one guest per kernel, run all scenarios in it and return their results."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.support.boots import run_in_boots
from lab.support.kernels import KERNELS, unpack
from lab.support.machine import Disk, Machine, missing_tools
from lab.support.scenario import JsonObject, all_scenarios

QUICK_ERA = "6.1"
ERAS = os.environ.get("EXT4AUDIT_LAB_ERAS", QUICK_ERA).split(",")
"""The kernels to boot: one for the quick lab, "5.10,6.1,6.12,newest" for the full one."""
ONLY = os.environ.get("EXT4AUDIT_LAB_ONLY", "")
"""Names of the scenarios to run while developing one; all run when it is empty."""
REQUIRED = os.environ.get("EXT4AUDIT_REQUIRE_LAB") == "1"
TESTS = Path(__file__).parents[1]
DISKS = (
    *(Disk(f"raid{n:02}", "100G") for n in range(12)),
    Disk("wide", "20G"),
    Disk("through", "20G", write_cache=False),
    Disk("slow", "20G", write_bytes_per_second=30 << 20),
    Disk("nvme", "20G", bus="nvme"),
)
PATIENCE_SECONDS = 600.0
"""Time limit of one scenario."""


@dataclass(frozen=True, slots=True)
class Guest:
    """Results that the scenarios of one boot returned."""

    era: str
    release: str
    machine: Machine

    def __getitem__(self, name: str) -> JsonObject:
        """Return a scenario's result; a failure shows its error and the end of the console."""
        path = self.machine.results / f"{name}.json"
        console = self.machine.console_tail()
        assert path.exists(), f"{name} brought nothing back; the console ends:\n{console}"
        outcome = json.loads(path.read_text())
        assert "error" not in outcome, f"{outcome.get('error')}\nthe console ends:\n{console}"
        result: JsonObject = outcome["result"]
        return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the lab, and skip them with a reason if the machine lacks its tools."""
    missing = missing_tools()
    reason = f"the lab needs {', '.join(missing)}" if missing else ""
    if os.geteuid() != 0:
        reason = "the lab needs root, to see this machine's files as the guest's root would"
    below = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(below):
            item.add_marker(pytest.mark.lab)
            item.add_marker(pytest.mark.xdist_group(f"lab-{_era_of(item)}"))
            if reason and not REQUIRED:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", params=ERAS)
def any_guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Boot one of the kernels and run the scenarios that every kernel runs."""
    return _booted(str(request.param), tmp_path_factory)


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Boot the quick lab's kernel and run all scenarios."""
    return _booted(QUICK_ERA, tmp_path_factory)


def _era_of(item: pytest.Item) -> str:
    """Return the kernel a test uses: tests of one kernel share a worker, and so a boot."""
    call = getattr(item, "callspec", None)
    return str(call.params.get("any_guest", QUICK_ERA)) if call else QUICK_ERA


BOOTED: dict[str, Guest] = {}


def _booted(era: str, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Boot a kernel once per session, no matter which fixture requests it first."""
    if era not in BOOTED:
        kernel = unpack(KERNELS[era])
        directory = tmp_path_factory.mktemp(f"lab-{era}") / "machine"
        machine = Machine(kernel, directory, DISKS)
        names = [
            one.name
            for one in all_scenarios().values()
            if (era == QUICK_ERA or one.every_era) and (not ONLY or one.name in ONLY.split(","))
        ]
        run_in_boots(machine.results, names, lambda left: _boot(machine, left))
        BOOTED[era] = Guest(era, kernel.release, machine)
    return BOOTED[era]


def _boot(machine: Machine, names: Sequence[str]) -> None:
    command = f"{sys.executable} -m lab.support.inside /lab-results {' '.join(names)}"
    # On a terminal each program would draw its progress, which takes long to emulate.
    machine.run(f"cd {TESTS}; PYTHONPATH={TESTS} {command} 2>&1 | cat", PATIENCE_SECONDS)

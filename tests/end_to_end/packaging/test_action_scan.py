"""The scan step of the GitHub action, run with the program of this tree."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.hosts.fixture_hosts import HOSTS
from support.packages.action import Runner

FAILING_HOST = HOSTS / "lvm-linear-nobarrier"


def runner(folder: Path, **inputs: str) -> Runner:
    """Put the program at the path where the action installs it."""
    program = folder / "ext4audit/bin/ext4audit"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ext4audit "$@"\n')
    program.chmod(0o755)
    return Runner(folder, inputs)


@pytest.mark.parametrize("sources", ["", "\n\n"])
def test_empty_input_does_not_audit_the_runner(sources: str, tmp_path: Path) -> None:
    """An unset variable used to give a clean audit of the runner's own machine."""
    made = runner(tmp_path, **{"from": sources})
    done = made.step("Scan")
    assert done.returncode == 2
    assert "::error" in done.stdout
    assert made.output.read_text() == "exit-code=2\n"
    assert not (tmp_path / "ext4audit.sarif").exists()


def test_output_of_another_run_is_not_uploaded(tmp_path: Path) -> None:
    """A usage error used to upload the file of an older run as this run's result."""
    made = runner(tmp_path, **{"from": f"{FAILING_HOST}/snapshot", "fail-on": "bad"})
    (tmp_path / "ext4audit.sarif").write_text("{}")
    assert made.step("Scan").returncode == 2
    assert not (tmp_path / "ext4audit.sarif").exists()
    made.values["inputs.fail-on"] = "high"
    assert made.step("Scan").returncode == 0
    assert json.loads((tmp_path / "ext4audit.sarif").read_text())["runs"][0]["results"]
    assert made.step("Result").returncode == 1

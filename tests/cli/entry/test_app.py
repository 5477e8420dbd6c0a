"""The command group: version, help, and the contents of every help page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from ext4audit import __version__
from ext4audit.cli import COMMANDS
from ext4audit.rules import all_rules
from support.program import run

HELP_COMMANDS = [[], *([command] for command in COMMANDS)]


@cache
def help_page(*arguments: str, columns: str = "80") -> str:
    """Return a page of help."""
    done = run(*arguments, "-h", env={"COLUMNS": columns})
    assert done.returncode == 0
    assert done.stderr == ""
    return done.stdout


def test_version_is_one_line() -> None:
    """The line has program and version, for packagers and bug reports."""
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout == f"ext4audit {__version__}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("option", ["--version", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_output_device_is_not_a_traceback(option: str, unbuffered: str) -> None:
    """Click prints both while it parses the command line."""
    command = [sys.executable, "-m", "ext4audit", option]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    assert done.returncode == 70
    wanted = b"ext4audit: cannot write to standard output: No space left on device\n"
    assert done.stderr == wanted


@pytest.mark.parametrize("arguments", [*HELP_COMMANDS, ["fleet", "fix"]], ids=str)
def test_help_of_fail_on(arguments: list[str]) -> None:
    """It sets the exit code of commands that exit on findings, and what other commands fix."""
    page = " ".join(help_page(*arguments).split())
    if "--fail-on [" not in page:
        return
    of_findings = re.search(r"Exit codes: [^.]*\b1 (findings|at least one)", page) is not None
    assert ("Exit 1 on a " in page) is of_findings
    assert ("Fix the findings of this severity or worse." in page) is not of_findings


@pytest.mark.parametrize("arguments", HELP_COMMANDS, ids=str)
def test_help_shows_examples(arguments: list[str]) -> None:
    """The short and the long option print the same page, with commands to copy."""
    page = help_page(*arguments)
    assert page == run(*arguments, "--help").stdout
    examples = page.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples
    assert all(re.match(r"    (ssh .* \| )?ext4audit ", line) for line in examples)


@pytest.mark.parametrize("arguments", HELP_COMMANDS, ids=str)
def test_help_examples_use_existing_commands_and_rules(arguments: list[str]) -> None:
    """Copied examples work."""
    examples = help_page(*arguments).partition("Examples:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"ext4audit ([a-z]+)", examples)) <= set(COMMANDS)
    codes = {rule.code for rule in all_rules()}
    assert set(re.findall(r"\b[A-Z]{3}\d{3}\b", examples)) <= codes
    # Barriers need a remount, but by default only online remedies are applied.
    assert not re.search(r"\bfix\b.* --select DUR001(?!.* --disruption)", examples)


@pytest.mark.parametrize("arguments", HELP_COMMANDS, ids=str)
@pytest.mark.parametrize(("columns", "longest"), [("80", 80), ("300", 100)])
def test_help_fits_the_terminal(arguments: list[str], columns: str, longest: int) -> None:
    """No line exceeds the terminal or a readable length."""
    lines = help_page(*arguments, columns=columns).splitlines()
    assert max(len(line) for line in lines) <= longest


def test_help_lists_every_command() -> None:
    """Each command has its summary line."""
    page = help_page()
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", page, re.MULTILINE)


def test_help_of_scan_explains_the_exit_codes() -> None:
    """CI jobs are written from this page."""
    page = " ".join(help_page("scan").split())
    for reported in [
        "0 clean and complete",
        "1 findings",
        "2 usage",
        "3 incomplete",
        "70 internal",
    ]:
        assert reported in page


def test_every_option_of_scan_has_a_description() -> None:
    """Every option in the help has a description."""
    options = help_page("scan", columns="300").partition("Options:\n")[2].splitlines()
    starts = [line for line in options if re.match(r"^  -", line)]
    assert starts
    for line in starts:
        described = re.search(r"\S {2,}\S", line) is not None
        continued = options[options.index(line) + 1 :][:1]
        assert described or (continued and continued[0].startswith("      ")), line

"""What starting up imports: a command pays for what it uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.program import run_python

HEAVY = {"rich", "pyudev", "subprocess", "jsonschema", "ctypes", "asyncio"}
OURS = {"ext4audit.rules", "ext4audit.assemble", "ext4audit.sources", "ext4audit.renderers.text"}
SCRIPT = """
import json, sys
import click
before = set(sys.modules)
from ext4audit.cli import run_program
run_program(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command line imports, beyond what click does (uuid, platform)."""
    done = run_python("-c", SCRIPT, *arguments)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["scna"]], ids=" ".join)
def test_the_command_group_imports_no_command(arguments: list[str]) -> None:
    """Neither the rules nor the sources, nor any library but click."""
    modules = imported(*arguments)
    assert "ext4audit.cli" in modules
    assert not modules & (HEAVY | OURS)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["rules"], HEAVY | OURS - {"ext4audit.rules"}),
        (["explain", "LAY001"], HEAVY | OURS - {"ext4audit.rules"}),
        (["schema"], HEAVY | OURS),
        (["scan", "--help"], HEAVY - {"subprocess"}),
        (["scan", "-f", "json"], {"rich", "jinja2", "jsonschema", "ext4audit.renderers.text"}),
        (["scan"], {"jinja2", "jsonschema", "ext4audit.renderers.json_v1"}),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else "",
)
def test_a_command_imports_what_it_uses(arguments: list[str], absent: set[str]) -> None:
    """The JSON path does not load the text renderer's library, nor the other way about."""
    assert not imported(*arguments) & absent


def test_a_mistake_costs_no_audit() -> None:
    """A misspelt rule is refused before a library that reads the host is loaded."""
    assert not imported("scan", "--select", "LAY01") & {"rich", "pyudev"}


def test_a_host_without_udevd_does_not_load_pyudev() -> None:
    """In a container nothing is enriched, so nothing is loaded for it."""
    if Path("/run/udev/data").exists():
        pytest.skip("udevd runs here, and its properties are read by pyudev")
    assert "pyudev" not in imported("scan", "-f", "json")

"""Imports at startup: a command only loads what it uses."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from ext4audit.rules import default_rules
from support.hosts.fixture_hosts import HOSTS
from support.program import run_python

HEAVY = {"rich", "pyudev", "subprocess", "jsonschema", "ctypes", "asyncio"}
OWN_ROOMS = {
    "ext4audit.rules",
    "ext4audit.assemble",
    "ext4audit.sources",
    "ext4audit.renderers.text",
}
SCRIPT = """
import json, sys
import click
before = set(sys.modules)
from ext4audit.cli import run_program
run_program(sys.argv[1:])
sys.stderr.write("\\n" + json.dumps(sorted(set(sys.modules) - before)))
"""

FORK_FOR_EACH = """
import json, os, sys
for arguments in json.loads(sys.argv[1]):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        from ext4audit.cli import run_program
        run_program(arguments)
        names = sorted(name for name in sys.modules if name.partition(".")[0] == "ext4audit")
        os.write(writer, json.dumps(names).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        print(file.read())
    os.wait()
"""
RULE = re.compile(r"ext4audit\.rules\.[a-z]+\.[a-z]{3}[0-9]{3}_")
"""Module of a rule; a scan imports all that are on by default."""
MODULES_OF_SNAPSHOT_SCAN = {
    "healthy-debian-12": 63,
    "healthy-rhel-8": 63,
    "lvm-linear-nobarrier": 63,
    "forced-readonly-7.2": 63,
    "al2-dioread-nolock-nodelalloc": 63,
    # The layout engine counts the metadata on each member.
    "md-raid5": 69,
    "md-raid0-hot-member": 74,
}
"""Limit on own modules, except rules, that the scan of a captured host imports."""
REMEDY = re.compile(r"ext4audit\.remedies\.")
MODULES_OF_LIVE_SCAN = 60
"""The same limit for this host, except remedies, which depend on the host."""
LOADED_BY_OTHER_TESTS = "ext4audit.rules.drift.copies"
"""Module that a scan needs while another test has two filesystems with one UUID."""
LAYOUTS = 12
"""Additional modules allowed if disks are striped."""


def imported_modules(*arguments: str) -> set[str]:
    """Return the modules that a command line imports, except those of click (uuid, platform)."""
    done = run_python("-c", SCRIPT, *arguments)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], [], ["scna"]], ids=" ".join)
def test_the_command_group_imports_no_command(arguments: list[str]) -> None:
    """It imports neither rules nor sources, and no library but click."""
    modules = imported_modules(*arguments)
    assert "ext4audit.cli" in modules
    assert not modules & (HEAVY | OWN_ROOMS)


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["rules"], HEAVY | OWN_ROOMS - {"ext4audit.rules"}),
        (["explain", "LAY001"], HEAVY | OWN_ROOMS - {"ext4audit.rules"}),
        (["schema"], HEAVY | OWN_ROOMS),
        (["scan", "--help"], HEAVY - {"subprocess"}),
        (["scan", "-f", "json"], {"rich", "jinja2", "jsonschema", "ext4audit.renderers.text"}),
        (["scan"], {"jinja2", "jsonschema", "ext4audit.renderers.json_v1"}),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else "",
)
def test_a_command_imports_what_it_uses(arguments: list[str], absent: set[str]) -> None:
    """JSON does not load the text renderer's library, nor text the JSON renderer."""
    assert not imported_modules(*arguments) & absent


def test_usage_error_loads_no_audit_modules() -> None:
    """A misspelt rule is refused before libraries that read the host are loaded."""
    assert not imported_modules("scan", "--select", "LAY0001") & {"rich", "pyudev"}


def test_host_without_udevd_does_not_load_pyudev() -> None:
    """In a container devices have no udev data, so no library is loaded for it."""
    if Path("/run/udev/data").exists():
        pytest.skip("udevd runs here, and its properties are read by pyudev")
    assert "pyudev" not in imported_modules("scan", "-f", "json")


def test_scan_imports_few_own_modules() -> None:
    """Besides rules, a scan imports only what this host's evidence needs."""
    hosts = [
        ["scan", "-f", "json", "--from", str(HOSTS / name / "snapshot")]
        for name in MODULES_OF_SNAPSHOT_SCAN
    ]
    done = run_python("-c", FORK_FOR_EACH, json.dumps([["scan", "-f", "json"], *hosts]))
    live, *captured = (json.loads(line) for line in done.stdout.splitlines())
    live = [name for name in live if not REMEDY.match(name) and name != LOADED_BY_OTHER_TESTS]
    most_live = MODULES_OF_LIVE_SCAN + (LAYOUTS if "ext4audit.layout.stack" in live else 0)
    cases = [
        ("this host", live, most_live),
        *zip(MODULES_OF_SNAPSHOT_SCAN, captured, MODULES_OF_SNAPSHOT_SCAN.values(), strict=True),
    ]
    for name, modules, most in cases:
        assert "ext4audit.engine" in modules, f"no scan of {name}: {done.stderr}"
        rules = [module for module in modules if RULE.match(module)]
        assert len(rules) == len(default_rules())
        others = len(modules) - len(rules)
        assert others <= most, f"{name}: {others} modules beside rules, of {most}: {modules}"


@pytest.mark.parametrize(
    "absent",
    [
        "sources.archive.source",  # readers of sosreports and similar archives
        "sources.containers",  # tars
        "sources.live",  # this host
        "sources.fleet",
        "renderers.shared.fleet",
    ],
)
def test_snapshot_scan_imports_no_other_readers(absent: str) -> None:
    """A snapshot directory is our own format."""
    assert f"ext4audit.{absent}" not in modules_of_snapshot_scan()


@cache
def modules_of_snapshot_scan() -> frozenset[str]:
    """Return the modules that the scan of a snapshot directory imports."""
    snapshot = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
    return frozenset(imported_modules("scan", "-f", "json", "--from", snapshot))

"""Mount points with hostile names: the scan finishes, and no output contains them raw."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from ext4audit.evidence import need
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Outcome
from support.filesystems.scratch import Scratch, apply_remedy
from support.timing import PATIENCE_SECONDS

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]

NAMES = [
    b"with blank",
    b"new\nline",
    b"esc\x1b[31mred",
    b"$(touch /tmp/pwned)",
    b"[/red]bold[bold]",
    b"byte\xff",
    b"-rf",
    b"tab\there",
    b"back\\slash \\040",
    b"::error::'quote\"`id`",
    "bidi\u202eabc\u2028".encode(),
]


def cli(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user would, with output to a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "ext4audit", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_mount_point_is_shown_escaped_and_audited(scratch: Make, name: bytes) -> None:
    """No control byte of a mount point reaches the terminal, and the finding is reported."""
    one = scratch(name).make().mount("nobarrier")
    done = cli("scan", one.device, "--select", "DUR001", "--color", "always")
    assert done.returncode == 1, done.stderr
    assert b"DUR001" in done.stdout
    without_style = re.sub(rb"\x1b\[[0-9;]*m", b"", done.stdout)
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", without_style)
    shown = without_style.decode("utf-8")
    assert not re.search("[\x80-\x9f\u202a-\u202e\u2028\u2029\ud800-\udfff]", shown)


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_mount_point_round_trips_through_json(scratch: Make, name: bytes) -> None:
    """JSON stays valid, and contains bytes that are not UTF-8 in base64."""
    one = scratch(name).make().mount()
    document = json.loads(cli("scan", "-f", "json", one.device).stdout.decode("ascii"))
    (shown,) = document["filesystems"]
    points = shown["mount_points"]
    raw = shown.get("mount_points_b64", [None])[0]
    found = base64.b64decode(raw) if raw else points[0].encode()
    assert found.endswith(b"/" + name)


@pytest.mark.parametrize("name", NAMES)
def test_printed_commands_work_for_a_hostile_mount_point(scratch: Make, name: bytes) -> None:
    """The remedy's commands, as printed, cure the finding for any name of the mount point."""
    one = scratch(name).make().mount("nobarrier")
    verdict = one.judge("DUR001")
    assert verdict.outcome is Outcome.FAIL
    remedy = verdict.findings[0].remedies[0]
    assert all(step.command.isascii() and step.command.isprintable() for step in remedy.steps)
    apply_remedy(remedy)
    assert one.judge("DUR001").outcome is Outcome.PASS


def test_a_hostile_path_as_target_is_echoed_escaped() -> None:
    """An error message about a path escapes its control characters."""
    done = cli("scan", "/nowhere/\x1b[31m\n$(id)")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        b"ext4audit: /nowhere/\\x1b[31m\\x0a$(id): does not exist"
    )


def test_the_device_number_of_a_scan_is_that_of_the_mount(scratch: Make) -> None:
    """The audited device is the one that the mount table lists."""
    one = scratch().make().mount()
    number = one.mount_point.stat().st_dev
    fs = one.filesystem()
    assert fs.device_number == DeviceNumber(number >> 8 & 0xFFF, number & 0xFF)
    assert need(fs.stack).device_number == fs.device_number

"""A filesystem that another mount namespace holds: it is seen, and its holder found as advised."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ext4audit.report import Outcome
from support.scratch import Scratch, judge_host, run, scan

pytestmark = pytest.mark.kernel


@contextmanager
def holder() -> Iterator[int]:
    """Run a process in a mount namespace of its own, a copy of this one's."""
    script = "mount --make-rprivate / && echo ready && exec cat"
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_the_advised_command_finds_the_holder(scratch: Callable[..., Scratch]) -> None:
    """It looks unmounted here and is alive: /proc tells which process still has it mounted."""
    one = scratch().make().mount()
    device = one.device
    with holder() as pid:
        run("umount", one.mount_point)
        assert not os.path.ismount(one.mount_point)
        verdict = judge_host(scan(device), "DRF005")
        assert verdict.outcome is Outcome.FAIL
        (finding,) = verdict.findings
        command = re.search(r"grep -l '[^']+' \S+mountinfo", finding.remedies[0].summary)
        assert command is not None
        found = run("sh", "-c", f"{command[0]} 2>/dev/null || true").split()
        assert f"/proc/{pid}/mountinfo" in found

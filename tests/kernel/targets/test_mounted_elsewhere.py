"""A filesystem held by another mount namespace: the advised command finds its holder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import pytest

from ext4audit.report import Outcome
from support.filesystems.mounts import other_mount_namespace
from support.filesystems.scratch import Scratch, judge_host, run, scanned_host

pytestmark = pytest.mark.kernel


def test_the_advised_command_finds_the_holder(scratch: Callable[..., Scratch]) -> None:
    """It looks unmounted but is alive: /proc shows which process still has it mounted."""
    one = scratch().make().mount()
    device = one.device
    with other_mount_namespace() as pid:
        run("umount", one.mount_point)
        assert not os.path.ismount(one.mount_point)
        verdict = judge_host(scanned_host(device), "DRF005")
        assert verdict.outcome is Outcome.FAIL
        (finding,) = verdict.findings
        command = re.search(r"grep -l '[^']+' \S+mountinfo", finding.remedies[0].summary)
        assert command is not None
        found = run("sh", "-c", f"{command[0]} 2>/dev/null || true").split()
        assert f"/proc/{pid}/mountinfo" in found

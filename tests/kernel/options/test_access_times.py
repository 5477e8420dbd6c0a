"""Access time behavior of a mount with several options for it, in every order."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from ext4audit.facts.mount import ATIME_OPTIONS, intended_flags
from support.filesystems.scratch import Scratch, run
from support.timing import PATIENCE_SECONDS

pytestmark = pytest.mark.kernel
WORDS = sorted({*ATIME_OPTIONS, "nostrictatime"})


def mounted(device: str, place: Path, options: str) -> str | None:
    """Return a mount's access time flag, or None if the mount is refused."""
    argv = ("mount", "-i", "--options-source=disable", "-t", "ext4", "-o", options, device, place)
    if subprocess.run(argv, capture_output=True, check=False, timeout=PATIENCE_SECONDS).returncode:
        return None
    shown = run("findmnt", "-no", "VFS-OPTIONS", "-M", place).strip().split(",")
    run("umount", place)
    return next((flag for flag in ("noatime", "relatime") if flag in shown), "strictatime")


def test_fstab_intends_the_access_times_that_a_mount_gets(
    scratch: Callable[..., Scratch], tmp_path: Path
) -> None:
    """Options that mount(8) refuses are skipped; the superblock is kept for quick mounts."""
    device = scratch().make(size="8M").mount().device
    place = tmp_path / "other"
    place.mkdir()
    wrong = []
    for words in (words for count in (1, 2) for words in permutations(WORDS, count)):
        flag = mounted(device, place, ",".join(words))
        if flag is not None and intended_flags(words) != {flag}:
            wrong.append((words, flag))
    assert not wrong, str(wrong)

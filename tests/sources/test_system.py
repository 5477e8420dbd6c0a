"""What the kernel says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ext4audit.evidence import Known
from ext4audit.sources.ask import EffectiveUser, Uname, VirtualMemory
from ext4audit.sources.live import LiveSource


def test_uname_has_four_lines_in_order() -> None:
    """Release, version, machine and node name are those of /proc and uname(1)."""
    answer = LiveSource().fetch(Uname())
    assert isinstance(answer, Known)
    release, version, machine, node = answer.value.split("\n", 3)
    assert release == Path("/proc/sys/kernel/osrelease").read_text().strip()
    assert version == Path("/proc/sys/kernel/version").read_text().strip()
    assert machine == subprocess.check_output(["uname", "-m"], text=True).strip()
    assert node == Path("/proc/sys/kernel/hostname").read_text().rstrip("\n")


def test_the_effective_user_is_a_number() -> None:
    """The user that asks is the user of this process."""
    assert LiveSource().fetch(EffectiveUser()) == Known(str(os.geteuid()), "effective user")


def test_memory_is_in_bytes() -> None:
    """The total is MemTotal of /proc/meminfo in bytes, and no more than that is available."""
    answer = LiveSource().fetch(VirtualMemory())
    assert isinstance(answer, Known)
    total, available = map(int, answer.value.split("\n"))
    kib = Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0]
    assert total == int(kib) * 1024
    assert 0 < available <= total


def test_the_libraries_are_loaded_when_they_are_asked_for() -> None:
    """Importing the live source costs no start-up time for psutil, pyudev and ctypes."""
    script = "import sys, ext4audit.sources.live as _; print(*sorted(sys.modules))"
    loaded = subprocess.check_output([sys.executable, "-c", script], text=True).split()
    assert {"psutil", "pyudev", "ctypes"}.isdisjoint(loaded)
    assert "ext4audit.sources.udev" in loaded

"""The udev database, through the real libudev."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources.ask import UdevDatabase
from ext4audit.sources.live import LiveSource
from ext4audit.sources.udev import property_lines

ASK = """
import sys
from ext4audit.sources.ask import UdevDatabase
from ext4audit.sources.live import LiveSource
print(ascii(LiveSource().fetch(UdevDatabase(sys.argv[1]))))
"""


def block_device() -> str:
    """Choose a block device that this machine has."""
    devices = sorted(Path("/sys/dev/block").iterdir())
    if not devices:
        pytest.skip("no block device in /sys/dev/block")
    return devices[0].name


def test_the_kernels_own_properties_are_there_without_udevd() -> None:
    """MAJOR and MINOR are those that were asked for; the lines are sorted."""
    number = block_device()
    answer = LiveSource().fetch(UdevDatabase(number))
    if isinstance(answer, Unknown) and answer.why is Why.UNSUPPORTED:
        pytest.skip("no libudev")
    assert isinstance(answer, Known)
    lines = answer.value.split("\n")
    major, minor = number.split(":")
    assert {f"MAJOR={major}", f"MINOR={minor}", "SUBSYSTEM=block"} <= set(lines)
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("number", "why", "detail"),
    [
        ("4095:1048575", Why.ABSENT, "no block device 4095:1048575"),
        ("8:0\n", Why.FAILED, "not a device number: major:minor"),
        ("../8:0", Why.FAILED, "not a device number: major:minor"),
        ("\u0668:0", Why.FAILED, "not a device number: major:minor"),
    ],
)
def test_a_device_that_is_not_there_is_unknown(number: str, why: Why, detail: str) -> None:
    """Neither a missing device nor a text that is no number raises."""
    answer = LiveSource().fetch(UdevDatabase(number))
    assert answer == Unknown(f"udev database of {number}", why, detail)


def test_a_number_beyond_the_kernels_range_is_absent() -> None:
    """A number that no dev_t holds is no device."""
    answer = LiveSource().fetch(UdevDatabase("9999999999:0"))
    assert isinstance(answer, Unknown)
    assert answer.why is Why.ABSENT


def test_a_newline_does_not_make_a_line() -> None:
    """A value with a newline stays one line, so that it cannot set another key."""
    text = property_lines({"ID_FS_LABEL": "x\nDM_NAME=evil", "A": "1"})
    assert text == "A=1\nID_FS_LABEL=x\\x0aDM_NAME=evil"


def without_libudev(directory: Path) -> dict[str, str]:
    """Make an environment with a damaged libudev, and a `gcc` of the user's that leaves a trace."""
    (directory / "libudev.so.1").write_bytes(b"not a library")
    compiler = directory / "gcc"
    compiler.write_text(f"#!/bin/sh\n: >{directory}/ran\n")
    compiler.chmod(0o755)
    path = f"{directory}:{os.environ['PATH']}"
    return {**os.environ, "LD_LIBRARY_PATH": str(directory), "PATH": path}


def test_a_damaged_libudev_is_unsupported(tmp_path: Path) -> None:
    """The hint names the package to install."""
    printed = subprocess.check_output(
        [sys.executable, "-c", ASK, "8:0"], text=True, env=without_libudev(tmp_path)
    )
    assert "UNSUPPORTED" in printed
    assert "install libudev (Debian: libudev1, RHEL: systemd-libs)" in printed


@pytest.mark.kernel
def test_no_compiler_of_the_user_is_run_to_find_libudev(tmp_path: Path) -> None:
    """Where the loader's cache has no libudev, ctypes would search with `gcc` of the PATH."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    script = 'mount --bind /dev/null /etc/ld.so.cache && exec "$0" -c "$1" 8:0'
    printed = subprocess.check_output(
        ["unshare", "-m", "sh", "-c", script, sys.executable, ASK],
        text=True,
        env=without_libudev(tmp_path),
    )
    assert "UNSUPPORTED" in printed
    assert not (tmp_path / "ran").exists()


DATABASE = """
mount -t tmpfs run /run && mkdir -p /run/udev/data &&
printf 'I:1\\nE:ID_FS_TYPE=ext4\\nE:ID_FS_LABEL=\\377\\n' >"/run/udev/data/b$1" &&
exec "$2" -c "$3" "$1"
"""


@pytest.mark.kernel
def test_udevds_properties_are_given_as_they_are() -> None:
    """What udevd stored is read, and a label that is not UTF-8 is no error."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    if not Path("/run").is_dir():
        pytest.skip("no /run")
    number = block_device()
    printed = subprocess.check_output(
        ["unshare", "-m", "sh", "-c", DATABASE, "sh", number, sys.executable, ASK], text=True
    )
    assert "\\nID_FS_LABEL=\\udcff\\n" in printed
    assert "\\nID_FS_TYPE=ext4\\n" in printed

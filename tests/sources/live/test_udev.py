"""The udev database, read with the real libudev."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.sources import UdevDatabase, Unanswered
from ext4audit.sources.live import LiveSource, UdevReader, property_lines

ASK = """
import sys
from pathlib import Path
from ext4audit.sources.live import UdevReader
from ext4audit.sources import Unanswered
try:
    print(ascii(UdevReader(Path("/")).properties(sys.argv[1])))
except Unanswered as unanswered:
    print(unanswered.why, unanswered.hint)
"""


def block_device() -> str:
    """Return the number of a block device of this machine."""
    devices = sorted(Path("/sys/dev/block").iterdir())
    if not devices:
        pytest.skip("no block device in /sys/dev/block")
    return devices[0].name


def ask_libudev(directory: Path, number: str) -> str:
    """Ask libudev, whether or not udevd runs on this machine."""
    try:
        return UdevReader(directory).properties(number)
    except Unanswered as unanswered:
        if unanswered.why is Why.UNSUPPORTED:
            pytest.skip("no libudev")
        raise


def test_the_kernels_own_properties_are_among_them(tmp_path: Path) -> None:
    """MAJOR and MINOR are those of the requested device; the lines are sorted."""
    number = block_device()
    lines = ask_libudev(tmp_path, number).split("\n")
    major, minor = number.split(":")
    assert {f"MAJOR={major}", f"MINOR={minor}", "SUBSYSTEM=block"} <= set(lines)
    assert lines == sorted(lines)


@pytest.mark.parametrize("number", ["8:0\n", "../8:0", "\u0668:0"])
def test_what_is_no_device_number_is_unknown(number: str) -> None:
    """A text that is not major:minor in ASCII digits is unknown, and no exception is raised."""
    answer = LiveSource().fetch(UdevDatabase(number))
    detail = "not a device number: major:minor"
    assert answer == Unknown(f"udev database of {number}", Why.FAILED, detail)


@pytest.mark.parametrize(
    ("number", "detail"),
    [
        ("4095:1048575", "no block device 4095:1048575"),
        ("9999999999:0", "no such device number: "),
    ],
    ids=["no such device", "more than a dev_t holds"],
)
def test_a_device_that_is_not_there_is_absent(tmp_path: Path, number: str, detail: str) -> None:
    """A number without a device is unknown with a reason, and no library error is raised."""
    with pytest.raises(Unanswered, match=detail) as unanswered:
        ask_libudev(tmp_path, number)
    assert unanswered.value.why is Why.ABSENT


def test_without_udevd_the_library_is_not_loaded(tmp_path: Path) -> None:
    """The reason names what is missing; the scan of a container does not pay for pyudev."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from ext4audit.sources.live import UdevReader\n"
        "try:\n"
        "    UdevReader(Path(sys.argv[1])).properties('8:0')\n"
        "except Exception as lack:\n"
        "    print(lack.why.value, lack.detail, 'pyudev' in sys.modules)\n"
    )
    missing = tmp_path / "data"
    printed = subprocess.check_output([sys.executable, "-c", script, str(missing)], text=True)
    assert printed == f"absent no udevd has run here: no {missing} False\n"


def test_a_newline_does_not_make_a_line() -> None:
    """A value with a newline stays one line, so it cannot set another key."""
    text = property_lines({"ID_FS_LABEL": "x\nDM_NAME=evil", "A": "1"})
    assert text == "A=1\nID_FS_LABEL=x\\x0aDM_NAME=evil"


def without_libudev(directory: Path) -> dict[str, str]:
    """Return an environment with a damaged libudev, and a user's `gcc` that leaves a trace."""
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
    """If the loader's cache has no libudev, ctypes would search with the `gcc` in PATH."""
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
    """The stored properties are read, and a label that is not UTF-8 is no error."""
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

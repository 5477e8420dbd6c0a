from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit import __version__
from support.packages.built import needs, run, succeed
from support.packages.chroot import Chroot, chroot, differing
from support.packages.containerfile import Image

pytestmark = pytest.mark.packages

UNSIGNED = 'Filters = ["no-signature"]\n'
"""The package is signed by whoever publishes it."""


@pytest.fixture
def system(image: Image, tmp_path: Path) -> Iterator[Chroot]:
    """Build a system with Python and without the libraries, with its own rpm database."""
    with chroot(tmp_path, image.layer) as made:
        yield made


def test_rpmlint_finds_no_error(rpm: Path, tmp_path: Path) -> None:
    """The package follows rpm's policy."""
    (tmp_path / "rpmlint.toml").write_text(UNSIGNED)
    env = {**os.environ, "HOME": str(tmp_path)}  # Debian's rpm creates a database there
    done = run(needs("rpmlint"), "-c", tmp_path / "rpmlint.toml", rpm, env=env)
    assert done.returncode == 0, done.stdout
    assert " 0 errors," in done.stdout


def test_requires_only_an_interpreter(rpm: Path, tmp_path: Path) -> None:
    """Enterprise Linux has Python 3.11 and 3.12 without the libraries."""
    needed = succeed("rpm", "--dbpath", tmp_path, "-qp", "--requires", rpm).splitlines()
    assert [each for each in needed if not each.startswith("rpmlib(")] == [
        "(python3 >= 3.10 or python3.14 or python3.13 or python3.12 or python3.11)",
        "/bin/sh",
        "/bin/sh",
        "/bin/sh",
        "/bin/sh",
    ]


@pytest.mark.xdist_group("chroot")
def test_install_run_and_erase_leave_no_traces(rpm: Path, system: Chroot) -> None:
    """Its scripts run in the system; its dependencies are another distribution's (--nodeps)."""
    before = system.files()
    manage = (needs("rpm"), "--root", system.root, "--dbpath", "/var/lib/rpm")
    succeed(*manage, "--nodeps", "-i", rpm)
    assert system.succeed("ext4audit", "--version") == f"ext4audit {__version__}\n"
    scan = system.run("ext4audit", "scan", "-f", "text")
    assert scan.returncode in {0, 1, 3}, scan.stderr
    assert scan.stdout.splitlines()[-1].endswith("complete.")
    assert system.run("systemctl", "is-enabled", "ext4audit.timer").stdout == "disabled\n"
    assert list(system.root.glob("usr/lib/ext4audit/click/__pycache__/*.pyc"))
    succeed(*manage, "-e", "ext4audit")
    assert differing(before, system.files()) == []


@pytest.mark.xdist_group("chroot")
def test_upgrade_keeps_bytecode_and_erase_keeps_records(rpm: Path, system: Chroot) -> None:
    """The old package's scripts run after the new files are written; --undo needs the records."""
    manage = (needs("rpm"), "--root", system.root, "--dbpath", "/var/lib/rpm")
    succeed(*manage, "--nodeps", "-i", rpm)
    succeed(*manage, "--nodeps", "-U", "--force", rpm)
    assert list(system.root.glob("usr/lib/ext4audit/click/__pycache__/*.pyc"))
    state = system.root / "var/lib/ext4audit"
    state.mkdir()
    for name in ("report.json", "ext4audit.prom", "fix-abc.state"):
        (state / name).touch()
    succeed(*manage, "-e", "ext4audit")
    assert [path.name for path in state.iterdir()] == ["fix-abc.state"]

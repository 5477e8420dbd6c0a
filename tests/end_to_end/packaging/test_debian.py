from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit import __version__
from support.packages.built import needs, run, succeed
from support.packages.chroot import Chroot, chroot, differing
from support.packages.containerfile import Image

pytestmark = [pytest.mark.packages, pytest.mark.xdist_group("chroot")]

TIMER = "ext4audit.timer"
CACHE = "/var/cache"
STATE = "/var/lib/ext4audit"
RUN_SERVICE = (
    f"systemctl enable --now {TIMER}; systemctl start ext4audit.service; "
    "systemctl show -p Result --value ext4audit.service; "
    "journalctl -q -u ext4audit.service -o cat; "
    "ext4audit scan -f json -o /var/plain.json"
)


@pytest.fixture(scope="module")
def debian(deb: Path, image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chroot]:
    """Build a Debian 12 with the package's dependencies, without the package."""
    with chroot(tmp_path_factory.mktemp("debian"), image.layer) as system:
        shutil.copy(deb, system.root / CACHE[1:] / deb.name)
        system.succeed("apt-get", "update", "-q")
        install = ("apt-get", "install", "-q", "-y", "--no-install-recommends", "e2fsprogs")
        system.succeed(*install, *_dependencies(deb))
        yield system


def _dependencies(deb: Path) -> list[str]:
    """Return the packages that it depends on; of alternatives, the first."""
    clauses = succeed("dpkg-deb", "-f", deb, "Depends").strip().split(", ")
    return sorted({clause.split(" ")[0] for clause in clauses})


def test_lintian_finds_no_error(deb: Path) -> None:
    """The package follows Debian's policy."""
    lintian = needs("lintian")
    done = run(lintian, "--allow-root", "--fail-on", "error", deb)
    assert done.returncode == 0, done.stdout


def test_dependencies_are_packages_of_the_distribution(deb: Path) -> None:
    """The package contains none of them."""
    assert {"python3-click", "python3-jinja2", "python3-pyudev", "python3-rich"} < set(
        _dependencies(deb)
    )
    listing = succeed("dpkg-deb", "-c", deb)
    assert "/ext4audit/cli/scan.py" in listing
    assert "/click/" not in listing


def test_install_run_and_purge_leave_no_traces(debian: Chroot, deb: Path) -> None:
    """The package is installed by apt with its timer off; systemd runs the service under limits."""
    before = debian.files()
    debian.succeed("apt-get", "install", "-q", "-y", f"{CACHE}/{deb.name}")
    assert debian.run("systemctl", "is-enabled", TIMER).stdout == "disabled\n"
    assert debian.succeed("ext4audit", "--version") == f"ext4audit {__version__}\n"
    scan = debian.run("ext4audit", "scan")
    assert scan.returncode in {0, 1, 3}, scan.stderr
    assert scan.stdout.splitlines()[-1].endswith("complete.")
    assert debian.succeed("dpkg", "--verify", "ext4audit") == ""

    output = debian.boot(RUN_SERVICE)
    assert "\nsuccess\n" in f"\n{output}", output
    report, plain = (
        json.loads((debian.root / path.lstrip("/")).read_text())
        for path in (f"{STATE}/report.json", "/var/plain.json")
    )
    assert _data(report) == _data(plain)
    assert "ext4audit_host_readable" in (debian.root / f"{STATE[1:]}/ext4audit.prom").read_text()

    assert debian.run("systemctl", "is-enabled", TIMER).stdout == "enabled\n"
    debian.succeed("apt-get", "purge", "-q", "-y", "ext4audit")
    assert differing(before, debian.files()) == []


def _data(report: dict[str, object]) -> object:
    """Return a report's data about the filesystem on /srv/data, except numbers that change."""
    filesystems, verdicts = report["filesystems"], report["verdicts"]
    assert isinstance(filesystems, list)
    assert isinstance(verdicts, list)
    (ours,) = (fs for fs in filesystems if fs["mount_points"] == ["/srv/data"])
    of_it = [verdict for verdict in verdicts if verdict["filesystem"] == ours["id"]]
    gaps = [unknown for verdict in of_it for unknown in verdict["unknowns"]]
    outcomes = [(verdict["rule"], verdict["outcome"]) for verdict in of_it]
    return ours["options"], outcomes, gaps

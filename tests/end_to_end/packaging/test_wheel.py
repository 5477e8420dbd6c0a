from __future__ import annotations

import tarfile
import zipfile
from collections import Counter
from email.parser import BytesParser
from pathlib import Path

import pytest

from ext4audit import __version__
from support.hosts.fixture_hosts import HOSTS
from support.packages.built import interpreters, run, succeed

pytestmark = pytest.mark.packages

COLLECTION_FILES = (
    "ansible_collections/ext4audit/audit/README.md",
    "ansible_collections/ext4audit/audit/roles/audit/README.md",
)
SNAPSHOT = HOSTS / "healthy-debian-12" / "snapshot"


def test_registries_accept_wheel_and_sdist(wheel: Path, sdist: Path) -> None:
    """The metadata is valid, and the description can be rendered."""
    output = succeed("uvx", "-q", "twine==7.0.0", "check", "--strict", wheel, sdist)
    assert output.count("PASSED") == 2


def test_content_of_the_wheel(wheel: Path) -> None:
    """It has no stray files, tests or bytecode; only the collection has duplicates, as it must."""
    succeed("uvx", "-q", "check-wheel-contents==0.6.3", "--ignore", "W002", wheel)
    with zipfile.ZipFile(wheel) as packed:
        sums = Counter((each.CRC, each.file_size) for each in packed.infolist() if each.file_size)
        twice = {Path(e.filename).name for e in packed.infolist() if sums[e.CRC, e.file_size] > 1}
    assert twice == {"LICENSE", "snapshot.py", "snapshot_action.py"}


def test_metadata_is_complete(wheel: Path) -> None:
    """It names authors, purpose, licence and supported interpreters."""
    with zipfile.ZipFile(wheel) as packed:
        raw = packed.read(f"ext4audit-{__version__}.dist-info/METADATA")
        names = packed.namelist()
    metadata = BytesParser().parsebytes(raw)
    assert metadata["Author"] == "the ext4audit authors"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    readmes = [name for name in names if "README" in name]
    assert sorted(name.partition(".data/data/")[2] for name in readmes) == [
        *(f"share/{name}" for name in COLLECTION_FILES),
        "share/doc/ext4audit/rules/README.md",  # index of the neighbouring pages
    ]


def test_the_sdist_builds_the_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Distributors build from the sdist, and get the same files."""
    succeed("uv", "build", "-q", "--wheel", "--out-dir", tmp_path, sdist)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(built) as theirs:
        assert ours.namelist() == theirs.namelist()
    with tarfile.open(sdist) as packed:
        readmes = [name for name in packed.getnames() if name.endswith("README.md")]
    assert [name.partition("/")[2] for name in sorted(readmes)] == [
        "README.md",
        "docs/rules/README.md",
        *(f"share/{name}" for name in COLLECTION_FILES),
    ]


@pytest.mark.parametrize("python", interpreters())
def test_install_into_a_new_environment(wheel: Path, tmp_path: Path, python: str) -> None:
    """It is installed into a new environment, with its libraries, man pages and completions."""
    venv = tmp_path / "venv"
    succeed("uv", "venv", "-q", "--python", python, venv)
    succeed("uv", "pip", "install", "-q", "--python", venv / "bin/python", wheel)
    done = run(venv / "bin/ext4audit", "scan", "--from", SNAPSHOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("complete.")
    for path in ("man/man1/ext4audit-scan.1", "bash-completion/completions/ext4audit"):
        assert (venv / "share" / path).is_file()

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from ext4audit import __version__
from support.packages.built import ROOT, succeed

pytestmark = pytest.mark.packages


def test_every_file_has_a_checksum(dist: Path) -> None:
    """Every file has a checksum in SHA256SUMS, and there are no other files."""
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {path.name: path for path in dist.iterdir() if path.name != "SHA256SUMS"}
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert listed == found
    assert {path.suffix for path in files.values()} == {
        ".whl", ".gz", ".pyz", ".deb", ".rpm", ".json",
    }  # fmt: skip


def test_bill_of_materials_lists_vendored_libraries(dist: Path) -> None:
    """Each library is listed with its version and hashes, and the program with its version."""
    bill = json.loads((dist / "ext4audit.cdx.json").read_text())
    program = bill["metadata"]["component"]
    assert (program["name"], program["version"]) == ("ext4audit", __version__)
    exported = succeed("uv", "export", "-q", "--locked", "--no-dev", "--no-emit-project", cwd=ROOT)
    pinned = {line.split(" ")[0] for line in exported.splitlines() if "==" in line}
    listed = {f"{each['name']}=={each['version']}" for each in bill["components"]}
    assert listed == pinned
    assert all(each["externalReferences"][0]["hashes"] for each in bill["components"])


def test_every_vendored_library_has_a_licence(one_file: Path) -> None:
    """Each vendored library includes its licence."""
    with zipfile.ZipFile(one_file) as packed:
        parts = [name.split("/") for name in packed.namelist() if ".dist-info/" in name]
    libraries = {folder for folder, *_ in parts}
    licensed = {folder for folder, *names in parts if re.match("LICEN[CS]E|COPYING", names[-1])}
    assert len(libraries) > len("click jinja2 rich pyudev".split())
    assert libraries - licensed == set()

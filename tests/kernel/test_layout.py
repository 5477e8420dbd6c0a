"""`ext4audit layout` of a mounted filesystem, by its mount point and by its device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.filesystems.scratch import Scratch
from support.images.mke2fs import read_table
from support.program import run

pytestmark = pytest.mark.kernel
DESCRIBED = ("--members", "4", "--chunk", "64K")


@pytest.fixture
def mounted(tmp_path: Path, private_mounts: None) -> Scratch:  # noqa: ARG001 - a fixture that acts
    """Mount a filesystem of many small groups on a loop device."""
    return Scratch(tmp_path / "image", tmp_path / "mnt").make("-b", "1024", "-g", "1024").mount()


def test_a_mount_point_and_its_device_show_the_same_layout(mounted: Scratch) -> None:
    """Both are read from the device's descriptors; a loop device is one member."""
    try:
        pages = [
            run("layout", str(place), "-f", "json")
            for place in (mounted.mount_point, mounted.device)
        ]
        table = read_table(Path(mounted.device))
    finally:
        mounted.unmount()
    first, second = (json.loads(page.stdout) for page in pages)
    assert first == second
    assert first["layout"]["groups"] == table.groups
    (member,) = first["layout"]["members"]
    assert member["block_bitmaps"] == table.groups
    assert first["counsel"] is None


def test_an_array_that_the_machine_does_not_show_is_described(mounted: Scratch) -> None:
    """A RAID controller's disk is mapped to the given members."""
    try:
        page = run("layout", mounted.device, *DESCRIBED, "-f", "json")
    finally:
        mounted.unmount()
    layout = json.loads(page.stdout)["layout"]
    assert [member["name"] for member in layout["members"]] == [f"member {n}" for n in range(4)]
    assert sum(member["block_bitmaps"] for member in layout["members"]) == layout["groups"]

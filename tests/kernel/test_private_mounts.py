"""Mounts visible to tests: names are read whole, and mounts of others are detached."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.filesystems.mounts import detach_unneeded_mounts, mount_table
from support.filesystems.scratch import run

ODD_NAMES = ["NEL \x85", "separator \u2028", "override \u202e", "return \r", "newline \n", "\\040"]


def mount_points() -> set[str]:
    """Return the mount points of this process."""
    return {line.mount_point for line in mount_table()}


@pytest.mark.kernel
@pytest.mark.usefixtures("private_mounts")
@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_mount_of_any_name_is_seen_and_detached(name: str, tmp_path: Path) -> None:
    """Mounts that the system and the tests need are kept."""
    place = tmp_path / name
    place.mkdir()
    run("mount", "-t", "tmpfs", "odd", place)
    before = mount_points()
    assert str(place) in before
    detach_unneeded_mounts()
    assert str(place) not in mount_points()
    assert {"/", "/proc", "/sys", "/dev"} & before <= mount_points()

"""Fixtures of the tests that mount real filesystems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.scratch import Scratch, run


@pytest.fixture
def scratch(tmp_path: Path, private_mounts: None) -> Iterator[Callable[..., Scratch]]:  # noqa: ARG001
    """Return a maker of scratch filesystems, all unmounted in the end."""
    made: list[Scratch] = []

    def make(name: str | bytes = "mnt") -> Scratch:
        text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
        one = Scratch(tmp_path / f"image{len(made)}", tmp_path / text)
        made.append(one)
        return one

    yield make
    for one in made:
        one.unmount()


@pytest.fixture
def etc(tmp_path: Path, private_mounts: None) -> Iterator[Path]:  # noqa: ARG001
    """Put a copy of /etc in the place of /etc, and return its fstab: remedies edit it.

    The directory is bound and not the file, because `sed -i` renames.
    """
    copy = tmp_path / "etc"
    run("cp", "-a", "/etc", copy)
    run("mount", "--bind", copy, "/etc")
    yield Path("/etc/fstab")
    run("umount", "/etc")

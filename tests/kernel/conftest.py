"""Fixtures of the tests that mount real filesystems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ext4audit.sources.timeouts import one_helper
from support.filesystems.mounts import private_etc_command
from support.filesystems.scratch import Scratch, run


@pytest.fixture(autouse=True)
def one_helper_of_all_audits() -> Iterator[None]:
    """Let all audits of a test share the process that reads files, as those of a scan do."""
    with one_helper():
        yield


@pytest.fixture
def scratch(tmp_path: Path, private_mounts: None) -> Iterator[Callable[..., Scratch]]:  # noqa: ARG001
    """Return a function that builds scratch filesystems; unmount them all at the end."""
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
    """Redirect changes of /etc to a folder, and return its fstab: remedies edit it.

    The whole directory is redirected, because `sed -i` renames the file.
    """
    run("sh", "-c", private_etc_command(tmp_path))
    yield Path("/etc/fstab")
    run("umount", "/etc")

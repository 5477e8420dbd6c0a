"""The content of a workspace, and its complete removal."""

from __future__ import annotations

import errno
import os
import signal
from collections import namedtuple
from pathlib import Path

import pytest

from ext4audit.facts import MIB
from ext4audit.probing.workspace import (
    PREFIX,
    Refused,
    leftovers,
    opened_directory,
    workspace,
    writable_space,
)


def test_only_its_owner_can_enter_it(tmp_path: Path) -> None:
    """The directory has mode 0700, and its files 0600."""
    with opened_directory(str(tmp_path)) as parent, workspace(parent) as room:
        (made,) = tmp_path.iterdir()
        assert made.name == room.name
        assert leftovers(parent) == (room.name,)
        assert made.stat().st_mode & 0o777 == 0o700
        with room.file("a"):
            assert (made / "a").stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.iterdir())


def test_all_of_it_is_removed(tmp_path: Path) -> None:
    """Folders, files and links are removed; the target of a link stays."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with opened_directory(str(tmp_path)) as parent, workspace(parent) as room:
        inside = tmp_path / room.name
        (inside / "folder" / "deep").mkdir(parents=True)
        (inside / "folder" / "deep" / "file").touch()
        (inside / "link").symlink_to(tmp_path / "other")
    assert [path.name for path in tmp_path.rglob("*")] == ["other", "file"]


def test_names_are_new_and_no_link_is_followed(tmp_path: Path) -> None:
    """A file or link that someone else created there is not written to."""
    with opened_directory(str(tmp_path)) as parent, workspace(parent) as room:
        (tmp_path / room.name / "a").symlink_to(tmp_path / "target")
        with pytest.raises(FileExistsError):
            room.create("a")
    assert not (tmp_path / "target").exists()


def _interrupted(directory: Path, number: signal.Signals) -> None:
    with opened_directory(str(directory)) as parent, workspace(parent) as room:
        room.create("a")
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_it(tmp_path: Path, number: signal.Signals) -> None:
    """The signals that end a program interrupt it, and the handlers are restored."""
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path, number)
    assert not list(tmp_path.iterdir())
    assert signal.getsignal(number) is before


def test_a_directory_that_took_its_name_stays(tmp_path: Path) -> None:
    """If the workspace was renamed and replaced, its content is removed, and both names stay."""
    with opened_directory(str(tmp_path)) as parent, workspace(parent) as room:
        here = tmp_path / room.name
        here.rename(tmp_path / "moved")
        here.symlink_to(tmp_path / "moved")
    assert {path.name for path in tmp_path.iterdir()} == {"moved", room.name}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EPERM])
def test_what_cannot_be_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A read-only filesystem must not be an internal error, nor `chattr +a` "all removed"."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with (
        opened_directory(str(tmp_path)) as parent,
        pytest.raises(Refused, match=rf"{PREFIX}\w+ cannot be removed: {os.strerror(number)}"),
        workspace(parent),
    ):
        monkeypatch.setattr(os, "rmdir", refuse)


@pytest.mark.parametrize(("path", "reason"), [("nowhere", "No such file"), ("file", "Not a dir")])
def test_what_is_no_directory_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    """The reason is the kernel's."""
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match=reason), opened_directory(str(tmp_path / path)):
        pass


Free = namedtuple("Free", "f_bavail f_frsize f_favail")  # noqa: PYI024 - three numbers of a fake


@pytest.mark.parametrize(
    ("free_mib", "wanted_mib", "allowed_mib"),
    [(100_000, 256, 256), (2000, 256, 100), (320, 256, 16), (319, 256, None)],
)
def test_at_most_a_twentieth_of_the_free_space_is_used(
    monkeypatch: pytest.MonkeyPatch, free_mib: int, wanted_mib: int, allowed_mib: int | None
) -> None:
    """Less than 16 MiB are not enough for measuring."""
    free = Free(free_mib * 256, 4096, 1000)
    monkeypatch.setattr("os.fstatvfs", lambda _descriptor: free)
    if allowed_mib is None:
        with pytest.raises(Refused, match=rf"{free_mib} MiB free: .* least 16 MiB"):
            writable_space(0, wanted_mib * MIB)
    else:
        assert writable_space(0, wanted_mib * MIB) == (allowed_mib * MIB, 50)


def test_a_size_that_measures_nothing_is_not_called_a_lack_of_space() -> None:
    """The minimum is 16 MiB."""
    with pytest.raises(Refused, match="--size is too small: the probes write at least 16 MiB"):
        writable_space(0, 15 * MIB)

"""Write a rendered report: to standard output, or to a file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

PERMISSIONS = 0o666
"""What open(2) is asked for; the umask takes its share, as of any file."""


class OutputFailed(Exception):  # noqa: N818 - what happened, told to the user as it is
    """The text cannot be written where it was to go; the message says where, and why."""


def check_destination(path: str) -> None:
    """Refuse a destination that cannot work before the audit is made; raises UsageError."""
    try:
        refusal = _refusal(path)
    except OSError as error:
        refusal = error.strerror or str(error)
    if refusal:
        raise click.UsageError(f"--output {path}: {refusal}")


def _refusal(path: str) -> str | None:
    if not path:
        return "names no file"
    if Path(path).is_dir():
        return "is a directory"
    if Path(path).is_block_device():
        # A slip of the hand: the report would be written over its first sectors.
        return "is a block device, and nothing is ever written to one"
    if _is_written_in_place(path):
        return None if os.access(path, os.W_OK) else "not writable"
    folder = _file(path).parent
    if not folder.is_dir():
        return f"{folder}: no such directory"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"{folder}: not writable"


def write(text: str, path: str | None) -> None:
    """Write to `path`, or to standard output without one.

    Raises OutputFailed, and BrokenPipeError where the reader has gone.
    """
    try:
        if path is None:
            _print(text)
        elif _is_written_in_place(path):
            Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            _replace(_file(path), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if path is None else path
        raise OutputFailed(f"cannot write to {where}: {error.strerror or error}") from error


def _print(text: str) -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()


def _is_written_in_place(path: str) -> bool:
    """Whether it is a device or a pipe, which cannot be renamed over."""
    return Path(path).exists() and not Path(path).is_file()


def _file(path: str) -> Path:
    """Return the file that a path means: renaming over /dev/stdout would replace the link."""
    return Path(os.path.realpath(path))


def _replace(target: Path, text: str) -> None:
    """Write beside the file and rename, so that a reader never sees half of it."""
    import tempfile  # noqa: PLC0415 - 2 ms of every start, for --output only

    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".ext4audit.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else PERMISSIONS & ~_umask()
        os.chmod(temporary, mode)  # noqa: PTH101 - mkstemp gives a name, not a Path
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

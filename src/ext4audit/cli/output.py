"""Write a rendered report: to standard output, or to a file that appears whole or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import click


class OutputFailed(Exception):  # noqa: N818 - what happened, told to the user as it is
    """The text cannot be written where it was to go; the message says where, and why."""


def check_destination(path: str) -> None:
    """Refuse a destination that cannot work before the audit is made; raises UsageError."""
    from ext4audit.cli.output_file import refusal  # noqa: PLC0415 - pathlib is 4 ms of a start

    try:
        reason = refusal(path)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise click.UsageError(f"--output {path}: {reason}")


def write(text: str, path: str | None) -> None:
    """Write to `path`, or to standard output without one.

    Raises OutputFailed, and BrokenPipeError where the reader has gone.
    """
    with writing(path) as put:
        put(text)


@contextmanager
def writing(path: str | None) -> Iterator[Callable[[str], None]]:
    """Give a function that writes piece by piece, to `path` or to standard output.

    Raises OutputFailed, and BrokenPipeError where the reader has gone.
    """
    try:
        if path is None:
            yield _print
        else:
            from ext4audit.cli.output_file import opened  # noqa: PLC0415 - for --output only

            with opened(path) as file:
                yield lambda text: _put(text, file)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if path is None else path
        raise OutputFailed(f"cannot write to {where}: {error.strerror or error}") from error


def _put(text: str, file: TextIO) -> None:
    file.write(text)


def _print(text: str) -> None:
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout.write(text)
    sys.stdout.flush()

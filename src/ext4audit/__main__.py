"""`python -m ext4audit` and the `ext4audit` command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

from ext4audit import shortage_of

EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code.

    The interpreter is not torn down. That saves time (tests/bench/test_startup.py), and a thread
    that hangs on a dead path cannot delay the exit. All output is flushed first.
    """
    code = _code()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, KeyboardInterrupt):
            stream.flush()
    os._exit(code)


def _code() -> int:
    """Return the exit code; Ctrl-C and a failed import do not exit with 1, which means "findings".

    The import fails if a package is missing or damaged, or if too few files can be opened.
    """
    try:
        from ext4audit.cli import run_program  # noqa: PLC0415 - most of the start-up time

        _buffer_output()
        _ignore_odd_sizes()
        return run_program(sys.argv[1:])
    except KeyboardInterrupt:
        _print("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the boundary, as in run_program, which may not be imported
        shortage = shortage_of(error)
        if shortage:
            _print(shortage)
        else:
            sys.excepthook(*sys.exc_info())
        return EXIT_INTERNAL


def _print(message: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"ext4audit: {message}\n")


def _buffer_output() -> None:
    """Give an unbuffered standard output (PYTHONUNBUFFERED, -u) a buffer.

    Without a buffer, the rest of a partial write(2) is lost without an error.
    """
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = os.fdopen(
            sys.stdout.fileno(), "w", encoding=encoding, errors=errors, closefd=False
        )


def _ignore_odd_sizes() -> None:
    """Unset COLUMNS and LINES if they are not ASCII: rich takes "²" for a number, int() fails."""
    for name in ("COLUMNS", "LINES"):
        if not os.environ.get(name, "").isascii():
            del os.environ[name]


if __name__ == "__main__":
    main()

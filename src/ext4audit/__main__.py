"""`python -m ext4audit` and the `ext4audit` command."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress

EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line and exit with its code.

    The interpreter is not torn down: tests/bench/test_startup.py shows what this gives, and a
    thread that hangs on a dead path cannot delay the exit. All output is flushed before.
    """
    code = _code()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, KeyboardInterrupt):
            stream.flush()
    os._exit(code)


def _code() -> int:
    """Return the exit code; neither Ctrl-C nor a failure of the imports exits with 1: "findings".

    Packages that are missing or damaged fail there, and too few open files.
    """
    try:
        from ext4audit.cli import run_program  # noqa: PLC0415 - it takes most of the start

        _buffer_output()
        _ignore_odd_sizes()
        return run_program(sys.argv[1:])
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stderr.write("ext4audit: interrupted\n")
        return EXIT_INTERRUPTED
    except Exception:  # noqa: BLE001 - the boundary, as in run_program, which is not there yet
        sys.excepthook(*sys.exc_info())
        return EXIT_INTERNAL


def _buffer_output() -> None:
    """Give an unbuffered standard output (PYTHONUNBUFFERED, -u) a buffer.

    Without one, what write(2) did not take of a text is lost, and no error tells of it.
    """
    if isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase):
        encoding, errors = sys.stdout.encoding, sys.stdout.errors
        sys.stdout = os.fdopen(
            sys.stdout.fileno(), "w", encoding=encoding, errors=errors, closefd=False
        )


def _ignore_odd_sizes() -> None:
    """Remove sizes of the terminal in digits that int() refuses; rich takes "²" for a number."""
    for name in ("COLUMNS", "LINES"):
        if not os.environ.get(name, "").isascii():
            del os.environ[name]


if __name__ == "__main__":
    main()

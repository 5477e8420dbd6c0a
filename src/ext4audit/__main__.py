"""`python -m ext4audit` and the `ext4audit` command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from ext4audit.cli.app import run_program


def main() -> None:
    """Run the command line and exit with its code.

    The interpreter is not torn down: tests/bench/test_startup.py shows what this gives, and a
    thread that hangs on a dead path cannot delay the exit. All output is flushed before.
    """
    code = run_program(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

"""Diagnostics on standard error, which never decide how the program ends."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from ext4audit.renderers.escape import visible


def tell(message: str) -> None:
    """Write one line; a newline inside it is a hostile name's, and is shown, not sent."""
    say(f"ext4audit: {visible(message)}")


def say(text: str) -> None:
    """Write text as it is; where it cannot be written, the exit code still tells.

    A full disk or a closed pipe behind standard error once made a usage error exit 1.
    """
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send what the stream still holds nowhere: Python's flush at exit would make it 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""What a stream can show: colour, width, Unicode."""

from __future__ import annotations

import os
from typing import TextIO


def wants_color(choice: str, stream: TextIO) -> bool:
    """Decide about colour: --color, then NO_COLOR, then CLICOLOR_FORCE or FORCE_COLOR.

    With none of them, a terminal that is not dumb gets colour (no-color.org, bixense.com).
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(
        os.environ.get(name, "0") not in {"", "0"} for name in ("CLICOLOR_FORCE", "FORCE_COLOR")
    ):
        return True
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def width(stream: TextIO) -> int | None:
    """Return the columns of a terminal, None for a pipe or file: there nothing is wrapped."""
    if not stream.isatty():
        return None
    import shutil  # noqa: PLC0415 - with its compressors 3 ms, for a terminal only

    return shutil.get_terminal_size().columns


def is_ascii_only(stream: TextIO) -> bool:
    """Whether the stream cannot encode the glyphs of the report."""
    try:
        "●✓─▏█".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False

"""What a stream can show, and the progress line on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """Whether the encoding of the stream lacks the glyphs of the report."""
    try:
        "●✓─▏█".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being read; it does nothing without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _doing: None
        return
    from rich.console import Console  # noqa: PLC0415 - a pipe must not pay for it
    from rich.text import Text  # noqa: PLC0415

    from ext4audit.renderers.shared.escape import visible  # noqa: PLC0415

    spinner = "line" if is_ascii_only(sys.stderr) else "dots"
    with Console(stderr=True).status(Text("looking for ext4"), spinner=spinner) as status:
        yield lambda doing: status.update(Text(f"reading {visible(doing)}"))

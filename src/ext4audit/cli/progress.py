"""A status line on standard error while devices are read, when a person is watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ext4audit.cli.terminal import is_ascii_only


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being read; it does nothing without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield lambda _doing: None
        return
    from rich.console import Console  # noqa: PLC0415 - a pipe must not pay for it
    from rich.text import Text  # noqa: PLC0415

    from ext4audit.renderers.escape import visible  # noqa: PLC0415

    spinner = "line" if is_ascii_only(sys.stderr) else "dots"
    with Console(stderr=True).status(Text("looking for ext4"), spinner=spinner) as status:
        yield lambda doing: status.update(Text(f"reading {visible(doing)}"))

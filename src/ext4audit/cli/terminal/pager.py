"""The pager for text that is longer than the terminal, as in git."""

from __future__ import annotations

import os
import re
import shutil
import sys

import click

from ext4audit.cli import NO_PAGER

LESS = "FRX"
"""git's default: quit if it fits one screen, keep colours, leave the text on the screen."""
LINK = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")
NOT_PAGERS = frozenset({"", "cat"})
"""Values of PAGER that mean none, as in git."""


def page(text: str) -> bool:
    """Show a text in the pager; False where it is short, or where the user wants none.

    click runs PAGER, else less, and prints the text where there is none.
    """
    if not _is_wanted() or not _is_long(text):
        return False
    os.environ.setdefault("LESS", LESS)
    encoding = sys.stdout.encoding or "ascii"
    printable = text.encode(encoding, "backslashreplace").decode(encoding)
    click.echo_via_pager(printable.removesuffix("\n"), color=True)
    return True


def _is_wanted() -> bool:
    context = click.get_current_context(silent=True)
    refused = context is not None and context.meta.get(NO_PAGER, False)
    refused = refused or os.environ.get("TERM", "dumb") == "dumb"
    return not refused and os.environ.get("PAGER", "less").strip() not in NOT_PAGERS


def _is_long(text: str) -> bool:
    """Whether a text has more rows than the terminal, long lines being wrapped by it."""
    columns, rows = shutil.get_terminal_size()
    lines = click.unstyle(LINK.sub("", text)).splitlines()
    return sum(max(1, -(-len(line) // columns)) for line in lines) >= rows

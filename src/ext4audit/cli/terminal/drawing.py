"""Rules on a terminal: the table of the catalogue, and a page of Markdown, drawn by rich."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO

from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from ext4audit.cli.output import is_ascii_only, width
from ext4audit.cli.terminal.links import terminal_has_links
from ext4audit.renderers.text.blocks import SEVERITY_STYLES
from ext4audit.rule import Rule

USUAL_COLUMNS = 80
WIDEST_PAGE = 100
"""Columns of prose: longer lines are hard to read."""


def draw_rules(rules: Sequence[Rule], *, color: bool) -> str:
    """Return the rules as a table as wide as the terminal; summaries are wrapped."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for _ in ("code", "severity", "runs"):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for rule in rules:
        summary = Text.assemble((rule.name, "bold"), f"\n{rule.summary}")
        severity = Text(rule.severity.value, SEVERITY_STYLES[rule.severity])
        table.add_row(rule.code, severity, "on" if rule.default else "off", summary)
    return _drawn(table, width(sys.stdout) or USUAL_COLUMNS, color=color)


def draw_markdown(text: str, *, color: bool) -> str:
    """Return a page of Markdown as a terminal shows it."""
    columns = min(width(sys.stdout) or USUAL_COLUMNS, WIDEST_PAGE)
    page = Markdown(text, hyperlinks=color and terminal_has_links())
    return text if is_ascii_only(sys.stdout) else _drawn(page, columns, color=color)


def _drawn(what: RenderableType, columns: int, *, color: bool) -> str:
    console = Console(
        file=StringIO(),
        width=columns,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        highlight=False,
    )
    with console.capture() as captured:
        console.print(what)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())

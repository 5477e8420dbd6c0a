"""Output for terminals: rule tables by rich, links to rule pages (OSC 8), and the pager."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import click
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ext4audit.cli import NO_PAGER
from ext4audit.cli.output import is_ascii_only, width
from ext4audit.facts import whole_number
from ext4audit.renderers.text.blocks import SEVERITY_STYLES
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

USUAL_COLUMNS = 80
WIDEST_PAGE = 100
"""Maximum columns of prose; longer lines are hard to read."""
FORCED = "FORCE_HYPERLINK"
"""0 disables links, any other value enables them, as in the library supports-hyperlinks."""
PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "zed", "Hyper", "Tabby", "rio"})
"""Values of TERM_PROGRAM of terminals that support links."""
VARIABLES = ("KONSOLE_VERSION", "DOMTERM", "WT_SESSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID")
FIRST_VTE = 5001
"""VTE 0.50.1: 0.50.0 crashes on links."""
CODE = re.compile(
    r"\x1b\]8;.*?\x1b\\.*?\x1b\]8;;\x1b\\"
    r"|(?<![A-Z0-9-])(?P<code>[A-Z]{3}[0-9]{3})(?![A-Z0-9-])",
    re.DOTALL,
)
INSTALLED = Path(sys.prefix) / "share" / "doc" / "ext4audit" / "rules"
CHECKOUT = Path(__file__).parents[4] / "docs" / "rules"
LESS = "FRX"
"""git's default: quit if it fits one screen, keep colours, leave the text on the screen."""
LINK = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\")
NOT_PAGERS = frozenset({"", "cat"})
"""Values of PAGER that disable the pager, as in git."""


def draw_rules(rules: Sequence[Rule], *, color: bool) -> str:
    """Return the rules as a table in the width of the terminal, with wrapped summaries."""
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
    """Return Markdown rendered for the terminal, or unchanged if it shows only ASCII."""
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


def terminal_has_links() -> bool:
    """Return whether the terminal supports links, from the variables that terminals set.

    ssh forwards none of them. TERM is ignored because ssh forwards it: on another host, a link to
    a file is broken, and an old pager prints links as garbage.
    """
    forced = os.environ.get(FORCED)
    if forced is not None:
        return forced != "0"
    vte = whole_number(os.environ.get("VTE_VERSION", ""))
    return (
        os.environ.get("TERM_PROGRAM") in PROGRAMS
        or any(os.environ.get(name) for name in VARIABLES)
        or (vte is not None and vte >= FIRST_VTE)
    )


def linked(text: str) -> str:
    """Return a text with links if the terminal supports them."""
    return with_links(text) if terminal_has_links() else text


def with_links(text: str) -> str:
    """Return a text with links on rule codes; existing links are unchanged."""
    pages = {rule.code: page for rule in all_rules() if (page := _page(rule.code, rule.references))}

    def link(found: re.Match[str]) -> str:
        code = found["code"]
        if code not in pages:
            return found[0]
        return Style(link=pages[code]).render(code)

    return CODE.sub(link, text)


def _page(code: str, references: tuple[str, ...]) -> str | None:
    """Return the URL of a rule's page: the installed file, else the first https reference."""
    for folder in (INSTALLED, CHECKOUT):
        path = folder / f"{code}.md"
        if path.is_file():
            return f"file://{socket.gethostname()}{path.as_uri().removeprefix('file://')}"
    return next((each for each in references if each.startswith("https://")), None)


def page(text: str) -> bool:
    """Show a text in the pager; return False if it is short or the pager is disabled.

    click runs PAGER, else less, and prints the text if there is no pager.
    """
    if not _is_wanted() or not _is_long(text):
        return False
    os.environ.setdefault("LESS", LESS)
    encoding = sys.stdout.encoding or "ascii"
    printable = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        click.echo_via_pager(printable.removesuffix("\n"), color=True)
    except ValueError:  # PAGER has an unbalanced quote; nothing was shown yet
        return False
    return True


def _is_wanted() -> bool:
    context = click.get_current_context(silent=True)
    refused = context is not None and context.meta.get(NO_PAGER, False)
    refused = refused or os.environ.get("TERM", "dumb") == "dumb"
    return not refused and os.environ.get("PAGER", "less").strip() not in NOT_PAGERS


def _is_long(text: str) -> bool:
    """Return whether a text has more rows than the terminal, which wraps long lines."""
    columns, rows = shutil.get_terminal_size()
    lines = click.unstyle(LINK.sub("", text)).splitlines()
    return sum(max(1, -(-len(line) // columns)) for line in lines) >= rows

"""Links from the codes of rules to their pages (OSC 8), for terminals that have them."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

from rich.style import Style

from ext4audit.rules import all_rules

FORCED = "FORCE_HYPERLINK"
"""0 for no links, any other value for links, as in the library supports-hyperlinks."""
PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "zed", "Hyper", "Tabby", "rio"})
"""Values of TERM_PROGRAM."""
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


def terminal_has_links() -> bool:
    """Whether the terminal shows links, by the variables that terminals set.

    ssh passes none of them on. TERM, which it does pass on, does not count: on another host a
    link to a file leads nowhere, and an old pager there prints links as rubbish.
    """
    forced = os.environ.get(FORCED)
    if forced is not None:
        return forced != "0"
    vte = os.environ.get("VTE_VERSION", "")
    return (
        os.environ.get("TERM_PROGRAM") in PROGRAMS
        or any(os.environ.get(name) for name in VARIABLES)
        or (vte.isdecimal() and int(vte) >= FIRST_VTE)
    )


def linked(text: str) -> str:
    """Return a text with links where the terminal has them."""
    return with_links(text) if terminal_has_links() else text


def with_links(text: str) -> str:
    """Return a text in which the codes of rules are links; other links stay as they are."""
    pages = {rule.code: page for rule in all_rules() if (page := _page(rule.code, rule.references))}

    def link(found: re.Match[str]) -> str:
        code = found["code"]
        if code not in pages:
            return found[0]
        return Style(link=pages[code]).render(code)

    return CODE.sub(link, text)


def _page(code: str, references: tuple[str, ...]) -> str | None:
    """Return the address of a rule's page: the installed file, else its first reference."""
    for folder in (INSTALLED, CHECKOUT):
        path = folder / f"{code}.md"
        if path.is_file():
            return f"file://{socket.gethostname()}{path.as_uri().removeprefix('file://')}"
    return next((each for each in references if each.startswith("https://")), None)

"""Text in GitHub's Markdown: what came from a host is shown, and never becomes markup.

Two passes must be got past. The parser (GitHub Flavored Markdown, spec 0.29) takes backslashes
and entities for plain characters. After it, GitHub looks through the text itself for @mentions,
#references and :emoji:, which an escape does not stop (github/cmark-gfm#181): an empty comment
does, because it splits the text, and so does a code span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ext4audit.renderers.escape import visible

_APART = "<!-- -->"
_SPECIAL = {
    "\\": "&#92;",
    "|": "&#124;",
    "`": "&#96;",
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "$": "<span>$</span>",
    "@": f"@{_APART}",
    "#": f"#{_APART}",
    **{char: f"\\{char}" for char in "*[]~"},
}
"""Entities where a backslash would meet the table's own escapes; `$` as GitHub's page on
mathematical expressions has it."""
_MARKUP = re.compile(
    r"""(?P<special>[\\|`<>&$@#*\[\]~])
      | (?P<emphasis>(?<![^\W_])_ | _(?![^\W_]))
      | (?P<colon>:(?=\S))
      | (?P<www>www(?=\.))
      | (?P<issue>GH-(?=\d))
      | (?P<block>\A(?:[-+=] | \d+(?=[.)])))""",
    re.VERBOSE | re.IGNORECASE,
)
_LEAST_FENCE = 3


def prose(text: str) -> str:
    """Return text that stands in a paragraph, a heading or a cell."""
    return _MARKUP.sub(_plain, visible(text).strip())


def _plain(match: re.Match[str]) -> str:
    found = match.group()
    match match.lastgroup:
        case "special":
            return _SPECIAL[found]
        case "emphasis":
            return f"\\{found}"
        case "block":
            return f"&#{ord(found[0])};{found[1:]}"
        case _:
            return f"{found}{_APART}"


def code(text: str) -> str:
    """Return a name as a code span; nothing for no name.

    A bar would end the cell of a table, and its escape is not one behind a backslash: such a
    name is shown as text.
    """
    shown = visible(text)
    if "|" in shown or not shown.strip():
        return prose(shown)
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_block(lines: Sequence[str], language: str) -> str:
    """Return lines as a fenced block; its fence is longer than any run of backticks within."""
    shown = [visible(line) for line in lines]
    longest = max(map(_longest_run, shown), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return "\n".join((f"{fence}{language}", *shown, fence))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)

"""The syntax of GitHub Flavored Markdown: prose, code and tables, with text from hosts escaped.

The escaping must survive two passes. The parser (GitHub Flavored Markdown, spec 0.29) turns
backslash escapes and entities into plain characters. GitHub then searches the text for @mentions,
#references and :emoji:. An escape does not prevent that (github/cmark-gfm#181); an empty comment
does, because it splits the text, and so does a code span.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ext4audit.renderers import visible

_SPLIT = "<!-- -->"
_SPECIAL = {
    "\\": "&#92;",
    "|": "&#124;",
    "`": "&#96;",
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "$": "<span>$</span>",
    "@": f"@{_SPLIT}",
    "#": f"#{_SPLIT}",
    **{char: f"\\{char}" for char in "*[]~"},
}
"""Characters are entities if a backslash would collide with the escapes of a table. The form of
`$` is from GitHub's documentation on mathematical expressions."""
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
    """Escape text for a paragraph, a heading or a table cell."""
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
            return f"{found}{_SPLIT}"


def code(text: str) -> str:
    """Return a name as a code span, or "" for a blank name.

    A "|" would end the cell of a table, and its escape does not work after a backslash. A name
    with "|" is therefore shown as text.
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


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table; the cells must already be Markdown."""
    every = (head, ["---"] * len(head), *lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in every)

"""The little of man(7) that the manual pages need, as text that groff and mandoc take alike."""

from __future__ import annotations

import re
from collections.abc import Iterable

GLYPHS = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    '"': r"\(dq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
}
"""What roff prints as something else, and what a person could not copy to a shell."""
CODE = re.compile(r"`([^`]+)`")


def escaped(text: str) -> str:
    """Return text that is printed as it is, also at the start of a line."""
    shown = "".join(GLYPHS.get(char, char) if char.isascii() else _named(char) for char in text)
    return f"\\&{shown}" if shown.startswith(".") else shown


def _named(char: str) -> str:
    return f"\\[u{ord(char):04X}]"


def bold(text: str) -> str:
    r"""Return \fBtext\fR."""
    return f"\\fB{escaped(text)}\\fR"


def italic(text: str) -> str:
    r"""Return \fItext\fR."""
    return f"\\fI{escaped(text)}\\fR"


def prose(text: str) -> str:
    """Return a paragraph in one line; what stands in backticks is bold."""
    parts = CODE.split(" ".join(text.split()))
    return "".join(bold(part) if odd % 2 else escaped(part) for odd, part in enumerate(parts))


def title(name: str, number: int, source: str, manual: str) -> str:
    """Return the head of a page, without a date: the same version is the same bytes."""
    return f'.TH {escaped(name.upper())} {number} "" "{escaped(source)}" "{escaped(manual)}"'


def section(name: str, *blocks: str) -> str:
    """Return a section of paragraphs, lists and examples; a paragraph begins without a request."""
    lines = [f".SH {name}"]
    for index, block in enumerate(blocks):
        if index and not block.startswith((".TP", ".PP")):
            lines.append(".PP")
        lines.append(block)
    return "\n".join(lines)


def item(term: str, says: str) -> str:
    """Return a term in roff, and below it what it is."""
    return f".TP\n{term}\n{prose(says)}"


def example(lines: Iterable[str]) -> str:
    """Return lines that are kept as they are; not set in, so that 73 columns fit in 80."""
    return "\n".join([".nf", *(escaped(line) for line in lines), ".fi"])

"""The page of a rule in the HTML report: its docstring as headings and paragraphs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ext4audit.rule import Rule

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a paragraph; `code` is set where the docstring has it in backticks."""

    text: str
    code: bool


@dataclass(frozen=True, slots=True)
class PagePart:
    """A heading of a rule's page and its paragraphs."""

    heading: str
    paragraphs: tuple[tuple[Span, ...], ...]


@lru_cache
def page_parts(rule: Rule) -> tuple[PagePart, ...]:
    """Return the page of a rule; text before the first heading has the heading "About"."""
    before, *rest = _HEADING.split(rule.page)
    sections = [("About", before), *zip(rest[::2], rest[1::2], strict=True)]
    return tuple(PagePart(head, _paragraphs(text)) for head, text in sections if text.strip())


def _paragraphs(text: str) -> tuple[tuple[Span, ...], ...]:
    return tuple(_spans(" ".join(each.split())) for each in text.strip().split("\n\n"))


def _spans(paragraph: str) -> tuple[Span, ...]:
    """Split a paragraph at its backticks: every second piece is code."""
    pieces = enumerate(paragraph.split("`"))
    return tuple(Span(piece, code=number % 2 == 1) for number, piece in pieces if piece)

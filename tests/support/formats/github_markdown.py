"""Read Markdown as GitHub does: the HTML of cmark-gfm, parsed by the standard library."""

from __future__ import annotations

import importlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest

NOTIFYING = re.compile(
    r"(?<![\w/])@\w|(?<!\w)#\d|(?<!\w)GH-\d|:[a-z0-9_+-]+:|https?://|www\.\w|\w@\w+\.\w|\$\S.*\$",
    re.IGNORECASE,
)
"""Text that GitHub replaces: mentions, references, emoji, links, formulas."""


class RenderedPage(HTMLParser):
    """A page: its tags, its texts outside and inside code, and its tables as rows of cells."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        cmark: Any = pytest.importorskip("cmarkgfm")
        unsafe = importlib.import_module("cmarkgfm.cmark").Options.CMARK_OPT_UNSAFE
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.codes: list[str] = []
        self.blocks: list[str] = []
        self.headings: list[str] = []
        self.rows: list[list[str]] = []
        self.everything = ""
        self._inside: list[str] = []
        self.feed(cmark.github_flavored_markdown_to_html(markdown, options=unsafe))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element; only the language of a code block may be an attribute."""
        assert not attrs or tag in {"code", "pre"}
        self.tags.add(tag)
        self._inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag in {"h1", "h2", "h3"}:
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """Close an element, which must be the most recently opened one."""
        assert self._inside.pop() == tag

    def handle_data(self, data: str) -> None:
        """Record a text; GitHub's filters must find nothing in it unless a span splits it."""
        self.everything += data
        if {"td", "th"} & set(self._inside):
            self.rows[-1][-1] += data
        if {"h1", "h2", "h3"} & set(self._inside):
            self.headings[-1] += data
        if "pre" in self._inside:
            self.blocks.append(data)
        elif "code" in self._inside:
            self.codes.append(data)
        else:
            self.texts.append(data)
            assert "span" in self._inside or not NOTIFYING.search(data), data

    def handle_comment(self, data: str) -> None:
        """Accept empty comments only, which are those of ext4audit."""
        assert not data.strip(), data

    def unknown_decl(self, data: str) -> None:
        """Reject CDATA and similar sections."""
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        """Reject a doctype."""
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        """Reject a processing instruction."""
        raise AssertionError(data)

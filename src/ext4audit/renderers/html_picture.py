"""Boxes in rows with lines between them, as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.renderers.html_markup import NEWLINE, Html, lines, tag
from ext4audit.renderers.shared.escape import visible

_WIDTH = 208
_HEIGHT = 66
_GAP = 16
_DROP = 30
_EDGE = 2
_LONGEST_NAME = 23
_LONGEST_DETAIL = 28
"""Characters that most often fit into a line of a box; what is wider all the same is cut off."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box: its key, up to three lines of text, the keys of the boxes above, and its look."""

    key: str
    words: tuple[str, ...]
    above: tuple[str, ...]
    look: str = ""


def draw(rows: Sequence[Sequence[Box]], title: str) -> Html:
    """Return the picture; `title` is what those hear who do not see it."""
    wide = max(len(row) for row in rows)
    width = wide * (_WIDTH + _GAP) - _GAP + 2 * _EDGE
    height = len(rows) * (_HEIGHT + _DROP) - _DROP + 2 * _EDGE
    places = _places(rows, width)
    edges = [edge for row in rows for box in row for edge in _edges(box, places)]
    boxes = [_drawn(box, *places[box.key]) for row in rows for box in row]
    return tag(
        "svg",
        NEWLINE,
        tag("title", title),
        NEWLINE,
        lines((*edges, *boxes)),
        width=str(width),
        height=str(height),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
    )


def _places(rows: Sequence[Sequence[Box]], width: int) -> dict[str, tuple[int, int]]:
    """Return the left upper corner of each box; each row stands in the middle."""
    places = {}
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
        for box in row:
            places[box.key] = (left, _EDGE + number * (_HEIGHT + _DROP))
            left += _WIDTH + _GAP
    return places


def _edges(box: Box, places: dict[str, tuple[int, int]]) -> Iterator[Html]:
    x, bottom = places[box.key]
    x += _WIDTH // 2
    for key in box.above:
        start, top = places[key][0] + _WIDTH // 2, places[key][1] + _HEIGHT
        half = (top + bottom) // 2
        yield tag("path", d=f"M{start} {top}V{half}H{x}V{bottom}", class_="edge")


def _drawn(box: Box, left: int, top: int) -> Html:
    """Draw one box; it is a picture of its own, so that nothing reaches out of it."""
    shape = {"width": str(_WIDTH), "height": str(_HEIGHT)}
    parts = [_frame(box.look)]
    for number, words in enumerate(filter(None, box.words)):
        look = "detail" if number else "name"
        parts.append(
            tag("text", _shortened(words, look), x="10", y=str(21 + 17 * number), class_=look)
        )
    everything = tag("title", ", ".join(filter(None, box.words)))
    return tag("svg", everything, *parts, x=str(left), y=str(top), **shape)


def _frame(look: str) -> Html:
    size = {"x": "1", "y": "1", "rx": "5", "width": str(_WIDTH - 2), "height": str(_HEIGHT - 2)}
    return tag("rect", class_=f"box {look}".strip(), **size)


def _shortened(words: str, look: str) -> str:
    """Shorten what is shown: a name to its end, because paths differ there."""
    shown = visible(words)
    if look == "name":
        return words if len(shown) <= _LONGEST_NAME else f"…{shown[1 - _LONGEST_NAME :]}"
    return words if len(shown) <= _LONGEST_DETAIL else f"{shown[: _LONGEST_DETAIL - 1]}…"

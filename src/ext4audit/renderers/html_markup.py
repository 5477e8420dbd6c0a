"""HTML by elements: what is not markup already is escaped, so that no name can become any."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from html import escape as _escape

from ext4audit.renderers.shared.escape import visible

_TEXTS_KEPT = 1 << 16
"""Texts whose safe form is remembered: in a fleet the same few thousand come again and again."""


class Html(str):
    """Markup of our own making. `tag` escapes each other str, whoever wrote it."""

    __slots__ = ()


NOTHING = Html()
NEWLINE = Html("\n")


def tag(name: str, /, *children: str, **attributes: str | None) -> Html:
    """Return an element with its children.

    An attribute is left out where it is None. `class_` is class and `aria_label` aria-label.
    """
    return Html(f"<{name}{_attributes(attributes)}>{joined(children)}</{name}>")


def void(name: str, /, **attributes: str | None) -> Html:
    """Return an element that has no end tag and no children (`meta`)."""
    return Html(f"<{name}{_attributes(attributes)}>")


def joined(parts: Iterable[str]) -> Html:
    """Return the parts one behind the other; those that are not markup are escaped."""
    return Html("".join([part if isinstance(part, Html) else _safe(part) for part in parts]))


def lines(parts: Iterable[str]) -> Html:
    """Return the parts that are not empty, each on lines of its own."""
    return joined(Html(f"{joined((part,))}\n") for part in parts if part)


def _attributes(attributes: dict[str, str | None]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_safe(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


@lru_cache(maxsize=_TEXTS_KEPT)
def _safe(text: str) -> str:
    """Escape what HTML obeys, and show what a reader of the page could not see."""
    return _escape(visible(text))

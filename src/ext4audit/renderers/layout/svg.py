"""`ext4audit layout --format svg`: a picture in one file without scripts.

It draws with the text colour of the surrounding document (`currentColor`), so it is readable on
light and on dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ext4audit.facts.layout import LayoutPage, MemberLoad
from ext4audit.renderers import visible
from ext4audit.renderers.shared.layout_text import (
    groups_text,
    member_rows,
    stripe_text,
    touch_parts,
)
from ext4audit.renderers.shared.terms import shortened_start

_WIDTH = 760
_ROW = 22
_BAR = 14
_NAME_WIDTH = 150
_NUMBER_WIDTH = 90
_MARGIN = 16
_HEAD = 84
_FOOT = 58
_LONGEST_NAME = 20
_BITMAPS = "#d9622b"
_TABLES = "#3a7ca5"
_DESCRIPTORS = "#7a9e3b"
_SERIES = (("bitmaps", _BITMAPS), ("inode tables", _TABLES), ("descriptors", _DESCRIPTORS))


def render(page: LayoutPage) -> str:
    """Return the touches of each member as stacked bars, and the advice in one sentence."""
    rows = member_rows(page.layout.members)
    height = _HEAD + _ROW * (len(rows.shown) + bool(rows.folded)) + _FOOT
    sentence = page.advice.sentence if page.advice else "Nothing stripes here."
    body = [
        _open(height),
        f"<title>{_text(f'Metadata of {page.target} on its members')}</title>",
        f"<desc>{_text(sentence)}</desc>",
        _line(_MARGIN, 26, page.target, weight="bold", size=15),
        _line(_MARGIN, 44, f"{stripe_text(page)}; {groups_text(page.layout)}", size=11),
        *_legend(),
        *_bars(rows.shown, max(member.touches for member in page.layout.members)),
    ]
    bottom = _HEAD + _ROW * len(rows.shown)
    if rows.folded:
        body.append(_line(_MARGIN + _NAME_WIDTH, bottom + 15, rows.folded, size=11))
        bottom += _ROW
    body.append(_line(_MARGIN, bottom + 26, sentence, weight="bold"))
    body.append(
        _line(_MARGIN, bottom + 44, "Blocks touched when one file is made in each group.", size=11)
    )
    return "\n".join([*body, "</svg>", ""])


def _open(height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img" font-family="sans-serif" font-size="13" '
        'fill="currentColor">'
    )


def _legend() -> Iterator[str]:
    left = _MARGIN + _NAME_WIDTH
    for name, colour in _SERIES:
        yield f'<rect x="{left}" y="56" width="12" height="12" fill="{colour}"/>'
        yield _line(left + 17, 66, name, size=11)
        left += 110


def _bars(members: tuple[MemberLoad, ...], most: int) -> Iterator[str]:
    room = _WIDTH - 2 * _MARGIN - _NAME_WIDTH - _NUMBER_WIDTH
    for number, member in enumerate(members):
        top = _HEAD + _ROW * number
        yield _line(_MARGIN, top + 12, shortened_start(visible(member.name), _LONGEST_NAME))
        left = float(_MARGIN + _NAME_WIDTH)
        for amount, (_, colour) in zip(touch_parts(member), _SERIES, strict=True):
            width = room * amount / most if most else 0.0
            if width:
                yield (
                    f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" '
                    f'fill="{colour}"/>'
                )
            left += width
        yield _line(round(left) + 6, top + 12, str(member.touches), size=11)


def _line(left: int, bottom: int, text: str, *, weight: str = "normal", size: int = 13) -> str:
    return (
        f'<text x="{left}" y="{bottom}" font-size="{size}" font-weight="{weight}">'
        f"{_text(text)}</text>"
    )


def _text(text: str) -> str:
    """Return text that is safe in XML, which refuses control characters."""
    return escape(visible(text))

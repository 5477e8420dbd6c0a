"""The output of `ext4audit layout`: text with bars, JSON, and an SVG picture."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from ext4audit.facts.layout import LayoutAdvice, LayoutPage, MemberLoad, MetadataLayout, MkfsAdvice
from ext4audit.renderers import json_text, visible
from ext4audit.renderers.json_v1.objects import layout_object, rounded
from ext4audit.renderers.shared import shortened_start
from ext4audit.renderers.shared.layout_text import (
    bar,
    basis_text,
    groups_text,
    member_rows,
    spread_text,
    stripe_text,
    touch_parts,
)
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text.blocks import STEP, Blank, Block, Prose, Span, Verbatim

_LONGEST_NAME = 24
"""Maximum columns of a member's name; the name of an image is its whole path."""


class _Form(NamedTuple):
    """A table format: headings, column widths, and the widths of the bar and of the gaps."""

    heads: tuple[str, str, str, str]
    columns: tuple[int, int, int, int]
    bar: int
    gap: int

    def width(self, name_columns: int) -> int:
        """Return the width of a row in columns."""
        others = (len(self.columns) + bool(self.bar)) * self.gap + self.bar
        return STEP + name_columns + sum(self.columns) + others

    def line(self, name: str, drawn: str, cells: tuple[str, str, str, str]) -> str:
        """Return one row; the caller pads the name."""
        bitmaps, *others = (
            f"{cell:>{width}}" for cell, width in zip(cells, self.columns, strict=True)
        )
        shown = [name, bitmaps, *([f"{drawn:<{self.bar}}"] if self.bar else []), *others]
        return (" " * self.gap).join(shown)


_HEADS = ("bitmaps", "table starts", "descriptors", "churn")
"""Churn is modelled (`layout/bitmap_placement.py`). An inode table counts for the member on which
it starts, because the first blocks of a table are the ones that are written."""
_NARROWEST = _Form(("bitmaps", "tables", "desc.", "churn"), (7, 6, 5, 5), 0, 1)
_FORMS = (
    _Form(_HEADS, (8, 12, 11, 6), 24, 2),
    _Form(_HEADS, (8, 12, 11, 6), 8, 2),
    _NARROWEST,
)
"""The table formats, widest first."""


def render_text(page: LayoutPage, *, color: bool, width: int | None, ascii_only: bool) -> str:
    """Return the layout as text with a final newline, wrapped unless `width` is None."""
    blocks = _blocks(page, width, ascii_only=ascii_only)
    return render_blocks(blocks, color=color, width=width, ascii_only=ascii_only)


def _blocks(page: LayoutPage, width: int | None, *, ascii_only: bool) -> Iterator[Block]:
    layout = page.layout
    yield Prose((Span(page.target, "bold"), Span(f"  {stripe_text(page)}")))
    yield Prose((Span(groups_text(layout)),), STEP)
    yield Prose((Span(basis_text(page), "dim"),), STEP)
    for doubt in layout.doubts:
        hint = f"; {doubt.hint}" if doubt.hint else ""
        yield Prose((Span(f"{doubt.what}: {doubt.detail}{hint}", "magenta"),), STEP, Span("? "))
    yield Blank()
    yield from _table(page, width, ascii_only=ascii_only)
    yield Blank()
    if page.advice is None:
        yield Prose(
            (Span("No stripe was found. Describe an array that the kernel does not show with "),)
        )
        yield Verbatim("--members N --chunk SIZE [--level LEVEL] [--offset SIZE]", STEP)
        return
    yield from _advice(page, page.advice)


def _table(page: LayoutPage, width: int | None, *, ascii_only: bool) -> Iterator[Block]:
    rows = member_rows(page.layout.members)
    names = [shortened_start(member.name, _LONGEST_NAME) for member in rows.shown]
    name_columns = max(len("member"), *(len(name) for name in names))
    form = _form(name_columns, width)
    yield Verbatim(form.line(f"{'member':<{name_columns}}", "", form.heads), STEP, "dim")
    busiest = max(member.bitmap_writes for member in page.layout.members)
    of_each = dict(zip(page.layout.members, page.layout.churn.loads, strict=True))
    total = sum(page.layout.churn.loads)
    for name, member in zip(names, rows.shown, strict=True):
        drawn = bar(member.bitmap_writes, busiest, form.bar, ascii_only=ascii_only)
        cells = _cells(member, of_each[member], total)
        yield Verbatim(form.line(f"{name:<{name_columns}}", drawn, cells), STEP)
    if rows.folded:
        yield Prose((Span(rows.folded, "dim"),), STEP)


def _form(name_columns: int, width: int | None) -> _Form:
    """Return the widest table format that fits the terminal, or the narrowest one."""
    room = _FORMS[0].width(name_columns) if width is None else width
    return next((form for form in _FORMS if form.width(name_columns) <= room), _NARROWEST)


def _cells(member: MemberLoad, churn: int, total: int) -> tuple[str, str, str, str]:
    share = churn / total if total else 0.0
    described = member.descriptor_blocks
    return str(member.bitmap_writes), str(member.inode_tables), str(described), f"{share:.0%}"


def _advice(page: LayoutPage, advice: LayoutAdvice) -> Iterator[Block]:
    yield Prose((Span(advice.sentence, "bold green" if advice.is_even else "bold yellow"),))
    yield Prose((Span(spread_text(page.layout)),), STEP)
    yield Prose((Span(advice.curable),), STEP, Span("- "))
    yield Prose((Span(advice.incurable),), STEP, Span("- "))
    yield from _way("Recreate", advice.recreate)
    if page.mkfs is not None:
        yield Verbatim(page.mkfs, STEP)
    yield from _way("In place", advice.in_place)
    for title, lines in (("Does not help", advice.no_help), ("Eases it", advice.mitigations)):
        if lines:
            yield Blank()
            yield Prose((Span(f"{title}:", "bold"),))
            yield from (Prose((Span(line),), STEP, Span("- ")) for line in lines)


def _way(title: str, text: str | None) -> Iterator[Block]:
    if text is not None:
        yield Blank()
        yield Prose((Span(f"{title}: ", "bold"), Span(text)))


SCHEMA_VERSION = "1.1"


def render_json(page: LayoutPage, *, tool_version: str) -> str:
    """Return one indented JSON object with a final newline."""
    return json_text(_page_object(page, tool_version))


def _page_object(page: LayoutPage, tool_version: str) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ext4audit", "version": tool_version},
        "target": page.target,
        "uuid": page.superblock.uuid,
        "read_from": {"stack": page.stack, "groups": page.origin},
        "layout": layout_object(page.layout),
        "modelled_churn_shares": [rounded(share) for share in _shares(page.layout)],
        "counsel": None if page.advice is None else _advice_object(page.advice, page.layout),
        "mkfs": page.mkfs,
    }


def _shares(layout: MetadataLayout) -> list[float]:
    """Return each member's share of the writes under small-file churn, in slot order."""
    total = sum(layout.churn.loads) or 1
    return [load / total for load in layout.churn.loads]


def _advice_object(advice: LayoutAdvice, layout: MetadataLayout) -> dict[str, Any]:
    return {
        "sentence": advice.sentence,
        "is_even": advice.is_even,
        "curable": advice.curable,
        "incurable": advice.incurable,
        "advice": None if advice.advice is None else _mkfs_object(advice.advice, layout),
        "grow_to_members": None if advice.growth is None else advice.growth.members,
        "recreate": advice.recreate,
        "in_place": advice.in_place,
        "no_help": list(advice.no_help),
        "mitigations": list(advice.mitigations),
    }


def _mkfs_object(advice: MkfsAdvice, layout: MetadataLayout) -> dict[str, Any]:
    """Return the mkfs options; `evenness` is null unless the stripe contains all groups."""
    return {
        "blocks_per_group_option": advice.blocks_per_group_option,
        "flex_bg_groups": advice.flex_bg_groups,
        "evenness": None if layout.goes_beyond_stripe else rounded(advice.evenness),
        "is_default": advice.is_default,
    }


_SVG_WIDTH = 760
_ROW = 22
_BAR = 14
_NAME_WIDTH = 150
_NUMBER_WIDTH = 90
_MARGIN = 16
_HEAD = 84
_FOOT = 58
_LONGEST_SVG_NAME = 20
_BITMAPS = "#d9622b"
_TABLES = "#3a7ca5"
_DESCRIPTORS = "#7a9e3b"
_SERIES = (("bitmaps", _BITMAPS), ("inode tables", _TABLES), ("descriptors", _DESCRIPTORS))


def render_svg(page: LayoutPage) -> str:
    """Return an SVG of the touches of each member as stacked bars, with the advice's sentence.

    Text has the colour of the surrounding document (`currentColor`), so it is readable on light
    and on dark backgrounds.
    """
    rows = member_rows(page.layout.members)
    height = _HEAD + _ROW * (len(rows.shown) + bool(rows.folded)) + _FOOT
    sentence = page.advice.sentence if page.advice else "Nothing stripes here."
    body = [
        _open(height),
        f"<title>{_xml(f'Metadata of {page.target} on its members')}</title>",
        f"<desc>{_xml(sentence)}</desc>",
        _svg_line(_MARGIN, 26, page.target, weight="bold", size=15),
        _svg_line(_MARGIN, 44, f"{stripe_text(page)}; {groups_text(page.layout)}", size=11),
        *_legend(),
        *_bars(rows.shown, max(member.touches for member in page.layout.members)),
    ]
    bottom = _HEAD + _ROW * len(rows.shown)
    if rows.folded:
        body.append(_svg_line(_MARGIN + _NAME_WIDTH, bottom + 15, rows.folded, size=11))
        bottom += _ROW
    body.append(_svg_line(_MARGIN, bottom + 26, sentence, weight="bold"))
    body.append(
        _svg_line(
            _MARGIN, bottom + 44, "Blocks touched when one file is made in each group.", size=11
        )
    )
    return "\n".join([*body, "</svg>", ""])


def _open(height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SVG_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_SVG_WIDTH} {height}" role="img" font-family="sans-serif" font-size="13" '
        'fill="currentColor">'
    )


def _legend() -> Iterator[str]:
    left = _MARGIN + _NAME_WIDTH
    for name, colour in _SERIES:
        yield f'<rect x="{left}" y="56" width="12" height="12" fill="{colour}"/>'
        yield _svg_line(left + 17, 66, name, size=11)
        left += 110


def _bars(members: tuple[MemberLoad, ...], most: int) -> Iterator[str]:
    room = _SVG_WIDTH - 2 * _MARGIN - _NAME_WIDTH - _NUMBER_WIDTH
    for number, member in enumerate(members):
        top = _HEAD + _ROW * number
        yield _svg_line(_MARGIN, top + 12, shortened_start(visible(member.name), _LONGEST_SVG_NAME))
        left = float(_MARGIN + _NAME_WIDTH)
        for amount, (_, colour) in zip(touch_parts(member), _SERIES, strict=True):
            width = room * amount / most if most else 0.0
            if width:
                yield (
                    f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" '
                    f'fill="{colour}"/>'
                )
            left += width
        yield _svg_line(round(left) + 6, top + 12, str(member.touches), size=11)


def _svg_line(left: int, bottom: int, text: str, *, weight: str = "normal", size: int = 13) -> str:
    return (
        f'<text x="{left}" y="{bottom}" font-size="{size}" font-weight="{weight}">'
        f"{_xml(text)}</text>"
    )


def _xml(text: str) -> str:
    """Escape text for XML, which does not allow control characters."""
    return escape(visible(text))

"""The formats of `ext4audit layout`; here text: a row and a bar a member, and the advice."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.layout import LayoutAdvice, LayoutPage, MemberLoad
from ext4audit.renderers.shared.layout_text import (
    bar,
    basis_text,
    groups_text,
    member_rows,
    spread_text,
    stripe_text,
)
from ext4audit.renderers.shared.terms import shortened_start
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text.blocks import STEP, Blank, Block, Prose, Span, Verbatim

_BAR_COLUMNS = 24
_NARROW_BAR_COLUMNS = 8
_NARROW_TERMINAL_COLUMNS = 80
_LONGEST_NAME = 24
"""Columns of a member's name; that of an image is its whole path."""
_HEADS = ("bitmaps", "table starts", "descriptors", "churn")
"""Churn is modelled (`layout/bitmap_placement.py`); inode tables are counted where they start,
because the first blocks of a table are those that are written."""


def render(page: LayoutPage, *, color: bool, width: int | None, ascii_only: bool) -> str:
    """Return the layout as text with a newline at the end; `width` None wraps nothing."""
    columns = _BAR_COLUMNS
    if width is not None and width < _NARROW_TERMINAL_COLUMNS:
        columns = _NARROW_BAR_COLUMNS
    blocks = _blocks(page, columns, ascii_only=ascii_only)
    return render_blocks(blocks, color=color, width=width, ascii_only=ascii_only)


def _blocks(page: LayoutPage, bar_columns: int, *, ascii_only: bool) -> Iterator[Block]:
    layout = page.layout
    yield Prose((Span(page.target, "bold"), Span(f"  {stripe_text(page)}")))
    yield Prose((Span(groups_text(layout)),), STEP)
    yield Prose((Span(basis_text(page), "dim"),), STEP)
    for doubt in layout.doubts:
        hint = f"; {doubt.hint}" if doubt.hint else ""
        yield Prose((Span(f"{doubt.what}: {doubt.detail}{hint}", "magenta"),), STEP, Span("? "))
    yield Blank()
    yield from _table(page, bar_columns, ascii_only=ascii_only)
    yield Blank()
    if page.advice is None:
        yield Prose(
            (Span("No stripe was found. Describe an array that the kernel does not show with "),)
        )
        yield Verbatim("--members N --chunk SIZE [--level LEVEL] [--offset SIZE]", STEP)
        return
    yield from _advice(page, page.advice)


def _table(page: LayoutPage, bar_columns: int, *, ascii_only: bool) -> Iterator[Block]:
    rows = member_rows(page.layout.members)
    names = [shortened_start(member.name, _LONGEST_NAME) for member in rows.shown]
    name_columns = max(len("member"), *(len(name) for name in names))
    yield Verbatim(_line("member", name_columns, "", bar_columns, _HEADS), STEP, "dim")
    busiest = max(member.bitmap_writes for member in page.layout.members)
    of_each = dict(zip(page.layout.members, page.layout.churn.loads, strict=True))
    total = sum(page.layout.churn.loads)
    for name, member in zip(names, rows.shown, strict=True):
        drawn = bar(member.bitmap_writes, busiest, bar_columns, ascii_only=ascii_only)
        cells = _cells(member, of_each[member], total)
        yield Verbatim(_line(name, name_columns, drawn, bar_columns, cells), STEP)
    if rows.folded:
        yield Prose((Span(rows.folded, "dim"),), STEP)


def _cells(member: MemberLoad, churn: int, total: int) -> tuple[str, str, str, str]:
    share = churn / total if total else 0.0
    described = member.descriptor_blocks
    return str(member.bitmap_writes), str(member.inode_tables), str(described), f"{share:.0%}"


def _line(
    name: str, name_columns: int, drawn: str, bar_columns: int, cells: tuple[str, str, str, str]
) -> str:
    bitmaps, tables, descriptors, share = cells
    return (
        f"{name:<{name_columns}}  {bitmaps:>8}  {drawn:<{bar_columns}}  "
        f"{tables:>12}  {descriptors:>11}  {share:>6}"
    )


def _advice(page: LayoutPage, advice: LayoutAdvice) -> Iterator[Block]:
    yield Prose((Span(advice.sentence, "bold green" if advice.is_even else "bold yellow"),))
    yield Prose((Span(spread_text(page.layout)),), STEP)
    yield Prose((Span(advice.curable),), STEP, Span("- "))
    yield Prose((Span(advice.incurable),), STEP, Span("- "))
    for title, text in (("Recreate", advice.recreate), ("In place", advice.in_place)):
        if text is not None:
            yield Blank()
            yield Prose((Span(f"{title}: ", "bold"), Span(text)))
        if title == "Recreate" and page.mkfs is not None:
            yield Verbatim(page.mkfs, STEP)
    for title, lines in (("Does not help", advice.no_help), ("Eases it", advice.mitigations)):
        if lines:
            yield Blank()
            yield Prose((Span(f"{title}:", "bold"),))
            yield from (Prose((Span(line),), STEP, Span("- ")) for line in lines)

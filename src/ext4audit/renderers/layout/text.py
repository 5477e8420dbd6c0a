"""`ext4audit layout` as text: a row and a bar for each member, a sentence, the advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.facts.layout import LayoutAdvice, LayoutPage, MemberLoad, MetadataLayout
from ext4audit.renderers.shared.words import bar, binary_size, counted
from ext4audit.renderers.text import render_blocks
from ext4audit.renderers.text.blocks import STEP, Blank, Block, Prose, Span, Verbatim


def stripe_options(page: LayoutPage) -> str:
    """Return what the filesystem lies on: "raid0 of 12 members, 512 KiB chunk (as stated)"."""
    geometry = page.layout.geometry
    if geometry is None:
        return f"{counted(len(page.layout.members), 'member')}, no stripe"
    chunk = binary_size(geometry.chunk_bytes)
    start = geometry.offset_bytes
    begins = f", begins {binary_size(start)} into it" if start else ""
    members = counted(len(geometry.members), "member")
    return f"{geometry.level} of {members}, {chunk} chunk{begins} ({page.stack})"


def groups_words(layout: MetadataLayout) -> str:
    """Return the filesystem's own geometry in one line."""
    return (
        f"{counted(layout.groups, 'block group')} of {layout.blocks_per_group} blocks of "
        f"{layout.block_bytes} bytes, flex_bg size {layout.flex_bg_groups}"
    )


def basis_words(page: LayoutPage) -> str:
    """Say how the places are known, and from where."""
    if page.layout.basis == "descriptors":
        return f"read from: {page.origin}"
    return f"{page.layout.basis}: {page.origin}"


def spread_words(layout: MetadataLayout) -> str:
    """Return the figures behind the sentence: the bitmaps, and churn of small files."""
    bitmaps, touches = layout.bitmaps, layout.touches
    return (
        f"Bitmaps: N_eff {bitmaps.effective_members:.2f} of {len(bitmaps.loads)}, evenness "
        f"{bitmaps.evenness:.2f}, busiest {bitmaps.skew:.2f} times the mean. "
        f"Churn of small files: the busiest member gets {touches.hottest_share:.1%} of the "
        f"metadata writes, {1 / len(touches.loads):.1%} would be even."
    )


MOST_ROWS = 32
"""More members than this are folded: the picture of 60 disks is in the busiest of them."""
_BUSIEST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """Members that have a row each, in slot order, and a sentence about the others."""

    shown: tuple[MemberLoad, ...]
    folded: str


def rows_of(members: Sequence[MemberLoad]) -> Rows:
    """Return a row for every member of up to 32, else for the 16 with the most touches."""
    if len(members) <= MOST_ROWS:
        return Rows(tuple(members), "")
    by_load = sorted(range(len(members)), key=lambda slot: (-members[slot].touches, slot))
    busiest = sorted(by_load[:_BUSIEST_ROWS])
    rest = [members[slot].bitmap_writes for slot in by_load[_BUSIEST_ROWS:]]
    least, most = min(rest), max(rest)
    each = f"{least} bitmaps each" if least == most else f"{least} to {most} bitmaps each"
    return Rows(tuple(members[slot] for slot in busiest), f"and {len(rest)} more with {each}")


_BAR_COLUMNS = 24
_NARROW_BAR_COLUMNS = 8
_NARROW_TERMINAL_COLUMNS = 80
_LONGEST_NAME = 24
"""Columns that a member's name may take; an image has its whole path for a name."""
_HEADS = ("bitmaps", "inode tables", "descriptors", "churn")


def render(page: LayoutPage, *, color: bool, width: int | None, ascii_only: bool) -> str:
    """Return the page as text with a newline at the end; `width` None wraps nothing."""
    columns = _BAR_COLUMNS
    if width is not None and width < _NARROW_TERMINAL_COLUMNS:
        columns = _NARROW_BAR_COLUMNS
    blocks = _blocks(page, columns, ascii_only=ascii_only)
    return render_blocks(blocks, color=color, width=width, ascii_only=ascii_only)


def _blocks(page: LayoutPage, bar_columns: int, *, ascii_only: bool) -> Iterator[Block]:
    layout = page.layout
    yield Prose((Span(page.target, "bold"), Span(f"  {stripe_options(page)}")))
    yield Prose((Span(groups_words(layout)),), STEP)
    yield Prose((Span(basis_words(page), "dim"),), STEP)
    for doubt in layout.doubts:
        hint = f"; {doubt.hint}" if doubt.hint else ""
        yield Prose((Span(f"{doubt.what}: {doubt.detail}{hint}", "magenta"),), STEP, Span("? "))
    yield Blank()
    yield from _table(page, bar_columns, ascii_only=ascii_only)
    yield Blank()
    if page.advice is None:
        yield Prose((Span("Nothing stripes here. Describe an array that cannot be seen with "),))
        yield Verbatim("--members N --chunk SIZE [--level LEVEL] [--offset SIZE]", STEP)
        return
    yield from _counsel(page, page.advice)


def _table(page: LayoutPage, bar_columns: int, *, ascii_only: bool) -> Iterator[Block]:
    rows = rows_of(page.layout.members)
    names = [_shortened(member.name) for member in rows.shown]
    name_columns = max(len("member"), *(len(name) for name in names))
    yield Verbatim(_line("member", name_columns, "", bar_columns, _HEADS), STEP, "dim")
    busiest = max(member.bitmap_writes for member in page.layout.members)
    total = sum(member.touches for member in page.layout.members)
    for name, member in zip(names, rows.shown, strict=True):
        drawn = bar(member.bitmap_writes, busiest, bar_columns, ascii_only=ascii_only)
        yield Verbatim(_line(name, name_columns, drawn, bar_columns, _cells(member, total)), STEP)
    if rows.folded:
        yield Prose((Span(rows.folded, "dim"),), STEP)


def _cells(member: MemberLoad, total_touches: int) -> tuple[str, str, str, str]:
    share = member.touches / total_touches if total_touches else 0.0
    described = member.descriptor_blocks
    return str(member.bitmap_writes), str(member.inode_tables), str(described), f"{share:.1%}"


def _line(
    name: str, name_columns: int, drawn: str, bar_columns: int, cells: tuple[str, str, str, str]
) -> str:
    bitmaps, tables, descriptors, share = cells
    return (
        f"{name:<{name_columns}}  {bitmaps:>8}  {drawn:<{bar_columns}}  "
        f"{tables:>12}  {descriptors:>11}  {share:>6}"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"...{name[3 - _LONGEST_NAME :]}"


def _counsel(page: LayoutPage, counsel: LayoutAdvice) -> Iterator[Block]:
    yield Prose((Span(counsel.sentence, "bold green" if counsel.is_even else "bold yellow"),))
    yield Prose((Span(spread_words(page.layout)),), STEP)
    yield Prose((Span(counsel.curable),), STEP, Span("- "))
    yield Prose((Span(counsel.incurable),), STEP, Span("- "))
    for title, text in (("Recreate", counsel.recreate), ("In place", counsel.in_place)):
        if text is not None:
            yield Blank()
            yield Prose((Span(f"{title}: ", "bold"), Span(text)))
    for title, lines in (("Does not help", counsel.no_help), ("Eases it", counsel.mitigations)):
        if lines:
            yield Blank()
            yield Prose((Span(f"{title}:", "bold"),))
            yield from (Prose((Span(line),), STEP, Span("- ")) for line in lines)

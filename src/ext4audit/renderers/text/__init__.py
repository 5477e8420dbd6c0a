"""The text format: problems, their evidence, and the commands to copy.

Each command is alone on its line, unwrapped and without decoration. All text passes through
`visible` before it is printed. This is the only renderer that imports rich.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

from ext4audit.renderers import Audited, Page, visible
from ext4audit.renderers.text.blocks import (
    STEP,
    Block,
    Blocks,
    Columns,
    Prose,
    Span,
    Verbatim,
    make_look,
)
from ext4audit.renderers.text.report import plan_blocks, report_blocks
from ext4audit.report import PlanAdvice, Report

_NARROWEST = 24
"""Minimum columns of prose, even on a narrower terminal."""
_SHARE = 3
"""If the last cells would get less than 1/3 of the terminal's width, the row wraps as prose."""


def render(hosts: Sequence[Audited], page: Page) -> str:
    """Return the reports as text with a final newline."""
    between = "\n" if page.verbosity >= 0 else ""
    return between.join(
        render_report(host.report, page) for host in hosts if host.report is not None
    )


def render_report(report: Report, page: Page) -> str:
    """Return one report as text.

    Verbosity is -1 for only the summary line, 0, or 1 for all evidence and reasons. Without
    `color`, no escape sequences are written.
    """
    look = make_look(page)
    blocks = report_blocks(report, look)
    return render_blocks(blocks, color=page.color, width=page.width, ascii_only=page.ascii_only)


def render_plan(report: Report, advice: PlanAdvice, page: Page) -> str:
    """Return the report of a plan as text."""
    look = make_look(page)
    blocks = plan_blocks(report, advice, look)
    return render_blocks(blocks, color=page.color, width=page.width, ascii_only=page.ascii_only)


def render_blocks(blocks: Blocks, *, color: bool, width: int | None, ascii_only: bool) -> str:
    """Return blocks as text; the outputs of `layout` and `probe` use this too."""
    pen = _Pen(width, ascii_only)
    lines = (line for block in blocks for line in pen.draw(block))
    if not color:
        return "".join(f"{line.plain}\n" for line in lines)
    console = _console()
    return "".join(_colored(line, console) for line in lines)


def _colored(line: Text, console: Console) -> str:
    """Return a line with the escape sequences of its styles.

    `Console.print` would take five times as long, and by default it wraps, crops or pads lines,
    which would break commands.
    """
    return "".join(
        segment.style.render(segment.text, color_system=ColorSystem.STANDARD)
        if segment.style
        else segment.text
        for segment in line.render(console, end="\n")
    )


def _console() -> Console:
    """Return a console that resolves styles and does not depend on the environment."""
    return Console(
        file=StringIO(),
        force_terminal=True,
        color_system="standard",
        force_jupyter=False,
        legacy_windows=False,
        width=80,
        height=25,
    )


class _Pen(NamedTuple):
    """Renderer of blocks as lines of text, for one kind of terminal."""

    width: int | None
    ascii_only: bool

    def draw(self, block: Block) -> Iterator[Text]:
        match block:
            case Prose():
                yield from self._prose(block)
            case Verbatim(text, indent, style):
                yield Text(" " * indent).append_text(self._span(Span(text, style)))
            case Columns():
                yield from self._columns(block)
            case _:
                yield Text()

    def _span(self, span: Span) -> Text:
        return Text(visible(span.text, ascii_only=self.ascii_only), style=span.style)

    def _prose(self, block: Prose) -> Iterator[Text]:
        start = Text(" " * block.indent).append_text(self._span(block.marker))
        return self._hanging(start, Text().join(self._span(span) for span in block.spans))

    def _hanging(self, start: Text, text: Text, more: int = 0) -> Iterator[Text]:
        """Yield the text after `start`; further lines align with it, plus `more` columns."""
        margin = start.cell_len + more
        for number, line in enumerate(_wrapped(text, self.width, margin)):
            line.rstrip()
            yield (Text(" " * margin) if number else start.copy()).append_text(line)

    def _columns(self, block: Columns) -> Iterator[Text]:
        """Yield rows with aligned columns; a label that exceeds its column gets a separate line."""
        cells = [[self._span(span) for span in row] for row in block.rows]
        columns = zip(*cells, strict=True)
        widths = [_column_width(column, block.widest) for column in columns]
        for row in cells:
            if block.fixed == 1 and row[0].cell_len > widths[0] > 0:
                yield from self._hanging(Text(" " * block.indent), row[0], STEP * 2)
                yield from self._row([Text(), *row[1:]], widths, block)
            else:
                yield from self._row(row, widths, block)

    def _row(self, row: Sequence[Text], widths: Sequence[int], block: Columns) -> Iterator[Text]:
        """Yield one line, or several if it is wider than the terminal."""
        line = _joined(row, widths, block.indent)
        if self.width is None or line.cell_len <= self.width:
            yield line
        else:
            yield from self._folded(row, widths, block)

    def _folded(self, row: Sequence[Text], widths: Sequence[int], block: Columns) -> Iterator[Text]:
        """Yield a row with its last cells below each other, or as prose if they lack space."""
        start = _joined([*row[: block.fixed], Text()], widths, block.indent)
        width = self.width or 0
        if self.width and width - start.cell_len < max(_NARROWEST, width // _SHARE):
            line = _joined(row, [0] * len(row), 0)
            yield from self._hanging(Text(" " * block.indent), line, STEP * 2)
            return
        for cell in row[block.fixed :]:
            yield from self._hanging(start, cell)
            start = Text(" " * start.cell_len)


def _wrapped(text: Text, width: int | None, margin: int) -> Sequence[Text]:
    """Wrap text between words only, because a path split over two lines cannot be copied.

    The wrapping in rich folds or crops a word that is too long, or does not wrap at all.
    """
    if width is None:
        return (text,)
    room, column, breaks = max(width - margin, _NARROWEST), 0, []
    for word in re.finditer("[^ ]* +|[^ ]+", text.plain):
        if column and column + cell_len(word.group().rstrip()) > room:
            breaks.append(word.start())
            column = 0
        column += cell_len(word.group())
    return list(text.divide(breaks))


def _column_width(cells: Sequence[Text], widest: int) -> int:
    return max((width for cell in cells if (width := cell.cell_len) <= widest), default=0)


def _joined(row: Sequence[Text], widths: Sequence[int], indent: int) -> Text:
    """Return cells as one line, each but the last padded to its column."""
    line = Text(" " * indent)
    for cell, width in zip(row[:-1], widths, strict=False):
        line.append_text(_padded(cell, width))
    return line.append_text(row[-1])


def _padded(cell: Text, width: int) -> Text:
    """Return a cell padded to `width` plus two columns of space."""
    return cell.copy().append(" " * (max(width - cell.cell_len, 0) + 2))

"""The building blocks of the text format, and the glyphs and verbosity of its look.

Blocks are independent of the terminal. `text/__init__.py` draws them and passes all text through
`visible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ext4audit.finding import Finding, Severity
from ext4audit.renderers import Page
from ext4audit.renderers.shared import USUAL_THRESHOLD
from ext4audit.renderers.shared.commands import AFTER, BEFORE, FILE

STEP = 2
"""Columns of one level of indentation."""


class Span(NamedTuple):
    """A piece of text in one rich style; output without colour ignores the style."""

    text: str
    style: str = ""


class Prose(NamedTuple):
    """Spans that wrap at the terminal's width; `marker` precedes the first line."""

    spans: tuple[Span, ...]
    indent: int = 0
    marker: Span = Span("")


class Verbatim(NamedTuple):
    """One line that is never wrapped: a command to copy, or a line of a traceback."""

    text: str
    indent: int
    style: str = ""


class Columns(NamedTuple):
    """Rows of spans in aligned columns, all with the same number of cells.

    In a row that is too wide, the cells after the first `fixed` ones wrap. A cell of more than
    `widest` columns does not widen its column, and only shifts its own row; if `fixed` is 1, such
    a label gets a separate line.
    """

    rows: tuple[tuple[Span, ...], ...]
    indent: int
    fixed: int
    widest: int = 36


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line."""


Block: TypeAlias = Prose | Verbatim | Columns | Blank
Blocks: TypeAlias = Iterator[Block]

UNKNOWN_MARKER = Span("? ", "magenta")
NOT_APPLICABLE_MARKER = Span("- ", "dim")

SEVERITY_STYLES: Mapping[Severity, str] = {
    Severity.CRITICAL: "bold red",
    Severity.HIGH: "red",
    Severity.MEDIUM: "yellow",
    Severity.LOW: "cyan",
    Severity.INFO: "dim",
}

DIFF_STYLES: Mapping[str, str] = {FILE: "dim", BEFORE: "red", AFTER: "green"}


class Look(NamedTuple):
    """The verbosity, the glyphs, and what is shown in full. Every glyph has text beside it.

    `threshold` is the severity that fails the audit, `asked` has the codes of rules that were
    selected individually, whose findings are shown in full.
    """

    verbosity: int
    severities: str
    fine: str
    dot: str
    ellipsis: str
    threshold: Severity | None = None
    asked: frozenset[str] = frozenset()

    def is_whole(self, code: str, finding: Finding) -> bool:
        """Return whether a finding of a rule is shown with its evidence and its remedy."""
        severe = finding.severity.at_least(self.threshold or USUAL_THRESHOLD)
        return severe or finding.measured or code in self.asked

    @property
    def verbose(self) -> bool:
        """Whether all evidence, all remedies and all verdicts are shown."""
        return self.verbosity > 0

    def severity_marker(self, severity: Severity) -> Span:
        """Return the glyph of a severity."""
        return Span(f"{self.severities[severity.rank]} ", SEVERITY_STYLES[severity])

    def fine_marker(self) -> Span:
        """Return the glyph of a pass."""
        return Span(f"{self.fine} ", "green")


def make_look(page: Page) -> Look:
    """Return the look of a page; `severities` has glyphs from the worst to the mildest."""
    plain = page.ascii_only
    return Look(
        verbosity=page.verbosity,
        severities="X!*o." if plain else "✖▲◆◇·",
        fine="+" if plain else "✓",
        dot="-" if plain else "·",
        ellipsis="..." if plain else "…",
        threshold=page.threshold,
        asked=page.asked,
    )

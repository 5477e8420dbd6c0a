"""What the text format is made of: blocks that know nothing of terminals, and the look of them.

The sections of the report are built of these, and text.py draws them: there, in one place,
every text passes through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from ext4audit.finding import Citation, Severity

STEP = 2
"""Columns of one step of indentation."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style (a style of rich, without colour the text alone)."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Spans that may be wrapped at the terminal's width; `marker` hangs in front of them."""

    spans: tuple[Span, ...]
    indent: int = 0
    marker: Span = field(default=Span(""))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """One line that is never wrapped: a command to copy, a line of a traceback."""

    text: str
    indent: int
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of label, value and origin in aligned columns; what is too wide hangs."""

    rows: tuple[Citation, ...]
    indent: int


@dataclass(frozen=True, slots=True)
class Blank:
    """An empty line."""


Block: TypeAlias = Prose | Verbatim | Table | Blank
Blocks: TypeAlias = Iterator[Block]

UNKNOWN_MARKER = Span("? ", "magenta")
NOT_APPLICABLE_MARKER = Span("- ", "dim")

SEVERITY_STYLES = MappingProxyType(
    {
        Severity.CRITICAL: "bold red",
        Severity.HIGH: "red",
        Severity.MEDIUM: "yellow",
        Severity.LOW: "cyan",
        Severity.INFO: "dim",
    }
)


@dataclass(frozen=True, slots=True)
class Look:
    """How much is shown, and with which glyphs. A word always stands beside a glyph."""

    verbosity: int
    severities: str
    fine: str

    @property
    def verbose(self) -> bool:
        """Whether the evidence of passes and the reasons of not-applicable are shown."""
        return self.verbosity > 0

    def severity_marker(self, severity: Severity) -> Span:
        """Return the glyph of a severity."""
        return Span(f"{self.severities[severity.rank]} ", SEVERITY_STYLES[severity])

    def fine_marker(self) -> Span:
        """Return the glyph of what passed."""
        return Span(f"{self.fine} ", "green")


def make_look(verbosity: int, *, ascii_only: bool) -> Look:
    """Choose the glyphs: the severities from worst to mildest, then what passed."""
    if ascii_only:
        return Look(verbosity, severities="X!*o.", fine="+")
    return Look(verbosity, severities="✖▲◆◇·", fine="✓")

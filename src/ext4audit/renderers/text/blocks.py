"""The building blocks of the text format, and the glyphs and verbosity of its look.

Blocks are independent of the terminal. `text/__init__.py` draws them; there all text passes
through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from ext4audit.finding import Citation, Severity
from ext4audit.renderers.shared.commands import AFTER, BEFORE, FILE

STEP = 2
"""Columns of one level of indentation."""


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of text in one style of rich; output without colour ignores the style."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Prose:
    """Spans that wrap at the terminal's width; `marker` stands in front of the first line."""

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
    """Rows of label, value and origin in aligned columns; a row that is too wide wraps."""

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

DIFF_STYLES = MappingProxyType({FILE: "dim", BEFORE: "red", AFTER: "green"})


@dataclass(frozen=True, slots=True)
class Look:
    """The verbosity, the glyphs, and the severity that fails. Text always stands beside a glyph."""

    verbosity: int
    severities: str
    fine: str
    threshold: Severity | None = None

    @property
    def verbose(self) -> bool:
        """Whether the evidence of passes and the reasons of rules that do not apply are shown."""
        return self.verbosity > 0

    def severity_marker(self, severity: Severity) -> Span:
        """Return the glyph of a severity."""
        return Span(f"{self.severities[severity.rank]} ", SEVERITY_STYLES[severity])

    def fine_marker(self) -> Span:
        """Return the glyph of a pass."""
        return Span(f"{self.fine} ", "green")


def make_look(verbosity: int, threshold: Severity | None, *, ascii_only: bool) -> Look:
    """Return the look: glyphs for the severities from worst to mildest, and for a pass."""
    if ascii_only:
        return Look(verbosity, severities="X!*o.", fine="+", threshold=threshold)
    return Look(verbosity, severities="✖▲◆◇·", fine="✓", threshold=threshold)

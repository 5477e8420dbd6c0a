"""What the renderers of whole pages receive: the report of every host, and the look."""

from __future__ import annotations

from dataclasses import dataclass

from ext4audit.finding import Severity
from ext4audit.report import Report


@dataclass(frozen=True, slots=True)
class Audited:
    """One host: its report, or why there is none. `label` is the source as it was named."""

    label: str
    report: Report | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """How a page looks, and what it was made by.

    `threshold` is the severity at which an audit fails, None for never; `seconds` how long the
    audit took, `taken_at` when it ended (RFC 3339, UTC). `verbosity` is -1, 0 or 1. `color`,
    `width` (columns, None for no wrapping) and `ascii_only` are those of the output.
    """

    tool_version: str
    taken_at: str
    threshold: Severity | None = Severity.MEDIUM
    allow_incomplete: bool = False
    seconds: float = 0.0
    verbosity: int = 0
    color: bool = False
    width: int | None = None
    ascii_only: bool = False

"""What the renderers of whole pages are given: every host's report, and how it is to look."""

from __future__ import annotations

from ext4audit.finding import Severity
from ext4audit.records import dataclass
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

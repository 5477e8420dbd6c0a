"""Plain words for numbers, severities and reasons, shared by the formats that people read."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from ext4audit.evidence import Unknown, Why
from ext4audit.finding import Disruption, Phase, Remedy

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024

DISRUPTION_WORDS = MappingProxyType(
    {
        Disruption.ONLINE: "online",
        Disruption.REMOUNT: "needs a remount",
        Disruption.UNMOUNT: "needs an unmount",
        Disruption.REBOOT: "needs a reboot",
        Disruption.RECREATE: "destroys and recreates the filesystem",
    }
)
PHASE_WORDS = MappingProxyType(
    {
        Phase.IMMEDIATE: "now",
        Phase.PERSISTENT: "for good",
        Phase.VERIFY: "check",
        Phase.ROLLBACK: "undo",
    }
)
WHY_WORDS = MappingProxyType(
    {
        Why.ABSENT: "not there",
        Why.DENIED: "no permission",
        Why.FAILED: "reading it failed",
        Why.TIMED_OUT: "timed out",
        Why.UNPARSABLE: "not understood",
        Why.NOT_CAPTURED: "not captured",
        Why.UNSUPPORTED: "not supported here",
    }
)
_SAID_BY_DETAIL = frozenset({Why.ABSENT, Why.DENIED, Why.FAILED})
"""Reasons for which the kernel or a tool has words of its own ("Permission denied")."""


def counted(number: int, noun: str) -> str:
    """Return "1 disk", "12 disks"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def binary_size(size_bytes: int) -> str:
    """Return bytes in the largest unit that leaves a whole number: 524288 is "512 KiB"."""
    for unit in _UNITS[:-1]:
        if size_bytes % _STEP or not size_bytes:
            return f"{size_bytes} {unit}"
        size_bytes //= _STEP
    return f"{size_bytes} {_UNITS[-1]}"


def listed(names: Sequence[str], limit: int | None = None) -> str:
    """Return the names with commas; beyond `limit`, how many more there are."""
    if limit is None or len(names) <= limit:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} more"


def disruption_words(remedy: Remedy) -> str:
    """Say what a remedy stops, and that it destroys data where it does."""
    words = DISRUPTION_WORDS[remedy.disruption]
    if remedy.destructive and remedy.disruption is not Disruption.RECREATE:
        return f"{words}, destroys data"
    return words


def why_words(unknown: Unknown) -> str:
    """Say why something is not known, in the host's own words where they say it."""
    if unknown.detail and unknown.why in _SAID_BY_DETAIL:
        return unknown.detail
    words = WHY_WORDS[unknown.why]
    return f"{words}: {unknown.detail}" if unknown.detail else words

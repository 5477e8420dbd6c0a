"""Snapshots as directories, which the program only reads: it writes tar files and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ext4audit.sources import Answer, Ask
from ext4audit.sources.snapshot.writing import encode


def write_snapshot(
    directory: Path, answers: Mapping[Ask, Answer], *, taken_at: str, masked: Sequence[str] = ()
) -> None:
    """Write a snapshot into a new directory; `taken_at` is an RFC 3339 time in UTC."""
    for name, content in encode(answers, taken_at, masked=masked).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

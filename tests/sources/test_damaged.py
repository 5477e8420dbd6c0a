"""Captured answers that are truncated or partly zeroed are rejected."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Known, Unknown
from ext4audit.sources import Answer, Ask, ListDir, ReadBytes, ReadFile, refuse_damaged

BYTES = ReadBytes("/dev/sda", 4096, 16)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (BYTES, Known(b"", "sda")),
        (BYTES, Known(bytes(15), "sda")),
        (ReadFile("/sys/block/sda/size"), Known("20", "size")),
        (ReadFile("/proc/self/mountinfo"), Known("25 1 8:1 / / r", "mountinfo")),
        (ReadFile("/proc/self/mountinfo"), Known("25 1 8:1 / / rw - ex\0\0\0rw\n", "mountinfo")),
    ],
)
def test_truncated_answers_are_unknown(ask: Ask, answer: Answer) -> None:
    """Zero bytes must not be parsed as group descriptors: no group would await initialization."""
    assert isinstance(refuse_damaged(ask, answer), Unknown)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (BYTES, Known(bytes(16), "sda")),
        (ReadFile("/sys/block/sda/size"), Known("20\n", "size")),
        (ReadFile("/sys/block/md0/md/level"), Known("", "level")),
        (ReadFile("/etc/fstab"), Known("/dev/sda / ext4 ro", "fstab")),
        (ListDir("/sys/block"), Known("sda\0sdb", "block")),
        (ReadFile("/etc/fstab"), Known("\0\0\0\0", "fstab")),  # the host's own file has the zeros
    ],
)
def test_complete_answers_are_unchanged(ask: Ask, answer: Answer) -> None:
    """A file that a person edits may end without a newline."""
    assert refuse_damaged(ask, answer) == answer

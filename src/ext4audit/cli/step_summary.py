"""The summary page of a step in GitHub Actions: Markdown, appended to a file that it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ext4audit.cli.output import OutputFailed
from ext4audit.renderers import markdown
from ext4audit.renderers.page import Audited, Page

VARIABLE = "GITHUB_STEP_SUMMARY"
LARGEST_BYTES = 1 << 20
"""GitHub refuses a step's summary beyond 1 MiB (docs: workflow commands, job summaries)."""
MORE = b"\n**Cut here: the whole report does not fit into a step's summary.**\n"
LONGEST_END = 1024
"""Room for that sentence and for a fence."""


def append_summary(hosts: Sequence[Audited], page: Page) -> None:
    """Append the findings to the step's summary, where there is one; raises OutputFailed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    try:
        with Path(path).open("ab") as file:
            room = LARGEST_BYTES - file.tell()
            file.write(_cut(markdown.render(hosts, page), room))
    except OSError as error:
        raise OutputFailed(f"cannot write to {path}: {error.strerror or error}") from error


def _cut(text: str, room_bytes: int) -> bytes:
    """Return the lines that there is room for, and say so where they are not all."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= room_bytes:
        return whole
    kept = whole[: max(room_bytes - LONGEST_END, 0)].rpartition(b"\n")[0]
    return b"\n".join((kept, _open_fence(kept), MORE)) if kept else b""


def _open_fence(text: bytes) -> bytes:
    """Return the line that closes a code block in which a text ends, empty outside of one."""
    fence = b""
    for line in text.split(b"\n"):
        marks = line[: len(line) - len(line.lstrip(b"`"))]
        if fence and line == fence:
            fence = b""
        elif not fence and len(marks) >= len(b"```"):
            fence = marks
    return fence

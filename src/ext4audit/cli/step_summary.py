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


def append_summary(hosts: Sequence[Audited], page: Page) -> None:
    """Append the findings to the step's summary, where there is one; raises OutputFailed."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    text = markdown.render(hosts, page).encode("utf-8", "backslashreplace")
    try:
        with Path(path).open("ab") as file:
            file.write(text[:LARGEST_BYTES])
    except OSError as error:
        raise OutputFailed(f"cannot write to {path}: {error.strerror or error}") from error

"""The pairs of -f and -o: one audit feeds several consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

DEFAULT = "text"
STANDARD_OUTPUT = "-"


NAGIOS = "nagios"
FORMATS = {
    "text": "text",
    "json": "json_v1",
    "ndjson": "ndjson",
    "sarif": "sarif",
    "junit": "junit",
    "gitlab": "gitlab",
    "github": "github",
    "prometheus": "prometheus",
    NAGIOS: "nagios",
    "csv": "csv_rows",
    "markdown": "markdown",
    "html": "html",
}
"""The formats, and the module of `renderers` that has each."""
ONE_BY_ONE = frozenset({"text", "ndjson"})
"""Formats that are written host by host, in memory that does not grow with the fleet."""


class Sink(NamedTuple):
    """A format, and the file that it is written to; None is standard output."""

    fmt: str
    path: str | None

    @property
    def module(self) -> str:
        """The module of `renderers` that has the format."""
        return FORMATS[self.fmt]


def sinks_of(formats: Sequence[str], outputs: Sequence[str]) -> tuple[Sink, ...]:
    """Return the sinks: each -o belongs to the -f of its number; raises UsageError.

    What has no -o of its own goes to standard output, which can hold one of them.
    """
    named = formats or (DEFAULT,)
    if len(outputs) > len(named):
        raise click.UsageError(f"{len(outputs)} times --output, and {len(named)} --format")
    paths = [None if path == STANDARD_OUTPUT else path for path in outputs]
    padded = [*paths, *(None for _ in range(len(named) - len(paths)))]
    if padded.count(None) > 1:
        raise click.UsageError("several formats, but only one can go to standard output: use -o")
    files = [path for path in paths if path is not None]
    if len(set(files)) < len(files):
        raise click.UsageError("two formats cannot go to the same file")
    return tuple(Sink(fmt, path) for fmt, path in zip(named, padded, strict=True))

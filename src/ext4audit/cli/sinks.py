"""The pairs of -f and -o: one audit feeds several consumers."""

from __future__ import annotations

import os
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

    Of several formats each needs its own, "-" for standard output: in "-f text -f json -o FILE"
    nobody could tell which of them FILE is for.
    """
    named = formats or (DEFAULT,)
    if len(outputs) != len(named) and (outputs or len(named) > 1):
        raise click.UsageError(
            f"--format is given {counted(len(formats))} and --output {counted(len(outputs))}: "
            "several formats need an --output each, - for standard output"
        )
    paths = [None if path == STANDARD_OUTPUT else path for path in outputs] or [None]
    if len({_place(path) for path in paths}) < len(paths):
        raise click.UsageError("two formats cannot go to the same place")
    return tuple(Sink(fmt, path) for fmt, path in zip(named, paths, strict=True))


def counted(times: int) -> str:
    """Return how often something is said."""
    return {0: "never", 1: "once", 2: "twice"}.get(times, f"{times} times")


def _place(path: str | None) -> str | int:
    """Return what "a" and "./a" have in common, and "-" and /dev/stdout."""
    if path is None:
        return 1
    from ext4audit.cli.own_stream import own_stream  # noqa: PLC0415 - for --output only

    try:
        stream = own_stream(path)
        return os.path.realpath(path) if stream is None else stream
    except OSError:  # a removed working directory: the destination is refused for it
        return path

"""How long each external command may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

_LONGEST_SECONDS = 86400


def timeout_option(default_seconds: float) -> Callable[[Any], Any]:
    """Return the option --timeout, as `timeout_seconds`."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=float,
        callback=_bounded,
        default=default_seconds,
        show_default=True,
        metavar="SECONDS",
        help="For each external command; at most a day.",
    )


def _bounded(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Refuse what no clock can wait for: FloatRange lets "nan" pass, and "inf" never ends."""
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise click.BadParameter(f"{seconds:g} is not more than 0 and at most 86400 seconds.")
    return seconds

"""Usage errors in our own words, and what a Nagios plugin prints when it cannot run."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from ext4audit.cli import OutputFailed, did_you_mean, discard
from ext4audit.cli.output import NAGIOS, write
from ext4audit.renderers.nagios import unknown
from ext4audit.report import NAGIOS_UNKNOWN

FORMAT = re.compile("--format(?:=(?P<long>.*))?|-[qv]*f(?P<short>.*)", re.DOTALL)
"""The option that names a format, alone or with its value."""


def _is_plugin(arguments: Sequence[str]) -> bool:
    """Whether the first format of a command line is that of Nagios, whose exit codes then apply.

    The command line may be one that cannot be parsed.
    """
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        found = FORMAT.fullmatch(word)
        if found:
            return (found["long"] or found["short"] or following) == NAGIOS
    return False


def refuse_as_plugin(why: str, arguments: Sequence[str]) -> int | None:
    """Print the status line of a plugin that was called wrongly, and return its exit code.

    None means that the command line asks for no plugin. The code is UNKNOWN (Monitoring Plugins
    Development Guidelines, "Plugin Return Codes": invalid command line arguments).
    """
    if not _is_plugin(arguments):
        return None
    try:
        write(unknown(why), None)
    except (OutputFailed, BrokenPipeError):
        discard(sys.stdout)
    return NAGIOS_UNKNOWN


def reason(error: click.ClickException) -> str:
    """Return in one line what is wrong, and the nearest valid value."""
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}{_near(error)}"
    if isinstance(error, click.BadOptionUsage):
        return _misused(error)
    if isinstance(error, click.MissingParameter):
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter):
        return f"{_name(error.param)}: {_plain(error.message)}"
    return _plain(error.format_message())


def _near(error: click.NoSuchOption) -> str:
    """Return the nearest long option; single letters have no nearest option."""
    if error.ctx is None or not error.option_name.startswith("--"):
        return ""
    parameters = error.ctx.command.get_params(error.ctx)
    names = [name for each in parameters for name in (*each.opts, *each.secondary_opts)]
    return did_you_mean(error.option_name, [name for name in names if name.startswith("--")])


def _misused(error: click.BadOptionUsage) -> str:
    """Return whether a value is missing or superfluous: nothing else can be wrong."""
    too_much = "does not take" in error.message
    return f"{error.option_name} takes {'no' if too_much else 'a'} value"


def _name(parameter: click.Parameter | None) -> str:
    """Return the long name of an option, or what an argument is called in the help."""
    if parameter is None:
        return "a value"
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return parameter.metavar or f"{parameter.name}".upper()


def _plain(message: str) -> str:
    """Return a message in our form: it follows a colon and has no full stop."""
    return (message[:1].lower() + message[1:]).removesuffix(".")

"""Usage errors in the wording of ext4audit, and the output of a Nagios plugin that failed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from itertools import dropwhile

import click
from click.core import ParameterSource

from ext4audit.cli import OutputFailed, app, did_you_mean, discard, variables
from ext4audit.cli.output import NAGIOS, write
from ext4audit.renderers.nagios import unknown_line
from ext4audit.report import NAGIOS_UNKNOWN
from ext4audit.rule import Rule

FORMAT = re.compile("--format(?:=(?P<long>.*))?|-[qv]*f(?P<short>.*)", re.DOTALL)
"""The option --format or -f, alone, clustered or with its value."""
_TOO_MANY = "Got unexpected extra argument"
"""The start of the only message of click's own that users see (click 8.1 to 8.5)."""
LEAST_PART = 4
"""Minimum length of a word to suggest a name that contains it; shorter ones match too many."""


def _is_plugin(arguments: Sequence[str]) -> bool:
    """Return whether the first format is Nagios, whose exit codes then apply.

    The command line need not be valid. Without --format, the environment variables apply.
    """
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        found = FORMAT.fullmatch(word)
        if found:
            return (found["long"] or found["short"] or following) == NAGIOS
    return any(
        os.environ[name].split()[:1] == [NAGIOS]
        for name in variables(next(iter(arguments), ""), "format")
        if name in os.environ
    )


def code_of_failure(why: str, arguments: Sequence[str], code: int) -> int:
    """Return the exit code of a run that failed: `code`, or that of a Nagios plugin.

    Nagios takes other codes than 0 to 3 for CRITICAL. A plugin prints its status line and ends
    with UNKNOWN (Monitoring Plugins Development Guidelines, "Plugin Return Codes": invalid command
    line arguments, and failures internal to the plugin).
    """
    if not _is_plugin(arguments):
        return code
    try:
        write(unknown_line(why), None)
    except (OutputFailed, BrokenPipeError):
        discard(sys.stdout)
    return NAGIOS_UNKNOWN


def usage_error_text(error: click.ClickException, arguments: Sequence[str] = ()) -> str:
    """Return the message of a usage error on one line, with the nearest valid value.

    `arguments` are those of the program: the error of a missing value does not name the command.
    """
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}{_near(error)}"
    if isinstance(error, click.BadOptionUsage):
        return _misused(error, arguments)
    if isinstance(error, click.MissingParameter):
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter):
        return f"{_name(error.param)}{_variable(error)}: {_plain(error.message)}"
    return _plain(error.format_message())


def _near(error: click.NoSuchOption) -> str:
    """Return a suggestion of the nearest long option; short options get none."""
    if error.ctx is None or not error.option_name.startswith("--"):
        return ""
    parameters = error.ctx.command.get_params(error.ctx)
    names = [name for each in parameters for name in (*each.opts, *each.secondary_opts)]
    return did_you_mean(error.option_name, [name for name in names if name.startswith("--")])


def _misused(error: click.BadOptionUsage, arguments: Sequence[str]) -> str:
    """Return the message for a missing or superfluous value, the only two possible errors."""
    known = {name: each for each in _options(arguments) for name in each.opts}
    option = known.get(error.option_name)
    takes_value = option is not None and not (option.is_flag or option.count)
    return f"{error.option_name} takes {'a' if takes_value else 'no'} value"


def _options(arguments: Sequence[str]) -> list[click.Option]:
    """Return the options of the command that is called; those before it are flags."""
    words = list(dropwhile(lambda word: word.startswith("-"), arguments))
    _, command, _ = app.resolve_command(click.Context(app), words) if words else (None, None, None)
    return [each for each in command.params if isinstance(each, click.Option)] if command else []


def _name(parameter: click.Parameter | None) -> str:
    """Return the long name of an option, or the name of an argument in the help."""
    if parameter is None:
        return "a value"
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return (parameter.metavar or f"{parameter.name}".upper()).strip("[].")


def _variable(error: click.BadParameter) -> str:
    """Return " (VARIABLE)" for a value from the environment, else ""."""
    option, context = error.param, error.ctx
    if option is None or context is None or not isinstance(option.envvar, list):
        return ""
    if context.get_parameter_source(f"{option.name}") is not ParameterSource.ENVIRONMENT:
        return ""
    return f" ({next(name for name in option.envvar if os.environ.get(name))})"


def near_rule(word: str, rules: Sequence[Rule]) -> str:
    """Return " (did you mean …?)" with a similar rule code, name or family, else ""."""
    named = [rule.name for rule in rules if len(word) >= LEAST_PART and word.lower() in rule.name]
    if len(named) == 1:
        return f" (did you mean {named[0]}?)"
    names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
    return did_you_mean(word.upper(), names) or did_you_mean(word.lower(), names)


def _plain(message: str) -> str:
    """Return a message in the form that follows a colon, without a full stop.

    Only click's own message loses its initial capital: click gives it no type of its own. Any
    other message begins with a value, such as a file name, which stays as it was typed.
    """
    ours = message.removesuffix(".")
    return f"g{ours[1:]}" if ours.startswith(_TOO_MANY) else ours

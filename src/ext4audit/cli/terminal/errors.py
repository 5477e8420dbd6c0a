"""Usage errors in our own words, and the output of a Nagios plugin that cannot run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

import click
from click.core import ParameterSource

from ext4audit.cli import OutputFailed, did_you_mean, discard, variables
from ext4audit.cli.output import NAGIOS, write
from ext4audit.renderers.nagios import unknown_line
from ext4audit.report import NAGIOS_UNKNOWN
from ext4audit.rule import Rule

FORMAT = re.compile("--format(?:=(?P<long>.*))?|-[qv]*f(?P<short>.*)", re.DOTALL)
"""The option that names a format, alone or with its value."""
_TOO_MANY = "Got unexpected extra argument"
"""How click begins the only sentence of its own that reaches a user (click 8.1 to 8.5)."""
LEAST_PART = 4
"""Letters of a part of a name that is suggested: fewer are in too many names."""


def _is_plugin(arguments: Sequence[str]) -> bool:
    """Whether the first format of a command line is that of Nagios, whose exit codes then apply.

    The command line may be one that cannot be parsed. Without a format, the environment has it.
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


def refuse_as_plugin(why: str, arguments: Sequence[str]) -> int | None:
    """Print the status line of a plugin that was called wrongly, and return its exit code.

    None means that the format is another one. The code is UNKNOWN (Monitoring Plugins
    Development Guidelines, "Plugin Return Codes": invalid command line arguments).
    """
    if not _is_plugin(arguments):
        return None
    try:
        write(unknown_line(why), None)
    except (OutputFailed, BrokenPipeError):
        discard(sys.stdout)
    return NAGIOS_UNKNOWN


def usage_error_text(error: click.ClickException) -> str:
    """Return in one line what is wrong, and the nearest valid value."""
    if isinstance(error, click.NoSuchOption):
        return f"no such option: {error.option_name}{_near(error)}"
    if isinstance(error, click.BadOptionUsage):
        return _misused(error)
    if isinstance(error, click.MissingParameter):
        return f"{_name(error.param)} is missing"
    if isinstance(error, click.BadParameter):
        return f"{_name(error.param)}{_variable(error)}: {_plain(error.message)}"
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
    return (parameter.metavar or f"{parameter.name}".upper()).strip("[].")


def _variable(error: click.BadParameter) -> str:
    """Return " (VARIABLE)" for a value from the environment, else nothing."""
    option, context = error.param, error.ctx
    if option is None or context is None or not isinstance(option.envvar, list):
        return ""
    if context.get_parameter_source(f"{option.name}") is not ParameterSource.ENVIRONMENT:
        return ""
    return f" ({next(name for name in option.envvar if os.environ.get(name))})"


def near_rule(word: str, rules: Sequence[Rule]) -> str:
    """Return " (did you mean …?)" for a rule whose code, name or family is near, else nothing."""
    named = [rule.name for rule in rules if len(word) >= LEAST_PART and word.lower() in rule.name]
    if len(named) == 1:
        return f" (did you mean {named[0]}?)"
    names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
    return did_you_mean(word.upper(), names) or did_you_mean(word.lower(), names)


def _plain(message: str) -> str:
    """Return a message in our form: it follows a colon and has no full stop.

    Only click's own sentence begins with a capital: any other first word is a value, such as the
    name of a file, and stays as it was typed.
    """
    ours = message.removesuffix(".")
    return f"g{ours[1:]}" if ours.startswith(_TOO_MANY) else ours

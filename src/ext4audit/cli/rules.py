"""`ext4audit rules`: the catalogue of rules, the built-in ones and those of a policy."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ext4audit import lazily
from ext4audit.cli import (
    OF_THE_HOST,
    Choice,
    completer,
    nearest_policy,
    print_diagnostic,
)
from ext4audit.cli.output import color_option, is_drawn, wants_color, write
from ext4audit.renderers.catalogue import json_of, markdown_of, text_of
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

config_option = click.option(
    "--config",
    metavar="FILE",
    shell_complete=completer("files"),
    help="Policy file, whose rules are shown too.  [default: as for `scan`]",
)
RENDERERS = {"text": text_of, "json": json_of, "markdown": markdown_of}


def catalogue(config: str | None) -> tuple[Rule, ...]:
    """Return all rules, sorted by code; raises UsageError for a policy that is named.

    One that is only found prevents nothing: whoever corrects it needs the list.
    """
    if config is None and nearest_policy(OF_THE_HOST) is None:
        return all_rules()
    try:
        policy = lazily("cli.policy", "read_policy")(config)
    except click.UsageError as error:
        if config is not None:
            raise
        print_diagnostic(f"only the built-in rules are shown: {error.message}")
        return all_rules()
    return (*all_rules(), *sorted(policy.site_rules, key=lambda rule: rule.code))


@click.command("rules")
@click.option(
    "-f",
    "--format",
    "fmt",
    type=Choice(tuple(RENDERERS)),
    default="text",
    show_default=True,
    help="The format of the list.",
)
@config_option
@color_option
def command(fmt: str, config: str | None, color: str) -> int:
    """List all rules: code, name, worst severity, on or off by default, and a summary.

    A rule that is off by default runs only if --select, --pedantic, a profile or a plan selects
    it. Rules of the site, which the policy file names, have codes that begin with X. In a pipe,
    each rule is one line.

    \b
    Examples:
      ext4audit rules
      ext4audit rules | grep ^DUR
      ext4audit rules -f json | jq -r '.[].code'
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    print_rules(catalogue(config), fmt, color)
    return 0


def print_rules(rules: Sequence[Rule], fmt: str, color: str) -> None:
    """Print rules in a format; text fits the width of a terminal."""
    colored = fmt == "text" and wants_color(color, sys.stdout)
    if fmt == "text" and is_drawn(color):
        text = lazily("cli.terminal.screen", "draw_rules")(rules, color=colored)
    else:
        text = RENDERERS[fmt](rules)
    write(text, None, linked=colored)

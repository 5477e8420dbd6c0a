"""The rules that `rules` and `explain` show: the built-in ones, and those of a policy."""

from __future__ import annotations

import click

from ext4audit import lazily
from ext4audit.cli import OF_THE_HOST, completer, nearest_policy, print_diagnostic
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

config_option = click.option(
    "--config",
    metavar="FILE",
    shell_complete=completer("files"),
    help="Policy file, whose rules are shown too.  [default: as for `scan`]",
)


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

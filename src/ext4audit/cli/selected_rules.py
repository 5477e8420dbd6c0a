"""Which rules judge: what the command line, the policy file and the profiles choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.facts.profile import ActiveProfile
from ext4audit.policy.file import Policy
from ext4audit.policy.selection import NothingSelected, UnknownRule, select
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules

DEMANDS = "CMP007"
"""The rule that judges what profiles demand."""


def on_hosts(rule: Rule) -> bool:
    """Whether a rule judges hosts when nobody chooses."""
    return rule.default


def on_plans(rule: Rule) -> bool:
    """Whether a rule judges plans when nobody chooses."""
    return rule.in_plans


def selected(
    given: dict[str, Any],
    policy: Policy,
    profiles: Sequence[ActiveProfile],
    usual: Callable[[Rule], bool],
) -> tuple[Rule, ...]:
    """Return the rules that the options choose; raises UsageError.

    --select replaces what the policy file selects and ignores, --ignore adds to what it ignores.
    A profile adds the rules that judge its demands to those that judge when nobody chooses.
    """
    own = bool(given["wanted"])
    wanted = _words(given["wanted"] or policy.select)
    ignored = _words((*given["ignored"], *(() if own else policy.ignore)))
    pedantic: bool = given["pedantic"] or policy.pedantic
    if not (wanted or ignored or pedantic or profiles) and usual is on_hosts:
        return default_rules()
    added = {code for active in profiles for code in (DEMANDS, *active.profile.enable)}
    rules = all_rules()
    try:
        return select(
            rules,
            wanted,
            ignored,
            usual=lambda rule: pedantic or usual(rule) or rule.code in added,
        )
    except UnknownRule as unknown:
        names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
        near = did_you_mean(unknown.word.upper(), names) or did_you_mean(unknown.word, names)
        raise click.UsageError(f"no rule is called {unknown.word!r}{near}") from None
    except NothingSelected:
        raise click.UsageError("--select and --ignore leave no rule to judge by") from None


def _words(values: Sequence[str]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]

"""The options that every command with a report has, and what they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.cli.profile_words import active_profiles
from ext4audit.facts.profile import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.policy import NothingSelected, UnknownRule, select
from ext4audit.records import dataclass
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules

Command = Callable[..., int]
DEMANDS = "CMP007"
"""The rule that judges what profiles demand."""

_OPTIONS = (
    click.option("-o", "--output", metavar="FILE", help="Write to FILE, which appears whole."),
    click.option(
        "--select",
        "wanted",
        multiple=True,
        metavar="RULES",
        help="Only these rules: codes, prefixes (DUR) or names; comma lists, repeatable.",
    ),
    click.option(
        "--ignore", "ignored", multiple=True, metavar="RULES", help="All but these rules."
    ),
    click.option("--pedantic", is_flag=True, help="Also the rules that are off by default."),
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="NAME[=MOUNT]",
        help="What a product's vendor demands (tidb, postgres, ...), of all filesystems or those "
        "mounted on a glob; repeatable.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice([*(severity.value for severity in Severity), "never"]),
        default="medium",
        show_default=True,
        help="Exit 1 on a finding of this severity or worse.",
    ),
    click.option("--allow-incomplete", is_flag=True, help="Exit 0 instead of 3 on blind spots."),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Also the evidence of passes, and why rules do not apply.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Only the summary line."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When the text is coloured; auto obeys NO_COLOR and FORCE_COLOR.",
    ),
)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What was asked of a report; `threshold` None means that no finding fails."""

    fmt: str
    output: str | None
    rules: tuple[Rule, ...]
    profiles: tuple[ActiveProfile, ...]
    threshold: Severity | None
    allow_incomplete: bool
    verbosity: int
    color: str


def report_options(command: Command, formats: Sequence[str] = ("text", "json")) -> Command:
    """Add the options to a command, which gets them all; see `chosen`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    choose = click.option(
        "-f",
        "--format",
        "fmt",
        type=click.Choice(formats),
        default="text",
        show_default=True,
        help="How the report is printed.",
    )
    return choose(command)


def on_hosts(rule: Rule) -> bool:
    """Whether a rule judges hosts when nobody chooses."""
    return rule.default


def on_plans(rule: Rule) -> bool:
    """Whether a rule judges plans when nobody chooses."""
    return rule.in_plans


def chosen(given: dict[str, Any], usual: Callable[[Rule], bool] = on_hosts) -> ReportOptions:
    """Return what the options choose; raises UsageError for what cannot be.

    `usual` says which rules judge where the options choose none.
    """
    if given["verbose"] and given["quiet"]:
        raise click.UsageError("--verbose and --quiet exclude each other")
    profiles = active_profiles(given["profiles"])
    return ReportOptions(
        fmt=given["fmt"],
        output=None if given["output"] == "-" else given["output"],
        rules=selected(given, profiles, usual),
        profiles=profiles,
        threshold=None if given["fail_on"] == "never" else Severity(given["fail_on"]),
        allow_incomplete=given["allow_incomplete"],
        verbosity=1 if given["verbose"] else -1 if given["quiet"] else 0,
        color=given["color"],
    )


def now() -> str:
    """Return the time in RFC 3339, UTC."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def selected(
    given: dict[str, Any], profiles: Sequence[ActiveProfile], usual: Callable[[Rule], bool]
) -> tuple[Rule, ...]:
    """Return the rules that the options choose; raises UsageError.

    A profile adds the rules that judge its demands to those that judge when nobody chooses.
    """
    wanted, ignored = _words(given["wanted"]), _words(given["ignored"])
    pedantic: bool = given["pedantic"]
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


def _words(values: tuple[str, ...]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]

"""The options that every command with a report has, and what they choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from time import monotonic
from typing import Any

import click

from ext4audit.cli.app import did_you_mean
from ext4audit.cli.choice import Choice
from ext4audit.cli.output import check_destination
from ext4audit.cli.policy_file import read_policy
from ext4audit.cli.profile_words import active_profiles
from ext4audit.cli.sinks import FORMATS, Sink, sinks_of
from ext4audit.cli.treatment import Treatment, treatment_of
from ext4audit.facts.profile import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.policy.file import NEVER, Policy
from ext4audit.policy.selection import NothingSelected, UnknownRule, select
from ext4audit.records import dataclass
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules

Command = Callable[..., int]
DEFAULT_FAIL_ON = "medium"
DEMANDS = "CMP007"
"""The rule that judges what profiles demand."""

_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Write to FILE, which appears whole; repeatable, one for each -f in turn.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="The policy file; else the nearest ext4audit.toml, else /etc/ext4audit.toml.",
    ),
    click.option(
        "--baseline",
        metavar="REPORT",
        help="A report in JSON: only what is new since then counts, and what is fixed is told.",
    ),
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
        type=Choice([*(severity.value for severity in Severity), "never"]),
        help="Exit 1 on a finding of this severity or worse.  [default: medium]",
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
        type=Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When the text is coloured; auto obeys NO_COLOR and FORCE_COLOR.",
    ),
)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What was asked of a report; `threshold` None means that no finding fails.

    `started` is a reading of the monotonic clock, in seconds.
    """

    sinks: tuple[Sink, ...]
    rules: tuple[Rule, ...]
    profiles: tuple[ActiveProfile, ...]
    treatment: Treatment
    threshold: Severity | None
    allow_incomplete: bool
    verbosity: int
    color: str
    started: float


def report_options(command: Command, formats: Sequence[str] = tuple(FORMATS)) -> Command:
    """Add the options to a command, which gets them all; see `chosen`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    choose = click.option(
        "-f",
        "--format",
        "formats",
        type=Choice(formats),
        multiple=True,
        metavar="FORMAT",
        help=f"How the report is printed: {', '.join(formats)}; repeatable, each with its own -o.  "
        "[default: text]",
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
    policy = read_policy(given["config"])
    profiles = active_profiles(given["profiles"] or policy.profile)
    fail_on = given["fail_on"] or policy.fail_on or DEFAULT_FAIL_ON
    sinks = sinks_of(given["formats"], given["outputs"])
    for sink in sinks:
        if sink.path is not None:
            check_destination(sink.path)
    return ReportOptions(
        sinks=sinks,
        rules=selected(given, policy, profiles, usual),
        profiles=profiles,
        treatment=treatment_of(policy, given["baseline"], now()),
        threshold=None if fail_on == NEVER else Severity(fail_on),
        allow_incomplete=given["allow_incomplete"],
        verbosity=1 if given["verbose"] else -1 if given["quiet"] else 0,
        color=given["color"],
        started=monotonic(),
    )


def now() -> str:
    """Return the time in RFC 3339, UTC."""
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


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

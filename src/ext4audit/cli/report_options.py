"""What the options of a report choose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from time import monotonic
from typing import Any

import click

from ext4audit.cli.output import check_destination
from ext4audit.cli.policy_file import read_policy
from ext4audit.cli.profile_words import active_profiles
from ext4audit.cli.selected_rules import on_hosts, selected
from ext4audit.cli.sinks import Sink, sinks_of
from ext4audit.cli.treatment import Treatment, treatment_of
from ext4audit.facts.profile import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.policy.file import NEVER
from ext4audit.records import dataclass
from ext4audit.rule import Rule

DEFAULT_FAIL_ON = "medium"


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

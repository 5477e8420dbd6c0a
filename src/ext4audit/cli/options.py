"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import click

from ext4audit.cli import Choice, completer, knowledge_of, knowledge_option
from ext4audit.cli.output import (
    FORMATS,
    Output,
    check_destination,
    color_option,
    outputs_of,
)
from ext4audit.cli.policy import (
    PostProcessing,
    active_profiles,
    named_one_by_one,
    on_hosts,
    post_processing_of,
    read_policy,
    selected,
)
from ext4audit.facts.host import ActiveProfile
from ext4audit.finding import Severity
from ext4audit.policy import NEVER
from ext4audit.rule import Rule
from ext4audit.sources import DEFAULT_DEADLINE_SECONDS

_LONGEST_SECONDS = 86400
Command = Callable[..., int]


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
        help="Time limit for each external command, at most one day.",
    )


def deadline_option(command: Command) -> Command:
    """Add the option --deadline, as `deadline_seconds`."""
    return click.option(
        "--deadline",
        "deadline_seconds",
        type=float,
        callback=_bounded,
        default=DEFAULT_DEADLINE_SECONDS,
        show_default=True,
        metavar="SECONDS",
        help="Time limit for reading this host; the rest is not determined; at most a day.",
    )(command)


def _bounded(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Refuse durations that cannot be waited for: FloatRange accepts "nan" and "inf"."""
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise click.BadParameter(f"{seconds:g} is not more than 0 and at most 86400 seconds.")
    return seconds


DEFAULT_FAIL_ON = "medium"


class ReportOptions(NamedTuple):
    """The options of a report; `threshold` None means that no finding fails.

    `site_rules` are the sources of rules that the policy names. `started` is a reading of the
    monotonic clock, in seconds. `asked` are the codes of rules that --select names one by one.
    """

    outputs: tuple[Output, ...]
    rules: tuple[Rule, ...]
    site_rules: tuple[str, ...]
    profiles: tuple[ActiveProfile, ...]
    post_processing: PostProcessing
    threshold: Severity | None
    allow_incomplete: bool
    verbosity: int
    color: str
    started: float
    group_by: tuple[str, ...] = ()
    asked: frozenset[str] = frozenset()


def chosen(given: dict[str, Any], usual: Callable[[Rule], bool] = on_hosts) -> ReportOptions:
    """Return the validated options of a report; raises UsageError.

    `usual` says which rules judge where the options choose none.
    """
    if given["verbose"] and given["quiet"]:
        raise click.UsageError("--verbose and --quiet exclude each other")
    newer = knowledge_of(given["knowledge"])
    policy = read_policy(given["config"])
    profiles = active_profiles(given["profiles"] or policy.profile, policy)
    fail_on = given["fail_on"] or policy.fail_on or DEFAULT_FAIL_ON
    outputs = outputs_of(given["formats"], given["outputs"])
    for output in outputs:
        if output.path is not None:
            check_destination(output.path)
    rules = selected(given, policy, profiles, usual)
    return ReportOptions(
        outputs=outputs,
        rules=rules,
        site_rules=policy.rules,
        profiles=profiles,
        post_processing=post_processing_of(
            policy, given["baseline"], profiles, given.get("probes", ())
        )._replace(knowledge=newer),
        threshold=None if fail_on == NEVER else Severity(fail_on),
        allow_incomplete=given["allow_incomplete"],
        verbosity=1 if given["verbose"] else -1 if given["quiet"] else 0,
        color=given["color"],
        started=monotonic(),
        group_by=given.get("group_by", ()),
        asked=named_one_by_one(given["wanted"], rules),
    )


_OF_RULES = (
    click.option(
        "--config",
        metavar="FILE",
        shell_complete=completer("files"),
        help="Policy file.  [default: the nearest ext4audit.toml, else /etc/ext4audit.toml]",
    ),
    knowledge_option,
    click.option(
        "--baseline",
        metavar="REPORT",
        shell_complete=completer("files"),
        help="Earlier report in JSON: only new findings count, and fixed ones are listed.",
    ),
    click.option(
        "--select",
        "wanted",
        multiple=True,
        metavar="RULES",
        shell_complete=completer("rule_list"),
        help="Run only these rules: codes, prefixes (DUR) or names; comma-separated, repeatable.",
    ),
    click.option(
        "--ignore",
        "ignored",
        multiple=True,
        metavar="RULES",
        shell_complete=completer("rule_list"),
        help="Do not run these rules.",
    ),
    click.option("--pedantic", is_flag=True, help="Also run the rules that are off by default."),
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="NAME[=MOUNT]",
        shell_complete=completer("profile_list"),
        help="Check the requirements of a product's vendor (tidb, postgres, ...) on all "
        "filesystems, or on the mount points that match a glob; repeatable.",
    ),
    click.option(
        "--fail-on",
        type=Choice([*(severity.value for severity in Severity), "never"]),
        help="Exit 1 on a finding of this severity or worse.  [default: medium]",
    ),
)
"""What decides which findings there are, and which of them count."""
_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        shell_complete=completer("files"),
        help="Write FILE atomically; repeatable, the first -o belongs to the first -f.",
    ),
    *_OF_RULES,
    click.option(
        "--allow-incomplete", is_flag=True, help="Exit 0 instead of 3 if evidence is missing."
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Show all evidence, all remedies, what passed, and why rules do not apply.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Show the summary line only."),
    color_option,
)


def rule_options(command: Command) -> Command:
    """Add the options that decide which findings there are, and which count; see `findings_of`."""
    for option in reversed(_OF_RULES):
        command = option(command)
    return command


_NO_REPORT = {"formats": (), "outputs": (), "allow_incomplete": True, "color": "never"}


def findings_of(given: dict[str, Any], *, quiet: bool) -> ReportOptions:
    """Return the validated options of a command that audits and prints no report."""
    return chosen({**given, **_NO_REPORT, "verbose": False, "quiet": quiet})


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
        help=f"Format of the report: {', '.join(formats)}; repeatable, each with its own -o.  "
        "[default: text]",
    )
    return choose(command)


def utf8(word: str) -> str:
    """Return an argument as all names are: UTF-8 with surrogateescape."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")

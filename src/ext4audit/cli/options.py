"""Options that several commands share, and the reports that they produce, in every format."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import click

from ext4audit import __version__, lazily
from ext4audit.cli import (
    Choice,
    OutputFailed,
    completer,
    knowledge_of,
    knowledge_option,
    path_option,
    print_diagnostic,
)
from ext4audit.cli.output import (
    DEFAULT,
    FORMATS,
    NAGIOS,
    VARIABLE,
    Output,
    append_summary,
    check_destination,
    color_option,
    look,
    outputs_of,
    write,
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
from ext4audit.policy import NEVER, THRESHOLDS
from ext4audit.renderers import Audited, Page
from ext4audit.report import PlanAdvice, Report, exit_code, nagios_code
from ext4audit.rule import Rule
from ext4audit.sources import DEFAULT_DEADLINE_SECONDS, utc_now
from ext4audit.sources.timeouts import one_helper

_LONGEST_SECONDS = 86400
Command = Callable[..., int]
T = TypeVar("T")


def with_options(command: T, options: Sequence[Callable[[T], T]]) -> T:
    """Add options to a command; `options` are in the order of the help page."""
    for option in reversed(options):
        command = option(command)
    return command


class Number(click.IntRange):
    """click's IntRange, named "integer" in error messages instead of "integer range"."""

    name = "integer"


class Seconds(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """A finite positive duration; click's FloatRange accepts "nan" and "inf"."""

    name = "seconds"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds; raises BadParameter unless they are above 0 and at most a day."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST_SECONDS:
            why = f"{value!s} is not a number above 0 and of at most {_LONGEST_SECONDS} seconds"
            raise click.BadParameter(why, ctx, param)
        return seconds


def timeout_option(default_seconds: float) -> Callable[[Any], Any]:
    """Return the option --timeout, as parameter `timeout_seconds`."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=Seconds(),
        default=int(default_seconds),
        show_default=True,
        metavar="SECONDS",
        help="Time limit for each external command, at most one day.",
    )


deadline_option = click.option(
    "--deadline",
    "deadline_seconds",
    type=Seconds(),
    default=int(DEFAULT_DEADLINE_SECONDS),
    show_default=True,
    metavar="SECONDS",
    help="Time limit for reading this host, at most one day; the rest is not determined.",
)


DEFAULT_FAIL_ON = "medium"


class ReportOptions(NamedTuple):
    """The validated options of a report; if `threshold` is None, no finding fails.

    `site_rules` are the files and packages of rules that the policy names. `started` is a time of
    the monotonic clock, in seconds. `asked` are the codes that --select names individually.
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

    `usual` selects the rules that run if the options select none.
    """
    if given["verbose"] and given["quiet"]:
        raise click.UsageError("--verbose and --quiet exclude each other")
    click.get_current_context().with_resource(one_helper())  # until the command ends
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
        )._replace(knowledge=newer, options=tuple(_option_words(given, policy.path))),
        threshold=None if fail_on == NEVER else Severity(fail_on),
        allow_incomplete=given["allow_incomplete"],
        verbosity=1 if given["verbose"] else -1 if given["quiet"] else 0,
        color=given["color"],
        started=monotonic(),
        group_by=given.get("group_by", ()),
        asked=named_one_by_one(given["wanted"], rules),
    )


def _option_words(given: dict[str, Any], config: str | None) -> Iterator[str]:
    """Yield, as arguments for `fix`, the options that decide which findings exist and count."""
    named = {
        "--config": (config,),
        "--knowledge": given["knowledge"],
        "--select": given["wanted"],
        "--ignore": given["ignored"],
        "--profile": given["profiles"],
        "--probe": given.get("probes", ()),
        "--baseline": (given["baseline"],),
        "--fail-on": (given["fail_on"],),
    }
    for option, values in named.items():
        yield from (word for value in values if value for word in (option, value))
    yield from ("--pedantic",) if given["pedantic"] else ()


probe_option = path_option(
    "--probe",
    "probes",
    multiple=True,
    help="Results of `ext4audit probe -f json`, which confirm or clear likely findings; "
    "repeatable.",
)


_RULE_OPTIONS = (
    path_option(
        "--config",
        help="Policy file.  [default: the nearest ext4audit.toml, else /etc/ext4audit.toml]",
    ),
    knowledge_option,
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
)
"""The options that decide which findings exist."""


def _counting_options(baseline: str, fail_on: str) -> tuple[Callable[[Any], Any], ...]:
    """Return --baseline and --fail-on, which decide which findings count, with these help texts."""
    return (
        path_option("--baseline", metavar="REPORT", help=baseline),
        click.option(
            "--fail-on",
            type=Choice(THRESHOLDS),
            help=f"{fail_on}  [default: {DEFAULT_FAIL_ON}]",
        ),
    )


_REPORT_COUNTING = _counting_options(
    "Earlier report in JSON: only new findings count, and fixed ones are listed.",
    "Exit 1 on a finding of this severity or worse.",
)
_FIX_COUNTING = _counting_options(
    "Earlier report in JSON: only new findings are fixed.",
    "Fix the findings of this severity or worse.",
)
_OPTIONS = (
    path_option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        help="Write FILE atomically; repeatable, the first -o belongs to the first -f.",
    ),
    *_RULE_OPTIONS,
    *_REPORT_COUNTING,
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
    """Add the options that decide which findings are fixed; see `findings_of`."""
    return with_options(command, (*_RULE_OPTIONS, *_FIX_COUNTING))


_NO_REPORT = {"formats": (), "outputs": (), "allow_incomplete": True, "color": "never"}
_NOT_VERBOSE = {"verbose": False, "quiet": False}


def findings_of(given: dict[str, Any]) -> ReportOptions:
    """Return the validated options of a command that audits but prints no report."""
    return chosen({**given, **_NO_REPORT, **_NOT_VERBOSE})


def report_options(command: Command, formats: Sequence[str] = tuple(FORMATS)) -> Command:
    """Add all report options to a command; `chosen` validates them."""
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
    return with_options(command, (choose, *_OPTIONS))


def utf8(word: str) -> str:
    """Return an argument decoded as UTF-8 with surrogateescape, as names are everywhere."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")


def print_report(report: Report, asked: ReportOptions, *, whole: bool = True) -> int:
    """Write one host's report, and return its exit code.

    `whole` means that all filesystems of the host were audited.
    """
    report = asked.post_processing.one(report, asked.rules, whole=whole)
    host = Audited(report.source.label, report)
    write_pages(asked.outputs, (host,), asked)
    print_notices(report, asked)
    return code_of(report, asked)


def print_notices(report: Report, asked: ReportOptions) -> None:
    """Print notices about the policy file to standard error, unless a text report has them."""
    if asked.verbosity < 0 or all(output.fmt != DEFAULT for output in asked.outputs):
        for notice in report.notices:
            print_diagnostic(notice)


def code_of(report: Report, asked: ReportOptions) -> int:
    """Return the exit code of a report, a Nagios plugin's if that is the first format."""
    if asked.outputs[0].fmt == NAGIOS:
        return nagios_code((report,), asked.threshold, allow_incomplete=asked.allow_incomplete)
    return exit_code(report, asked.threshold, allow_incomplete=asked.allow_incomplete)


def write_pages(outputs: Sequence[Output], hosts: Sequence[Audited], asked: ReportOptions) -> None:
    """Write hosts in every format; a failed destination does not prevent the others.

    When all were tried, raises the first OutputFailed or BrokenPipeError.
    """
    failures = [_failure(output, hosts, asked) for output in outputs]
    for failure in filter(None, failures):
        raise failure


def _failure(
    output: Output, hosts: Sequence[Audited], asked: ReportOptions
) -> OutputFailed | BrokenPipeError | None:
    """Write hosts in one format, and return the error if the destination failed."""
    try:
        write_page(output, hosts, asked)
    except (OutputFailed, BrokenPipeError) as error:
        return error
    return None


def write_page(
    output: Output,
    hosts: Sequence[Audited],
    asked: ReportOptions,
    advice: PlanAdvice | None = None,
) -> None:
    """Write hosts in one format to its destination; a plan is written with its `advice`."""
    page = page_of(output, asked)
    text = _rendered(output.module, hosts, page, advice)
    linked = output.fmt == DEFAULT and page.color
    write(text, output.path, linked=linked, encoding=output.encoding)
    if output.fmt == "github":
        append_summary(lambda: _rendered("markdown", hosts, page, advice))


def _rendered(module: str, hosts: Sequence[Audited], page: Page, advice: PlanAdvice | None) -> str:
    """Render hosts in one format; only the renderer that is used is imported."""
    if advice is None:
        return str(lazily(f"renderers.{module}", "render")(hosts, page))
    return str(lazily(f"renderers.{module}", "render_plan")(hosts[0].report, advice, page))


def flag_of(key: str) -> str:
    """Return the long option of a parameter: "--fail-on" of "fail_on"."""
    return f"--{key.replace('_', '-')}"


def page_of(output: Output, asked: ReportOptions) -> Page:
    """Return the settings of the renderer for a destination."""
    return Page(
        tool_version=__version__,
        taken_at=utc_now(),
        threshold=asked.threshold,
        asked=asked.asked,
        allow_incomplete=asked.allow_incomplete,
        seconds=time.monotonic() - asked.started,
        verbosity=asked.verbosity,
        **look(asked.color, to_file=output.path is not None),
        has_summary=bool(os.environ.get(VARIABLE)),
        group_by=asked.group_by,
    )

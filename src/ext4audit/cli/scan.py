"""`ext4audit scan`: audit this host, or the superblocks that hold some paths."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone

import click

from ext4audit import __version__
from ext4audit.assemble.host import assemble_host
from ext4audit.assemble.inventory import take_inventory
from ext4audit.assemble.target import Superblocks, TargetResolver, Unreachable
from ext4audit.cli.app import did_you_mean
from ext4audit.cli.diagnostics import tell
from ext4audit.cli.output import check_destination, write
from ext4audit.cli.progress import progress
from ext4audit.cli.terminal import is_ascii_only, wants_color, width
from ext4audit.engine import audit
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.policy import NothingSelected, UnknownRule, exit_code, select
from ext4audit.report import Report, Source
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from ext4audit.sources.live import LiveSource

FAIL_ON = [*(severity.value for severity in Severity), "never"]
LONGEST_TIMEOUT_SECONDS = 86400


def _bounded_seconds(_context: click.Context, _option: click.Parameter, seconds: float) -> float:
    """Refuse what no clock can wait for: FloatRange lets "nan" pass, and poll(2) refuses "inf"."""
    if not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise click.BadParameter(f"{seconds:g} is not more than 0 and at most 86400 seconds.")
    return seconds


@click.command("scan")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    "-f",
    "--format",
    "fmt",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the report is printed.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to FILE, which appears whole.")
@click.option(
    "--select",
    "wanted",
    multiple=True,
    metavar="RULES",
    help="Only these rules: codes, prefixes (DUR) or names; comma lists, repeatable.",
)
@click.option("--ignore", "ignored", multiple=True, metavar="RULES", help="All but these rules.")
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="medium",
    show_default=True,
    help="Exit 1 on a finding of this severity or worse.",
)
@click.option("--allow-incomplete", is_flag=True, help="Exit 0 instead of 3 on blind spots.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also the evidence of passes, and why rules do not apply."
)
@click.option("-q", "--quiet", is_flag=True, help="Only the summary line.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When the text is coloured; auto obeys NO_COLOR and FORCE_COLOR.",
)
@click.option(
    "--timeout",
    "timeout_seconds",
    type=float,
    callback=_bounded_seconds,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For each external command; at most a day.",
)
def command(
    *,
    targets: tuple[str, ...],
    fmt: str,
    output: str | None,
    wanted: tuple[str, ...],
    ignored: tuple[str, ...],
    fail_on: str,
    allow_incomplete: bool,
    verbose: bool,
    quiet: bool,
    color: str,
    timeout_seconds: float,
) -> int:
    """Audit the ext4 filesystems of this host, or only those that hold the TARGETs.

    A TARGET is a mount point, any file or directory, or a block device. Run it as root to see
    superblocks and device-mapper tables; without root it says what it could not see.

    Exit codes: 0 clean and complete, 1 findings at or above --fail-on, 2 usage error,
    3 incomplete, 70 internal error.

    \b
    Examples:
      ext4audit scan
      ext4audit scan /var/lib/mysql /srv
      ext4audit scan --select DUR,PRF001 --fail-on high
      ext4audit scan -f json | jq '.summary.findings'
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet exclude each other")
    rules = _selected(wanted, ignored)
    output = None if output == "-" else output
    if output is not None:
        check_destination(output)
    source = LiveSource(timeout_seconds=timeout_seconds)
    only = _resolve(source, targets) if targets else None
    with progress(quiet=quiet) as show:
        host = assemble_host(source, _now(), only=only, progress=show)
    report = audit(Source("live", host.name), host, rules)
    verbosity = 1 if verbose else -1 if quiet else 0
    write(_rendered(report, fmt, verbosity=verbosity, color=color, to_file=bool(output)), output)
    threshold = None if fail_on == "never" else Severity(fail_on)
    return exit_code(report, threshold, allow_incomplete=allow_incomplete)


def _selected(wanted: tuple[str, ...], ignored: tuple[str, ...]) -> tuple[Rule, ...]:
    rules = all_rules()
    try:
        return select(rules, _words(wanted), _words(ignored))
    except UnknownRule as unknown:
        names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
        near = did_you_mean(unknown.word.upper(), names) or did_you_mean(unknown.word, names)
        raise click.UsageError(f"no rule is called {unknown.word!r}{near}") from None
    except NothingSelected:
        raise click.UsageError("--select and --ignore leave no rule to judge by") from None


def _words(values: tuple[str, ...]) -> list[str]:
    return [word.strip() for value in values for word in value.split(",")]


def _resolve(source: LiveSource, targets: tuple[str, ...]) -> frozenset[DeviceNumber]:
    """Return the superblocks of the targets; raises UsageError when nothing is left to audit."""
    resolver = TargetResolver(source, take_inventory(source))
    numbers: list[DeviceNumber] = []
    reasons = []
    for target in targets:
        # Names are UTF-8 with surrogateescape everywhere, whatever the locale decoded them with.
        path = os.fsencode(target).decode("utf-8", "surrogateescape")
        found = resolver.resolve(path)
        if isinstance(found, Superblocks):
            numbers.extend(found.device_numbers)
            if found.note:
                tell(f"{path}: {found.note}")
            continue
        reasons.append(f"{path}: {found.reason}")
        if isinstance(found, Unreachable):
            raise click.UsageError(reasons[-1])
    if not numbers:
        raise click.UsageError("; ".join(reasons))
    for reason in reasons:
        tell(reason)
    return frozenset(numbers)


def _now() -> str:
    return datetime.now(tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rendered(report: Report, fmt: str, *, verbosity: int, color: str, to_file: bool) -> str:
    """Render in one format; each renderer is imported only when it is asked for."""
    if fmt == "json":
        from ext4audit.renderers import json_v1  # noqa: PLC0415

        return json_v1.render(report, tool_version=__version__)
    from ext4audit.renderers import text  # noqa: PLC0415

    return text.render(
        report,
        verbosity=verbosity,
        color=color == "always" or (not to_file and wants_color(color, sys.stdout)),
        width=None if to_file else width(sys.stdout),
        ascii_only=not to_file and is_ascii_only(sys.stdout),
    )

"""The options that every command with a report has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ext4audit.cli.choice import Choice
from ext4audit.cli.completion import files, profile_list, rule_list
from ext4audit.cli.sinks import FORMATS
from ext4audit.finding import Severity

Command = Callable[..., int]

_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        shell_complete=files,
        help="Write to FILE, which appears whole; repeatable, one for each -f in turn.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        shell_complete=files,
        help="The policy file; else the nearest ext4audit.toml, else /etc/ext4audit.toml.",
    ),
    click.option(
        "--baseline",
        metavar="REPORT",
        shell_complete=files,
        help="A report in JSON: only what is new since then counts, and what is fixed is told.",
    ),
    click.option(
        "--select",
        "wanted",
        multiple=True,
        metavar="RULES",
        shell_complete=rule_list,
        help="Only these rules: codes, prefixes (DUR) or names; comma lists, repeatable.",
    ),
    click.option(
        "--ignore",
        "ignored",
        multiple=True,
        metavar="RULES",
        shell_complete=rule_list,
        help="All but these rules.",
    ),
    click.option("--pedantic", is_flag=True, help="Also the rules that are off by default."),
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        metavar="NAME[=MOUNT]",
        shell_complete=profile_list,
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

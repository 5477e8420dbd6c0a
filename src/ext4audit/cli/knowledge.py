"""`ext4audit knowledge`: print the data tables that rules use, with dates and sources."""

from __future__ import annotations

import click

from ext4audit import __version__
from ext4audit.cli import Choice, knowledge_of, knowledge_option
from ext4audit.cli.output import write
from ext4audit.facts import source_text
from ext4audit.facts.knowledge import TABLES, NewerFile, built_in_date, count, document, older
from ext4audit.renderers import json_text, visible


@click.command("knowledge")
@click.argument("table", required=False, metavar="[TABLE]", type=Choice(tuple(TABLES)))
@click.option(
    "-f",
    "--format",
    "fmt",
    type=Choice(("text", "json")),
    help="Format of the output; json has all entries.  [default: text]",
)
@click.option("--json", "as_json", is_flag=True, help="Short for -f json.")
@knowledge_option
def command(
    table: str | None, *, fmt: str | None, as_json: bool, knowledge: tuple[str, ...]
) -> int:
    """Print the date and the size of each table of data that rules judge by.

    The tables are kernel bugs by kernel version, features by the versions that know them, mount
    options by kernel version and how kernels spell them, requirements of vendors, assumed speeds
    of disks, and the kernels and disks of plans. Each line has its source; those that are not
    confirmed are counted. With TABLE, print the built-in data file, to begin one of your own for
    --knowledge.

    Exit codes: 0 success, 2 usage error or a data file that is not valid, 70 internal error.

    \b
    Examples:
      ext4audit knowledge
      ext4audit knowledge -f json | jq '.tables.kernel_bugs.entries.KRN001'
      ext4audit knowledge profiles
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    if as_json and fmt == "text":
        raise click.UsageError("--json and -f text exclude each other")
    newer = knowledge_of(knowledge)
    if as_json or fmt == "json":
        shown = document(newer, tool_version=__version__)
        if table is not None:
            shown["tables"] = {table: shown["tables"][table]}
        write(json_text(shown), None)
    elif table is not None:
        write(source_text(TABLES[table].file), None)
    else:
        write(_text(newer), None)
    return 0


def _text(newer: tuple[NewerFile, ...]) -> str:
    """Return one line for each table, each data file of --knowledge and each notice."""
    rows = [(name, built_in_date(name), count(name)) for name in TABLES]
    width = max(len(name) for name in TABLES)
    lines = [f"{name:<{width}}  {dated}  {words}" for name, dated, words in rows]
    lines += [
        visible(f"{each.table:<{width}}  {each.dated}  {len(each.entries)} of them in {each.path}")
        for each in newer
    ]
    notices = [visible(f"{sentence}.") for sentence in older(newer)]
    return "\n".join([*lines, *notices, ""])

"""Output for terminals: help pages with coloured headings, options and examples.

The modules of this package provide usage errors, tables, rendered Markdown, links and the pager.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

import click

from ext4audit.cli.output import wants_color, write

COLOR_VARIABLE = "EXT4AUDIT_COLOR"
"""The default of every --color; also applies to help and errors, which have no such option."""
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
EXAMPLES = re.compile(
    r"^(?P<heading> *Examples:)$|^(?P<indent> +)(?P<command>ext4audit)\b", re.MULTILINE
)


class Formatter(click.HelpFormatter):
    """click's formatter with colours; `for_stream` removes them if they are not wanted.

    Text is coloured after wrapping, so that escape sequences do not count as width.
    """

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line with a bold "Usage:"."""
        start = len(self.buffer)
        super().write_usage(prog, args, prefix)
        self.buffer[start] = self.buffer[start].replace("Usage:", _bold("Usage:"), 1)

    def write_heading(self, heading: str) -> None:
        """Write a bold heading."""
        self.write(f"{' ' * self.current_indent}{_bold(f'{heading}:')}\n")

    def write_dl(self, rows: object, col_max: int = 30, col_spacing: int = 2) -> None:
        """Write the options or commands of a section, with coloured names."""
        coloured = [(_term(first), second) for first, second in rows]  # type: ignore[attr-defined]
        super().write_dl(coloured, col_max, col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs; the examples have a bold heading and coloured commands."""
        start = len(self.buffer)
        super().write_text(text)
        self.buffer[start] = EXAMPLES.sub(_example, self.buffer[start])


def _bold(text: str) -> str:
    return click.style(text, bold=True)


def _cyan(text: str) -> str:
    return click.style(text, fg="cyan")


def _term(text: str) -> str:
    """Return the options or the command of a row in colour."""
    if not text.startswith("-"):
        return _cyan(text)
    return OPTION.sub(lambda found: _cyan(found[0]), text)


def _example(found: re.Match[str]) -> str:
    if found["heading"]:
        return _bold(found["heading"])
    return found["indent"] + _cyan(found["command"])


def for_stream(text: str, stream: TextIO) -> str:
    """Return a coloured text, without colours if the stream does not show them."""
    return text if has_color(stream) else click.unstyle(text)


def has_color(stream: TextIO) -> bool:
    """Return whether help and diagnostics on a stream are coloured."""
    chosen = os.environ.get(COLOR_VARIABLE, "")
    return wants_color(chosen if chosen in {"always", "never"} else "auto", stream)


def print_help(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Print the help of a command, in the pager if it is long, and exit."""
    if wanted and not context.resilient_parsing:
        write(for_stream(f"{context.get_help()}\n", sys.stdout), None)
        context.exit()

"""`ext4audit explain`: print a rule's page, which is its docstring, or list a rule family."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import click

from ext4audit import lazily
from ext4audit.cli import completer, knowledge_of, knowledge_option
from ext4audit.cli.output import color_option, format_option, is_drawn, wants_color, write
from ext4audit.cli.rules import catalogue, config_option, json_page_of, page_of, print_rules
from ext4audit.rule import OF_SITES, Rule
from ext4audit.rules import all_rules

SHORT_CODE = re.compile(r"([A-Z]{3})0*([0-9]{1,3})")
"""A rule code with or without leading zeros; PRF2 is PRF002."""


@click.command("explain")
@click.argument("rule", metavar="CODE|NAME|FAMILY", shell_complete=completer("rules"))
@format_option(
    ("text", "json", "markdown"),
    "Format of the page; text is Markdown, rendered on a terminal.",
)
@config_option
@knowledge_option
@color_option
def command(rule: str, fmt: str, config: str | None, knowledge: tuple[str, ...], color: str) -> int:
    """Print what a rule checks, why it matters, its remedy, and when to ignore it.

    For the letters of a family, such as DUR, list the rules of the family.

    \b
    Examples:
      ext4audit explain LAY001
      ext4audit explain prf2
      ext4audit explain striped-metadata-hotspot
      ext4audit explain DUR
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    knowledge_of(knowledge)
    # Built-in rules need no policy, and site rules have different codes.
    known = all_rules() if config is None else catalogue(config)
    found = _find(rule, known)
    if not found and config is None:
        known = catalogue(None)
        found = _find(rule, known)
    if not found:
        near = lazily("cli.terminal.errors", "near_rule")(rule, known)
        if rule.upper().startswith(OF_SITES) and SHORT_CODE.fullmatch(rule.upper()):
            near = ": a rule of a site is in the policy that --config names"
        raise click.UsageError(f"unknown rule {rule!r}{near}")
    if found[0].family == rule.upper():
        print_rules(found, fmt, color)
    else:
        _print_page(found[0], fmt, color)
    return 0


def _print_page(rule: Rule, fmt: str, color: str) -> None:
    if not rule.docstring:
        raise click.UsageError(
            "the pages are docstrings, which python -OO removes: run it without (PYTHONOPTIMIZE)"
        )
    colored = fmt == "text" and wants_color(color, sys.stdout)
    text = json_page_of(rule) if fmt == "json" else page_of(rule)
    if fmt == "text" and is_drawn(color):
        text = lazily("cli.terminal.screen", "draw_markdown")(text, color=colored)
    write(text, None, linked=colored)


def _find(word: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules of the family `word`, or the rule with that code or name."""
    family = tuple(each for each in rules if each.family == word.upper())
    short = SHORT_CODE.fullmatch(word.upper())
    code = f"{short[1]}{int(short[2]):03}" if short else word.upper()
    found = (each for each in rules if code == each.code or word.lower() == each.name)
    return family or tuple(found)[:1]

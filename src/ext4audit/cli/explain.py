"""`ext4audit explain`: one rule's page, from its own docstring."""

from __future__ import annotations

import click

from ext4audit.cli import completer, did_you_mean
from ext4audit.cli.output import write
from ext4audit.rule import Rule
from ext4audit.rules import all_rules


@click.command("explain")
@click.argument("rule", metavar="CODE|NAME", shell_complete=completer("rules"))
def command(rule: str) -> int:
    """Print what a rule checks, why it matters, its remedy, and when to ignore it.

    \b
    Examples:
      ext4audit explain LAY001
      ext4audit explain striped-metadata-hotspot
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    write(page(_find(rule)), None)
    return 0


def page(rule: Rule) -> str:
    """Return a rule's page as Markdown."""
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\nWorst severity: {rule.severity.value}"
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{head}. Since: {rule.since}.\n\n{rule.page}{tail}\n"


def _find(word: str) -> Rule:
    rules = all_rules()
    for rule in rules:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    near = did_you_mean(word.upper(), names) or did_you_mean(word.lower(), names)
    raise click.UsageError(f"unknown rule {word!r}{near}")

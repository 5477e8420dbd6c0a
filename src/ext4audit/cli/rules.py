"""`ext4audit rules`: the catalogue."""

from __future__ import annotations

import click

from ext4audit.cli.output import write
from ext4audit.rules import all_rules


@click.command("rules")
def command() -> int:
    """List every rule: code, name, worst severity, and what it says in one line.

    A rule marked "off" judges only where --select, --pedantic, a profile or a plan asks for it.

    \b
    Examples:
      ext4audit rules
      ext4audit rules | grep ^DUR
    """  # noqa: D301 - \b is click's mark for a paragraph that keeps its lines
    rules = all_rules()
    width = max(len(rule.name) for rule in rules)
    lines = [
        f"{rule.code}  {rule.name:<{width}}  {rule.severity.value:<8}  "
        f"{'on ' if rule.default else 'off'}  {rule.summary}"
        for rule in rules
    ]
    write("\n".join(lines) + "\n", None)
    return 0

"""The generated parts of the README are what the program would print now."""

from __future__ import annotations

import re
from pathlib import Path

from ext4audit.cli.app import COMMANDS
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

README = Path(__file__).parents[2] / "README.md"
TABLE = re.compile(r"\| rule \| name \|.*?\n(?=\n)", re.DOTALL)


def rule_table() -> str:
    """Return the table of rules in Markdown."""
    rows = [
        f"| {rule.code} | {rule.name} | {rule.severity.value} | {_when(rule)} | {rule.summary} |"
        for rule in all_rules()
    ]
    return "\n".join(
        ["| rule | name | worst | judges | what it finds |", "|---|---|---|---|---|", *rows, "", ""]
    )


def _when(rule: Rule) -> str:
    """Say when a rule judges where nobody chooses."""
    if rule.default:
        return "always" if rule.in_plans else "hosts"
    return "plans" if rule.in_plans else "if asked"


def test_the_rule_table_is_generated(*, accept: bool) -> None:
    """The README's table holds every rule with its severity and summary."""
    text = README.read_text(encoding="utf-8")
    if accept:
        text = TABLE.sub(lambda _old: rule_table(), text)
        README.write_text(text, encoding="utf-8")
    assert rule_table() in text


def test_every_command_of_the_readme_exists() -> None:
    """Each `ext4audit WORD` in a console block is a command of the program."""
    text = README.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```console\n(.*?)```", text, re.DOTALL))
    used = set(re.findall(r'ext4audit(?:\)")? ([a-z]+)', blocks))
    assert used
    assert used <= set(COMMANDS)

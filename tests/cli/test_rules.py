"""`ext4audit rules`: the catalogue."""

from __future__ import annotations

import re

from ext4audit.rules import all_rules
from support.program import run


def test_every_rule_is_listed_once() -> None:
    """One line a rule: code, name, severity, whether it is on by default, summary."""
    done = run("rules")
    assert done.returncode == 0
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    listed = [re.split(r" {2,}", line, maxsplit=4) for line in lines]
    assert listed == [
        [
            rule.code,
            rule.name,
            rule.severity.value,
            "on" if rule.default else "off",
            rule.summary,
        ]
        for rule in all_rules()
    ]


def test_the_columns_are_aligned() -> None:
    """The severity and the summary begin in the same column on each line."""
    lines = run("rules").stdout.splitlines()
    columns = {
        (line.index(f"  {rule.severity.value}"), line.index(rule.summary))
        for line, rule in zip(lines, all_rules(), strict=True)
    }
    assert len({summary for _, summary in columns}) == 1
    assert all(re.match(r"[A-Z]{3}\d{3}  [a-z]", line) for line in lines)

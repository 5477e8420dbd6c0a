"""`ext4audit rules`: the catalogue."""

from __future__ import annotations

import json
import re

from ext4audit.rules import all_rules
from support.program import run


def test_every_rule_is_listed_once() -> None:
    """A line has code, name, severity, whether the rule is on by default, and summary."""
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
    """Severity and summary start in the same column on each line."""
    lines = run("rules").stdout.splitlines()
    columns = {
        (line.index(f"  {rule.severity.value}"), line.index(rule.summary))
        for line, rule in zip(lines, all_rules(), strict=True)
    }
    assert len({summary for _, summary in columns}) == 1
    assert all(re.match(r"[A-Z]{3}\d{3}  [a-z]", line) for line in lines)


def test_json_is_a_list_of_objects() -> None:
    """Each rule is an object, without its page."""
    found = json.loads(run("rules", "-f", "json").stdout)
    assert [(each["code"], each["severity"], each["default"]) for each in found] == [
        (rule.code, rule.severity.value, rule.default) for rule in all_rules()
    ]
    assert all("page" not in each for each in found)


def test_markdown_is_a_table() -> None:
    """Each rule is a row of five cells below the head."""
    rows = run("rules", "-f", "markdown").stdout.splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == [f"| {rule.code}" for rule in all_rules()]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {6}

"""Every rule's test module shows each outcome that the rule can have."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ext4audit.report import Outcome
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

HERE = Path(__file__).parent
ALL_OUTCOMES = {Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE, Outcome.UNDETERMINED}
IMPOSSIBLE_OUTCOMES: dict[str, dict[Outcome, str]] = {
    "DUR002": {
        Outcome.NOT_APPLICABLE: "a superblock holds options whether it is mounted or not",
    },
}
"""The outcomes that a rule cannot have, each with the reason."""


def module_of(rule: Rule) -> Path:
    """Return the test module of a rule."""
    *_, family, name = rule.module.split(".")
    return HERE / family / f"test_{name}.py"


def outcomes_in_module(tree: ast.Module) -> set[Outcome]:
    """Return the outcomes that a module names; a severity implies a finding, which is a FAIL."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            found |= {Outcome[name]} if owner == "Outcome" else set()
            found |= {Outcome.FAIL} if owner == "Severity" else set()
        elif isinstance(node, ast.Constant) and node.value in {each.value for each in Outcome}:
            found.add(Outcome(node.value))
    return found


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_module_of_a_rule_has_a_row_for_each_outcome(rule: Rule) -> None:
    """Each rule is shown to pass, to fail, not to apply, and to be undetermined."""
    missing = ALL_OUTCOMES - outcomes_in_module(ast.parse(module_of(rule).read_text()))
    assert {each.name for each in missing} == {
        each.name for each in IMPOSSIBLE_OUTCOMES.get(rule.code, {})
    }


def test_every_module_name_is_that_of_a_rule() -> None:
    """The name of a test module includes the whole name of the rule, not only its code."""
    there = set(HERE.glob("*/test_[a-z][a-z][a-z][0-9][0-9][0-9]_*.py"))
    assert there == {module_of(rule) for rule in all_rules()}

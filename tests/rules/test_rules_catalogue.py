import pkgutil
from importlib import import_module

import pytest

from ext4audit import rules
from ext4audit.rule import Rule
from ext4audit.rules import RULE_MODULE, all_rules

NAMES = sorted(info.name for info in pkgutil.iter_modules(rules.__path__))
RULE_NAMES = [name for name in NAMES if not name.startswith("_")]
HEADINGS = ["## What it checks", "## Why it matters", "## Remedy", "## When to ignore"]
FAMILIES = {"DUR", "PRF", "LAY", "CAP", "HLT", "CMP", "DRF", "KRN", "SEC"}


def rules_of(name: str) -> list[Rule]:
    """Return the rules that a module defines."""
    module = import_module(f"{rules.__name__}.{name}")
    return [value for value in vars(module).values() if isinstance(value, Rule)]


def test_the_catalogue_holds_every_module_once_sorted_by_code() -> None:
    """A rule is found by its file; no code and no name is used twice."""
    codes = [rule.code for rule in all_rules()]
    assert codes == sorted(codes)
    assert len(codes) == len(set(codes)) == len({rule.name for rule in all_rules()})
    assert len(codes) == len(RULE_NAMES)
    assert {"DUR001", "DUR002", "PRF001"} <= set(codes)


@pytest.mark.parametrize("name", RULE_NAMES)
def test_file_code_and_name_agree(name: str) -> None:
    """dur001_barrier_disabled.py holds DUR001 barrier-disabled and nothing else."""
    assert RULE_MODULE.fullmatch(name), "neither a rule nor a helper that starts with _"
    assert [f"{rule.code.lower()}_{rule.name.replace('-', '_')}" for rule in rules_of(name)] == [
        name
    ]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_has_its_page(rule: Rule) -> None:
    """`explain` needs a summary and the four headings, in their order, with text under each."""
    assert rule.summary.endswith(".")
    assert [line for line in rule.page.splitlines() if line.startswith("## ")] == HEADINGS
    assert all(part.strip() for heading in HEADINGS for part in [rule.page.split(heading)[1]])


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_belongs_to_a_family_and_cites_its_sources(rule: Rule) -> None:
    """Codes are three letters of a known family and three digits; nothing stands on hearsay."""
    assert rule.family in FAMILIES
    assert len(rule.code) == 6
    assert rule.code[3:].isdigit()
    assert rule.references
    assert rule.since

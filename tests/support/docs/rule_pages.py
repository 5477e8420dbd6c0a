"""The pages in docs/rules/: one per rule, and the index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ext4audit.cli.rules import page_of
from ext4audit.rule import Rule
from ext4audit.rules import all_rules

RULES = Path(__file__).parents[3] / "docs" / "rules"
INDEX = "README.md"
FAMILIES = {
    "CAP": "Capacity",
    "CMP": "Compatibility and boot",
    "DRF": "Configuration drift",
    "DUR": "Durability",
    "HLT": "Health",
    "KRN": "Kernel bugs",
    "LAY": "Layout and alignment",
    "PRF": "Performance",
    "SEC": "Security",
}
INTRODUCTION = """# Rules

`ext4audit rules` lists the rules, and `ext4audit explain CODE` prints the page of one.
Severity depends on the context: disabled barriers over a volatile cache are critical, over
write-through devices they are info. The column *worst* has the highest severity of each rule.

| runs | the rule judges, when no rules are selected |
|---|---|
| always | every host and every plan |
| hosts | every host, and no plan |
| plans | every plan, and no host |
| if asked | nothing: select it by `--select CODE`, `--pedantic` (all such rules) or a profile |

Kernel bugs and the grammar of mount options are data, with the affected ranges of each
distribution's packages, compared in the way of its package manager. A finding about a kernel
whose backports cannot be known is *possible*, never *confirmed*.
"""
TABLE_HEAD = "| rule | name | worst | runs | what it finds |\n|---|---|---|---|---|"


def rule_pages() -> Mapping[str, str]:
    """Return the text of every page by its path relative to docs/rules/."""
    return {INDEX: index(), **{f"{rule.code}.md": rule_page(rule) for rule in all_rules()}}


def rule_page(rule: Rule) -> str:
    """Return the page of one rule: the output of `explain`, and when the rule runs."""
    return f"{page_of(rule)}\n[All rules]({INDEX}) · runs: {when_it_runs(rule)}\n"


def index() -> str:
    """Return the index page: a table of the rules of each family."""
    return "\n".join([INTRODUCTION, *(_family(code) for code in FAMILIES)])


def _family(code: str) -> str:
    rows = [_row(rule) for rule in all_rules() if rule.family == code]
    return "\n".join([f"## {FAMILIES[code]}", "", TABLE_HEAD, *rows, ""])


def _row(rule: Rule) -> str:
    link = f"[{rule.code}]({rule.code}.md)"
    return (
        f"| {link} | {rule.name} | {rule.severity.value} | {when_it_runs(rule)} | {rule.summary} |"
    )


def when_it_runs(rule: Rule) -> str:
    """Return when a rule runs if no rules are selected."""
    if rule.default:
        return "always" if rule.in_plans else "hosts"
    return "plans" if rule.in_plans else "if asked"

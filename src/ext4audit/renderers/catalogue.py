"""The output of `ext4audit rules` and `ext4audit explain`: text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ext4audit.renderers.shared import json_text
from ext4audit.rule import Rule

HEAD = "| rule | name | worst | default | what it finds |\n|---|---|---|---|---|"


def text_of(rules: Sequence[Rule]) -> str:
    """Return one line a rule in columns, however wide: for a pipe to grep."""
    width = max(len(rule.name) for rule in rules)
    return "".join(
        f"{rule.code}  {rule.name:<{width}}  {rule.severity.value:<8}  "
        f"{_state(rule):<3}  {rule.summary}\n"
        for rule in rules
    )


def markdown_of(rules: Sequence[Rule]) -> str:
    """Return the rules as a table."""
    rows = (
        f"| {rule.code} | {rule.name} | {rule.severity.value} | {_state(rule)} | {rule.summary} |"
        for rule in rules
    )
    return "\n".join([HEAD, *rows, ""])


def json_of(rules: Sequence[Rule]) -> str:
    """Return the rules as a list of objects."""
    return json_text([_object(rule) for rule in rules])


def page_of(rule: Rule) -> str:
    """Return a rule's page as Markdown."""
    head = f"# {rule.code} {rule.name}\n\n{rule.summary}\n\nWorst severity: {rule.severity.value}"
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{head}. Since: {rule.since}.\n\n{rule.page}{tail}\n"


def json_page_of(rule: Rule) -> str:
    """Return one rule as an object with its page, which is Markdown."""
    return json_text({**_object(rule), "page": rule.page})


def _state(rule: Rule) -> str:
    return "on" if rule.default else "off"


def _object(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "severity": rule.severity.value,
        "default": rule.default,
        "in_plans": rule.in_plans,
        "since": rule.since,
        "summary": rule.summary,
        "references": list(rule.references),
    }

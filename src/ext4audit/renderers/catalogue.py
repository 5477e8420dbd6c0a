"""The output of `ext4audit rules` and `ext4audit explain`: text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ext4audit.facts.features_and_bugs import all_ranges
from ext4audit.facts.versions import KernelRange
from ext4audit.renderers import json_text
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
    head = f"# {rule.title}\n\n{rule.summary}\n\nWorst severity: {rule.severity.value}"
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{head}. Since: {rule.since}.\n\n{rule.page}{_kernels(rule.code)}{tail}\n"


def _kernels(code: str) -> str:
    """Return the section on the kernels that are known to have a bug, empty for other rules."""
    ranges = all_ranges().get(code, ())
    lines = "\n".join(map(_range, ranges))
    return f"\n\n## Known kernels\n\nThe first that holds decides.\n\n{lines}" if ranges else ""


def _range(of: KernelRange) -> str:
    found = of.exposure
    what = f"{found.confidence}, {found.severity}" if found.affected else "not affected"
    source = f" Source: <{found.source}>." if found.source else ""
    confirmed = f" Checked: {found.confirmed}." if found.confirmed else ""
    return f"- {of.tree}, {_bounds(of)}: {what}. {found.note}.{source}{confirmed}"


def _bounds(of: KernelRange) -> str:
    """Return the bounds in words: "6.1.64 to before 6.1.66"."""
    low = of.since or (of.after and f"after {of.after}")
    high = (of.before and f"before {of.before}") or of.until
    if low and high:
        return f"{low} to {high}"
    if high:
        return high if of.before else f"up to {high}"
    return f"{low} and later" if low else "all"


def json_page_of(rule: Rule) -> str:
    """Return one rule as an object with its page, which is Markdown, and the known kernels."""
    kernels = [_range_object(each) for each in all_ranges().get(rule.code, ())]
    return json_text({**_object(rule), "page": rule.page, "kernels": kernels})


def _range_object(of: KernelRange) -> dict[str, Any]:
    bounds = {name: getattr(of, name) or None for name in ("since", "after", "before", "until")}
    return {"tree": of.tree, **bounds, **of.exposure._asdict()}


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

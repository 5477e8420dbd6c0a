"""SARIF: the rules, with their pages, as the descriptors of the tool."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from ext4audit.finding import Severity
from ext4audit.renderers.page import Audited
from ext4audit.rule import Rule

LEVELS = MappingProxyType(
    {
        Severity.CRITICAL: "error",
        Severity.HIGH: "error",
        Severity.MEDIUM: "warning",
        Severity.LOW: "note",
        Severity.INFO: "note",
    }
)
_PROBLEM_SEVERITIES = MappingProxyType(
    {"error": "error", "warning": "warning", "note": "recommendation"}
)
"""How GitHub sorts rules that are not about security (docs: SARIF support, reportingDescriptor)."""
_SECURITY_SCORES = MappingProxyType(
    {
        Severity.CRITICAL: "9.5",
        Severity.HIGH: "8.0",
        Severity.MEDIUM: "5.0",
        Severity.LOW: "2.0",
        Severity.INFO: "0.1",
    }
)
"""The middle of what GitHub calls by these names: beyond 9.0, from 7.0, from 4.0, from 0.1."""
_FAMILIES = MappingProxyType(
    {
        "CAP": "capacity",
        "CMP": "compatibility",
        "DRF": "configuration-drift",
        "DUR": "durability",
        "HLT": "health",
        "KRN": "kernel",
        "LAY": "layout",
        "PRF": "performance",
        "SEC": "security",
    }
)
_LONGEST_DESCRIPTION = 1024
"""Characters that GitHub takes of `fullDescription.text`."""


def judging(hosts: Sequence[Audited]) -> tuple[Rule, ...]:
    """Return the rules that judged anything, by code."""
    reports = [host.report for host in hosts if host.report is not None]
    met = {verdict.rule.code: verdict.rule for report in reports for verdict in report.verdicts}
    return tuple(met[code] for code in sorted(met))


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return a rule's descriptor; its help is the rule's page, as `explain` prints it."""
    page = rule_page(rule)
    told: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary or rule.name},
        "fullDescription": {"text": _description(rule)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"enabled": rule.default, "level": LEVELS[rule.severity]},
        "properties": _properties(rule),
    }
    pages = [reference for reference in rule.references if reference.startswith("https://")]
    return {**told, "helpUri": pages[0]} if pages else told


def rule_page(rule: Rule) -> str:
    """Return a rule's page with its references, in Markdown."""
    references = "\n".join(f"- {reference}" for reference in rule.references)
    tail = f"\n\n## References\n\n{references}" if references else ""
    return f"{rule.summary or rule.name}\n\n{rule.page}{tail}\n"


def _description(rule: Rule) -> str:
    """Return what a rule checks in one paragraph, cut between two words where it is too long."""
    first = rule.page.partition("\n## Why")[0].removeprefix("## What it checks")
    text = " ".join(first.split()) or rule.summary or rule.name
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return f"{text[: _LONGEST_DESCRIPTION - 1].rpartition(' ')[0]}…"


def _properties(rule: Rule) -> dict[str, Any]:
    level = LEVELS[rule.severity]
    family = _FAMILIES.get(rule.family, rule.family.lower())
    told: dict[str, Any] = {
        "tags": ["ext4", family],
        "problem.severity": _PROBLEM_SEVERITIES[level],
    }
    if rule.family == "SEC":
        told["security-severity"] = _SECURITY_SCORES[rule.severity]
    return told

"""The policy file: its keys, and the checks of rules, severities and dates before an audit."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ext4audit.finding import Severity, Suppression
from ext4audit.policy.selection import matches
from ext4audit.policy.suppression import SuppressionRule
from ext4audit.rule import Rule

KEYS = ("select", "ignore", "pedantic", "fail_on", "profile", "suppress")
SUPPRESS_KEYS = ("rule", "subject", "reason", "owner", "expires")
REQUIRED = ("rule", "subject", "reason")
NEVER = "never"
TABLE = "ext4audit"
DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
MONTHS = 12
Near = Callable[[str, Sequence[str]], str]
"""Returns " (did you mean …?)" for a similar name, else an empty text."""


class PolicyError(ValueError):
    """The policy file is invalid; the message has the error and a similar valid name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The contents of a policy file; `fail_on` is None where the command line decides."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    pedantic: bool = False
    fail_on: str | None = None
    profile: tuple[str, ...] = ()
    suppressions: tuple[SuppressionRule, ...] = ()


def parse_policy(document: Mapping[str, Any], rules: Sequence[Rule], near: Near) -> Policy:
    """Return the policy of a parsed TOML file; raises PolicyError.

    The keys stand at the top level of the file, or in its table [tool.ext4audit].
    """
    table = _table(document, near)
    _check_keys(table, KEYS, "", near)
    suppress = table.get("suppress", [])
    if not isinstance(suppress, list) or not all(isinstance(each, dict) for each in suppress):
        raise PolicyError("suppress is no list of tables: write [[suppress]]")
    return Policy(
        select=_rules(table, "select", rules, near),
        ignore=_rules(table, "ignore", rules, near),
        pedantic=_boolean(table, "pedantic"),
        fail_on=_fail_on(table, near),
        profile=_texts(table, "profile"),
        suppressions=tuple(_suppression(each, rules, near) for each in suppress),
    )


def _table(document: Mapping[str, Any], near: Near) -> Mapping[str, Any]:
    """Return the table of the policy; with [tool.ext4audit] the top level may have only tables."""
    tools = document.get("tool")
    if not isinstance(tools, dict):
        return document
    if TABLE not in tools:
        meant = next(filter(None, (near(name, [TABLE]) for name in tools)), "")
        raise PolicyError(f"there is no [tool.{TABLE}] in [tool]{meant}")
    for key, value in document.items():
        if key in KEYS:
            raise PolicyError(f"{key!r} stands outside of [tool.{TABLE}]")
        if not isinstance(value, dict):
            raise PolicyError(f"no key is called {key!r}{near(key, KEYS)}")
    table = tools[TABLE]
    if not isinstance(table, dict):
        raise PolicyError(f"tool.{TABLE} is no table")
    return table


def _check_keys(table: Mapping[str, Any], keys: Sequence[str], where: str, near: Near) -> None:
    for key in table:
        if key not in keys:
            raise PolicyError(f"{where}no key is called {key!r}{near(key, keys)}")


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PolicyError(f"{key} is no list of texts")
    return tuple(texts)


def _rules(
    table: Mapping[str, Any], key: str, rules: Sequence[Rule], near: Near
) -> tuple[str, ...]:
    """Return selectors of rules, all checked, because the command line may override them."""
    values = _texts(table, key)
    for word in (part.strip() for value in values for part in value.split(",")):
        if not word or not any(matches(rule, word) for rule in rules):
            names = [name for rule in rules for name in (rule.code, rule.name, rule.family)]
            raise PolicyError(f"{key}: no rule is called {word!r}{_nearest(word, names, near)}")
    return values


def _nearest(word: str, names: Sequence[str], near: Near) -> str:
    return near(word.upper(), names) or near(word.lower(), names)


def _boolean(table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise PolicyError(f"{key} is neither true nor false")
    return value


def _fail_on(table: Mapping[str, Any], near: Near) -> str | None:
    value = table.get("fail_on")
    choices = [*(severity.value for severity in Severity), NEVER]
    if value is not None and value not in choices:
        raise PolicyError(f"fail_on: no severity is called {value!r}{near(str(value), choices)}")
    return value


def _suppression(table: Mapping[str, Any], rules: Sequence[Rule], near: Near) -> SuppressionRule:
    _check_keys(table, SUPPRESS_KEYS, "suppress: ", near)
    for key in REQUIRED:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            raise PolicyError(f"suppress: {key} is missing: each needs {', '.join(REQUIRED)}")
    owner = table.get("owner")
    if owner is not None and not isinstance(owner, str):
        raise PolicyError("suppress: owner is no text")
    suppression = Suppression(table["reason"], owner, _day(table.get("expires")))
    return SuppressionRule(_code(table["rule"], rules, near), table["subject"], suppression)


def _code(word: str, rules: Sequence[Rule], near: Near) -> str:
    """Return the code of the rule with this code or name: a prefix would accept too much."""
    for rule in rules:
        if word.upper() == rule.code or word.lower() == rule.name:
            return rule.code
    names = [name for rule in rules for name in (rule.code, rule.name)]
    raise PolicyError(f"suppress: no rule is called {word!r}{_nearest(word, names, near)}")


def _day(value: object) -> str | None:
    """Return a TOML date, or a date in a text, in ISO 8601."""
    if value is None:
        return None
    text = str(value)  # a date is in ISO 8601; a time has more and does not match
    found = DAY.fullmatch(text)
    if found is None or not _exists(*(int(part) for part in found.groups())):
        raise PolicyError(f"suppress: expires is no date such as 2027-01-31: {text}")
    return text


def _exists(year: int, month: int, day: int) -> bool:
    return 1 <= month <= MONTHS and 1 <= day <= monthrange(year, month)[1]

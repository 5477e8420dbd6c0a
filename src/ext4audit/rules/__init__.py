"""The catalogue of rules: one module a rule, found by its name and never registered by hand.

Rules in this folder are on by default. Those in `opt_in` are not imported unless they are wanted:
`--select`, `--pedantic` and a profile ask for them.
"""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module

from ext4audit.rule import Rule
from ext4audit.rules import opt_in

RULE_MODULE = re.compile(r"[a-z]+\d+_[a-z0-9_]+")
"""`dur001_barrier_disabled`: code and name. Modules that start with "_" are helpers."""


@cache
def default_rules() -> tuple[Rule, ...]:
    """Return the rules that judge when nobody chooses, sorted by code."""
    return _sorted(_in(__name__, list(__path__)))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the catalogue, sorted by code."""
    return _sorted([*default_rules(), *_in(opt_in.__name__, list(opt_in.__path__))])


def _in(package: str, path: list[str]) -> list[Rule]:
    """Return the rules that the modules of a folder define."""
    names = [info.name for info in pkgutil.iter_modules(path)]
    modules = [import_module(f"{package}.{n}") for n in names if RULE_MODULE.fullmatch(n)]
    return [value for m in modules for value in vars(m).values() if isinstance(value, Rule)]


def _sorted(rules: list[Rule]) -> tuple[Rule, ...]:
    return tuple(sorted(rules, key=lambda rule: rule.code))

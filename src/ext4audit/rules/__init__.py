"""The catalogue of rules: one module a rule, found by its name and never registered by hand."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module

from ext4audit.rule import Rule

RULE_MODULE = re.compile(r"[a-z]+\d+_[a-z0-9_]+")
"""`dur001_barrier_disabled`: code and name. Modules that start with "_" are helpers."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return every rule of the catalogue, sorted by code."""
    names = [info.name for info in pkgutil.iter_modules(__path__)]
    modules = [import_module(f"{__name__}.{n}") for n in names if RULE_MODULE.fullmatch(n)]
    found = [value for m in modules for value in vars(m).values() if isinstance(value, Rule)]
    return tuple(sorted(found, key=lambda rule: rule.code))

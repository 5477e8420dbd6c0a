"""The rule catalogue: one module per rule in the folder of its family, discovered by file name.

Rules that are off by default (`ext4audit.rule.OFF_BY_DEFAULT`) are imported only if `--select`,
`--pedantic` or a profile selects them.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

from ext4audit.rule import OFF_BY_DEFAULT, Rule

RULE_MODULE = re.compile(r"([a-z]{3}\d{3})_[a-z0-9_]+")
"""`dur001_barrier_disabled`: code and name. Other modules hold helpers of a family."""


@cache
def default_rules() -> tuple[Rule, ...]:
    """Return the rules that are on by default, sorted by code."""
    return _rules(default=True)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules, sorted by code."""
    return tuple(sorted((*default_rules(), *_rules(default=False)), key=lambda rule: rule.code))


def _rules(*, default: bool) -> tuple[Rule, ...]:
    """Import and return the rules that are on or off by default, sorted by code."""
    modules = [
        import_module(name) for code, name in _modules() if (code not in OFF_BY_DEFAULT) is default
    ]
    found = [value for m in modules for value in vars(m).values() if isinstance(value, Rule)]
    return tuple(sorted(found, key=lambda rule: rule.code))


def _modules() -> Iterator[tuple[str, str]]:
    """Yield the code and the dotted module name of every rule."""
    for family in pkgutil.iter_modules(__path__):
        folders = [f"{folder}/{family.name}" for folder in __path__]
        for module in pkgutil.iter_modules(folders):
            named = RULE_MODULE.fullmatch(module.name)
            if named:
                yield named[1].upper(), f"{__name__}.{family.name}.{module.name}"

"""Scenarios: functions that run as root in the guest and return a JSON value."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab import scenarios

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario: its name, its function, and whether it runs on every kernel of the lab."""

    name: str
    run: Callable[[], JsonObject]
    every_era: bool


REGISTERED: dict[str, Scenario] = {}


def scenario(*, every_era: bool = False) -> Callable[[Callable[[], JsonObject]], Scenario]:
    """Turn a function into a scenario with the function's name."""

    def decorate(function: Callable[[], JsonObject]) -> Scenario:
        made = Scenario(function.__name__, function, every_era)
        assert made.name not in REGISTERED, f"two scenarios are called {made.name}"
        REGISTERED[made.name] = made
        return made

    return decorate


def all_scenarios() -> dict[str, Scenario]:
    """Import every module of scenarios, and return the scenarios by name."""
    for module in pkgutil.walk_packages(scenarios.__path__, f"{scenarios.__name__}."):
        importlib.import_module(module.name)
    return REGISTERED

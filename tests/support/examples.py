"""How many random examples, or cases of an exhaustive test, a run has.

CI has all of them: `.ci/run` sets HYPOTHESIS_PROFILE=same. Without it, a run has an eighth. The
profiles are in tests/conftest.py, and theirs is the only number that differs.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable
from typing import Any, TypeVar

from hypothesis import settings

T = TypeVar("T")
ALL_PERCENT = 100
"""What the profile of CI has for `max_examples`, Hypothesis's own default."""


def share_percent() -> int:
    """Return how many of a hundred examples this run has, by the profile that is loaded."""
    return settings().max_examples


def number(whole: int, variable: str = "") -> int:
    """Return how many of the examples this run has, at least one.

    `variable` of the environment, where it is set, is the number itself.
    """
    asked = os.environ.get(variable)
    return int(asked) if asked else math.ceil(whole * share_percent() / ALL_PERCENT)


def examples(whole: int, variable: str = "", **more: Any) -> settings:
    """Return the settings of a property that draws so many examples in CI."""
    return settings(max_examples=number(whole, variable), **more)


def sample_of(cases: Iterable[T], seed: str) -> list[T]:
    """Return the cases of an exhaustive test that this run has, in their order: in CI all of them.

    A seed has the same cases in every run that has an eighth; tests of the same cases with seeds of
    their own have others. Every eighth of a product would be one value of one of its factors.
    """
    every = list(cases)
    kept = random.Random(seed).sample(range(len(every)), min(len(every), number(len(every))))  # noqa: S311
    return [every[position] for position in sorted(kept)]

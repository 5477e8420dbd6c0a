"""The number of random examples, or of cases of an exhaustive test, in a run.

CI has all of them: `.ci/run` sets HYPOTHESIS_PROFILE=same. Other runs have an eighth. The share
follows from `max_examples` of the profiles in tests/conftest.py.
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
"""`max_examples` in the profile of CI, which is Hypothesis's default."""


def share_percent() -> int:
    """Return the percentage of examples that this run has, according to the loaded profile."""
    return settings().max_examples


def share_of(whole: int, variable: str = "") -> int:
    """Return how many of `whole` examples this run has, at least one.

    If the environment variable `variable` is set, it is the number.
    """
    asked = os.environ.get(variable)
    return int(asked) if asked else math.ceil(whole * share_percent() / ALL_PERCENT)


def examples(whole: int, variable: str = "", **more: Any) -> settings:
    """Return the settings of a property that draws `whole` examples in CI."""
    return settings(max_examples=share_of(whole, variable), **more)


def sample_of(cases: Iterable[T], seed: str) -> list[T]:
    """Return this run's share of the cases of an exhaustive test, in order; in CI all of them.

    The sample is the same in every run; tests of the same cases use different seeds to get others.
    It is random, because every eighth case of a product might have the same value of one factor.
    """
    every = list(cases)
    kept = random.Random(seed).sample(range(len(every)), min(len(every), share_of(len(every))))  # noqa: S311
    return [every[position] for position in sorted(kept)]

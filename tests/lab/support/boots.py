"""Runs all scenarios of a kernel in one boot, and the rest in a new one if one spoils it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

MOST_BOOTS = 4


def run_in_boots(
    results: Path, names: Sequence[str], boot: Callable[[Sequence[str]], None]
) -> None:
    """Boot until each scenario has a result; one that ended the guest has an error.

    The guest writes NAME.part while a scenario runs and NAME.json once it has ended.
    """
    left = list(names)
    for _ in range(MOST_BOOTS):
        if not left:
            return
        boot(left)
        left = [name for name in left if not (results / f"{name}.json").exists()]
        if left and (results / f"{left[0]}.part").exists():
            _fail(results, left.pop(0), "the guest died or hung while it ran")
    for name in left:
        _fail(results, name, f"it did not run in {MOST_BOOTS} boots")


def _fail(results: Path, name: str, error: str) -> None:
    (results / f"{name}.json").write_text(json.dumps({"error": f"{name}: {error}"}))

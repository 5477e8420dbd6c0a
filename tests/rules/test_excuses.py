"""Each excuse for a better verdict with less evidence is needed by the test of its rule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rules.conftest import EXCUSES, NO_EXCUSES
from support.program import run_python


def needed_excuses(excuses: set[tuple[str, str]], losses: str) -> set[tuple[str, str]]:
    """Return the excuses without which a test of the rule fails and names the fact."""
    if not excuses:  # without a file argument pytest would run all tests, including this one
        return set()
    codes = {code.lower() for code, _ in excuses}
    files = [path for code in codes for path in Path(__file__).parent.glob(f"*/test_{code}_*.py")]
    assert len(files) == len(codes)
    done = run_python(
        *("-m", "pytest", "-q", "-n", "0", "-m", "not kernel", "-p", "no:cacheprovider"),
        *map(str, files),
        env={NO_EXCUSES: "1", "EXT4AUDIT_LOSSES": losses, "EXT4AUDIT_PART": "1/1"},
    )
    lines = [line for line in done.stdout.splitlines() if " without " in line]
    return {
        (code, kind)
        for code, kind in excuses
        if any(f"{code} without " in line and kind in line for line in lines)
    }


def test_every_excuse_is_needed_by_a_test() -> None:
    """It is needed with the usual sample of removed facts, or with all pairs of facts."""
    left = set(EXCUSES) - needed_excuses(set(EXCUSES), "")
    assert left - needed_excuses(left, "all") == set()


def test_no_tests_run_without_excuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one test would run all tests, which would again run all tests, and so on."""
    monkeypatch.delattr(sys.modules[__name__], "run_python")
    assert needed_excuses(set(), "all") == set()

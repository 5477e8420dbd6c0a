"""The law over the tests of rules finds what is calmer, and each of its excuses is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rules.conftest import EXCUSES, WITHOUT_EXCUSES
from support.program import run_python


def needed(excuses: set[tuple[str, str]], law: str) -> set[tuple[str, str]]:
    """Return the excuses without which tests of their rules fail, and name the fact."""
    if not excuses:  # pytest without files runs all tests, and this one among them
        return set()
    codes = {code.lower() for code, _ in excuses}
    files = [path for code in codes for path in Path(__file__).parent.glob(f"*/test_{code}_*.py")]
    assert len(files) == len(codes)
    done = run_python(
        *("-m", "pytest", "-q", "-n", "0", "-m", "not kernel", "-p", "no:cacheprovider"),
        *map(str, files),
        env={WITHOUT_EXCUSES: "1", "EXT4AUDIT_LAW": law, "EXT4AUDIT_PART": "1/1"},
    )
    lines = [line for line in done.stdout.splitlines() if " without " in line]
    return {
        (code, kind)
        for code, kind in excuses
        if any(f"{code} without " in line and kind in line for line in lines)
    }


def test_every_excuse_is_needed() -> None:
    """By the usual sample of facts that are taken away, or where all pairs of them are."""
    left = set(EXCUSES) - needed(set(EXCUSES), "")
    assert left - needed(left, "all") == set()


def test_without_an_excuse_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests would be run in one test, without the excuses of others, and so on."""
    monkeypatch.delattr(sys.modules[__name__], "run_python")
    assert needed(set(), "all") == set()

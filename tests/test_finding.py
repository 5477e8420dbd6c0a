"""Findings: the values of the enumerations, and the order of severities."""

from __future__ import annotations

from enum import Enum

import pytest

from ext4audit.finding import Confidence, Disruption, Phase, Remedy, Severity


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (Severity, ["critical", "high", "medium", "low", "info"]),
        (Confidence, ["confirmed", "likely", "possible"]),
        (Disruption, ["online", "remount", "unmount", "reboot", "recreate"]),
        (Phase, ["immediate", "persistent", "verify", "rollback"]),
    ],
)
def test_the_words_are_those_of_the_contract(words: type[Enum], expected: list[str]) -> None:
    """Machine formats print these values in this order."""
    assert [word.value for word in words] == expected


def test_ranks_count_from_the_worst() -> None:
    """Critical is 0 and info is 4."""
    assert [severity.rank for severity in Severity] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Severity.CRITICAL, Severity.INFO, True),
        (Severity.MEDIUM, Severity.MEDIUM, True),
        (Severity.LOW, Severity.MEDIUM, False),
        (Severity.INFO, Severity.CRITICAL, False),
    ],
)
def test_at_least_means_as_bad_or_worse(one: Severity, other: Severity, expected: bool) -> None:
    """A threshold includes itself."""
    assert one.at_least(other) is expected


def test_a_remedy_without_steps_is_advice_that_destroys_nothing() -> None:
    """A remedy is destructive only where it is marked so."""
    advice = Remedy("Use drives with power-loss protection.", Disruption.UNMOUNT)
    assert advice.steps == ()
    assert advice.destructive is False
    assert advice.trade_off is None

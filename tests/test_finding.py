"""Findings: the values of the enumerations, and the order of severities."""

from __future__ import annotations

from enum import Enum

import pytest

from ext4audit.finding import Confidence, Disruption, Phase, Remedy, Severity, Step


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


def test_the_rollback_takes_back_the_last_step_first() -> None:
    """A step without undo has nothing to take back; the steps themselves hold no rollback."""
    there = (
        Step(Phase.IMMEDIATE, "mount -o remount,barrier", "mount -o remount,nobarrier"),
        Step(Phase.PERSISTENT, "tune2fs -o ^nobarrier", "tune2fs -o nobarrier"),
        Step(Phase.VERIFY, "grep -x barrier"),
    )
    remedy = Remedy("Turn barriers on.", Disruption.REMOUNT, there)
    assert remedy.steps == there
    assert remedy.lines == (
        *there,
        Step(Phase.ROLLBACK, "tune2fs -o nobarrier"),
        Step(Phase.ROLLBACK, "mount -o remount,nobarrier"),
    )


def test_advice_has_no_lines() -> None:
    """Nothing is run, so nothing is taken back."""
    assert Remedy("Use drives with power-loss protection.", Disruption.UNMOUNT).lines == ()

"""Findings: the values of the enumerations, and the order of severities."""

from __future__ import annotations

from enum import Enum

import pytest

from ext4audit.finding import (
    Check,
    Confidence,
    Disruption,
    Finding,
    LineEdit,
    NewFile,
    Phase,
    Programs,
    Remedy,
    Severity,
    Step,
    listed,
)


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
    """A remedy is destructive only if it is marked as such."""
    advice = Remedy("Use drives with power-loss protection.", Disruption.UNMOUNT)
    assert advice.steps == ()
    assert advice.destructive is False
    assert advice.trade_off is None


def test_the_rollback_takes_back_the_last_step_first() -> None:
    """A step without an undo adds no line to the rollback; `steps` contains no rollback."""
    there = (
        Step(Phase.IMMEDIATE, "mount -o remount,barrier", "mount -o remount,nobarrier"),
        Step(Phase.PERSISTENT, "tune2fs -o ^nobarrier", "tune2fs -o nobarrier"),
        Step(Phase.VERIFY, "grep -x barrier"),
    )
    remedy = Remedy("Enable barriers.", Disruption.REMOUNT, there)
    assert remedy.steps == there
    assert remedy.lines == (
        *there,
        Step(Phase.ROLLBACK, "tune2fs -o nobarrier"),
        Step(Phase.ROLLBACK, "mount -o remount,nobarrier"),
    )


@pytest.mark.parametrize(
    ("undo", "by_unmount", "command", "programs", "unmounts"),
    [
        ("tune2fs", "umount", "tune2fs || { umount; }", ("tune2fs", "umount"), False),
        ("tune2fs", "", "tune2fs", ("tune2fs",), False),
        ("", "umount", "umount", ("umount",), True),
    ],
)
def test_a_rollback_needs_the_programs_of_what_is_left_of_it(
    undo: str, by_unmount: str, command: str, programs: tuple[str, ...], *, unmounts: bool
) -> None:
    """Where an undo has been taken out of a step, nothing needs its programs."""
    needed = Programs(("a",), ("tune2fs",), ("b",), ("umount",))
    step = Step(Phase.PERSISTENT, "do", undo, undo_by_unmount=by_unmount, programs=needed)
    (_, rollback) = Remedy("Do it.", Disruption.ONLINE, (step,)).lines
    assert (rollback.phase, rollback.command) == (Phase.ROLLBACK, command)
    assert (rollback.programs, rollback.unmounts) == (Programs(programs), unmounts)


def test_advice_has_no_lines() -> None:
    """Advice runs no command, so it has no rollback."""
    assert Remedy("Use drives with power-loss protection.", Disruption.UNMOUNT).lines == ()


def test_the_changes_of_files_are_those_of_the_steps() -> None:
    """They keep their order; other kinds of changes and steps without a change are left out."""
    edit, new = LineEdit("/etc/fstab", 1, "a", "b"), NewFile("/etc/new", "c")
    steps = [Step(Phase.PERSISTENT, "x", change=each) for each in (new, Check("/dev/sda"), edit)]
    remedy = Remedy("Do.", Disruption.ONLINE, (*steps, Step(Phase.VERIFY, "y")))
    assert remedy.file_changes == (new, edit)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        ([], None),
        ([(Disruption.ONLINE, False, False)], None),
        ([(Disruption.ONLINE, True, True)], None),
        ([(Disruption.REBOOT, True, False)], 0),
        ([(Disruption.REBOOT, True, False), (Disruption.REMOUNT, True, False)], 1),
        ([(Disruption.REMOUNT, True, False), (Disruption.REMOUNT, True, False)], 0),
        ([(Disruption.ONLINE, True, True), (Disruption.UNMOUNT, True, False)], 1),
        ([(Disruption.ONLINE, False, False), (Disruption.UNMOUNT, True, False)], 1),
    ],
)
def test_the_safest_remedy_stops_the_least_and_destroys_nothing(
    offered: list[tuple[Disruption, bool, bool]], chosen: int | None
) -> None:
    """The first of several equal remedies is chosen; advice cannot be run and is not chosen."""
    remedies = tuple(
        Remedy(f"{n}", disruption, (Step(Phase.IMMEDIATE, "x"),) if has_steps else (), destructive)
        for n, (disruption, has_steps, destructive) in enumerate(offered)
    )
    finding = Finding("x", Severity.LOW, Confidence.CONFIRMED, (), remedies)
    assert finding.safest_remedy == (None if chosen is None else remedies[chosen])


@pytest.mark.parametrize(
    ("limit", "text"), [(None, "a, b, c"), (3, "a, b, c"), (2, "a, b and 1 more")]
)
def test_long_lists_end_with_the_number_of_the_others(limit: int | None, text: str) -> None:
    """Names beyond the limit are counted, never dropped."""
    assert listed(("a", "b", "c"), limit) == text

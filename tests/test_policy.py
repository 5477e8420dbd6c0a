"""Policy: which rules a word selects, and which exit code a report deserves."""

from __future__ import annotations

import pytest

from builders import filesystem, host, unknown
from ext4audit.engine import audit
from ext4audit.evidence import Unknown, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.policy.exit_codes import exit_code
from ext4audit.policy.selection import NothingSelected, UnknownRule, select
from ext4audit.report import Report, Source
from ext4audit.rule import Rule, Said, Scope, rule


def made_up(code: str, name: str) -> Rule:
    """Build a rule that says nothing."""
    return Rule(
        code, name, Severity.HIGH, "0.1", (), Scope.HOST, "", "", lambda _fs, _host: iter(())
    )


RULES = (
    made_up("DUR001", "barrier-disabled"),
    made_up("DUR002", "hidden-default"),
    made_up("DUR012", "journal-off"),
    made_up("LAY001", "hotspot"),
    made_up("PRF001", "slow"),
)
ALL = ["DUR001", "DUR002", "DUR012", "LAY001", "PRF001"]


@pytest.mark.parametrize(
    ("wanted", "ignored", "expected"),
    [
        ([], [], ALL),
        (["DUR001"], [], ["DUR001"]),
        (["dur001"], [], ["DUR001"]),
        (["DUR"], [], ["DUR001", "DUR002", "DUR012"]),
        (["dUr"], [], ["DUR001", "DUR002", "DUR012"]),
        (["DUR00"], [], ["DUR001", "DUR002"]),
        (["barrier-disabled"], [], ["DUR001"]),
        (["Barrier-Disabled"], [], ["DUR001"]),
        (["PRF001", "DUR001"], [], ["DUR001", "PRF001"]),
        (["DUR", "DUR001"], [], ["DUR001", "DUR002", "DUR012"]),
        ([], ["DUR"], ["LAY001", "PRF001"]),
        ([], ["hotspot"], ["DUR001", "DUR002", "DUR012", "PRF001"]),
        (["DUR"], ["DUR001"], ["DUR002", "DUR012"]),
        (["LAY"], ["DUR"], ["LAY001"]),
    ],
)
def test_words_select_rules(wanted: list[str], ignored: list[str], expected: list[str]) -> None:
    """A code, a prefix, a family or a name, in any case; ignoring wins over selecting."""
    assert [each.code for each in select(RULES, wanted, ignored)] == expected


@pytest.mark.parametrize(
    "word", ["DUR999", "XYZ", "barrier", "barrier_disabled", "", " ", "DUR001x"]
)
@pytest.mark.parametrize("place", ["wanted", "ignored"])
def test_a_word_that_names_no_rule_is_refused(word: str, place: str) -> None:
    """A typing error must not silently audit less; the word is given back as it was typed."""
    with pytest.raises(UnknownRule) as raised:
        select(RULES, *([["DUR", word], []] if place == "wanted" else [[], ["DUR", word]]))
    assert raised.value.word == word


def test_a_word_is_refused_beside_words_that_are_right() -> None:
    """One right word does not excuse another."""
    with pytest.raises(UnknownRule):
        select(RULES, ["DUR001", "DUR00l"])


@rule("DUR901", "made-up", severity=Severity.CRITICAL, since="0.1")
def as_labelled(fs: Filesystem, _host: Host) -> Said:
    """Find what the label says, then ask for the superblock."""
    if fs.label:
        yield Finding("Bad.", Severity(fs.label), Confidence.CONFIRMED, ())
    need(fs.superblock)


HOLE: Unknown = unknown("the superblock")


def report(*severities: str, hole: bool = False, gap: bool = False) -> Report:
    """Audit a filesystem for each severity, and one that cannot be judged."""
    subjects = [filesystem(label=severity) for severity in severities]
    if hole:
        subjects.append(filesystem(superblock=HOLE))
    return audit(
        Source("live", "db1"), host(*subjects, gaps=(HOLE,) if gap else ()), (as_labelled,)
    )


@pytest.mark.parametrize(
    ("judged", "fail_on", "allow_incomplete", "expected"),
    [
        (report(), "medium", False, 0),
        (report("medium"), "medium", False, 1),
        (report("low"), "medium", False, 0),
        (report("low"), "low", False, 1),
        (report("info"), "low", False, 0),
        (report("info"), "info", False, 1),
        (report("critical"), "critical", False, 1),
        (report("high"), "critical", False, 0),
        (report("low", "critical"), "high", False, 1),
        (report("critical"), None, False, 0),
        (report(hole=True), "medium", False, 3),
        (report(hole=True), "medium", True, 0),
        (report(gap=True), "medium", False, 3),
        (report(gap=True), "medium", True, 0),
        (report("low", hole=True), "medium", False, 3),
        (report("high", hole=True), "medium", False, 1),
        (report("high", hole=True), "medium", True, 1),
        (report("high", gap=True), "critical", False, 3),
        (report("critical", hole=True), None, False, 3),
        (report("critical", hole=True), None, True, 0),
    ],
)
def test_one_beats_three_beats_zero(
    judged: Report, fail_on: str | None, allow_incomplete: bool, expected: int
) -> None:
    """Findings at the threshold, then blind spots, then clean; the contract's table."""
    threshold = None if fail_on is None else Severity(fail_on)
    assert exit_code(judged, threshold, allow_incomplete=allow_incomplete) == expected


@pytest.mark.parametrize("ignored", [["DUR"], ["DUR001"]])
def test_a_selection_that_leaves_nothing_is_an_error(ignored: list[str]) -> None:
    """No rule left is not a clean audit."""
    with pytest.raises(NothingSelected):
        select(RULES, ["DUR001"], ignored)

"""Selection of rules."""

from __future__ import annotations

import pytest

from ext4audit.finding import Severity
from ext4audit.policy import NothingSelected, UnknownRule, select
from ext4audit.rule import Rule, Scope


def made_up(code: str, name: str) -> Rule:
    """Build a rule that finds nothing."""
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
def test_selectors_match_rules(wanted: list[str], ignored: list[str], expected: list[str]) -> None:
    """A code, a prefix, a family or a name, in any case; ignored rules precede selected ones."""
    assert [each.code for each in select(RULES, wanted, ignored)] == expected


@pytest.mark.parametrize(
    "word", ["DUR999", "XYZ", "barrier", "barrier_disabled", "", " ", "DUR001x"]
)
@pytest.mark.parametrize("parameter", ["wanted", "ignored"])
def test_a_selector_that_matches_no_rule_is_refused(word: str, parameter: str) -> None:
    """A typing error must not silently reduce the audit; the error has the selector as typed."""
    with pytest.raises(UnknownRule) as raised:
        select(RULES, *([["DUR", word], []] if parameter == "wanted" else [[], ["DUR", word]]))
    assert raised.value.word == word


def test_a_wrong_selector_among_right_ones_is_refused() -> None:
    """Every selector is checked."""
    with pytest.raises(UnknownRule):
        select(RULES, ["DUR001", "DUR00l"])


@pytest.mark.parametrize("ignored", [["DUR"], ["DUR001"]])
def test_a_selection_that_leaves_nothing_is_an_error(ignored: list[str]) -> None:
    """An audit with no rules left would look clean."""
    with pytest.raises(NothingSelected):
        select(RULES, ["DUR001"], ignored)

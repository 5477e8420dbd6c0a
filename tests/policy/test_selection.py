"""Selection: which rules words name."""

from __future__ import annotations

import pytest

from ext4audit.finding import Severity
from ext4audit.policy.selection import NothingSelected, UnknownRule, select
from ext4audit.rule import Rule, Scope


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


@pytest.mark.parametrize("ignored", [["DUR"], ["DUR001"]])
def test_a_selection_that_leaves_nothing_is_an_error(ignored: list[str]) -> None:
    """No rule left is not a clean audit."""
    with pytest.raises(NothingSelected):
        select(RULES, ["DUR001"], ignored)

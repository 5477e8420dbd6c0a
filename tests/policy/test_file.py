"""The policy file: its valid keys and values, and the errors for others."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.cli import did_you_mean
from ext4audit.facts import toml_reader
from ext4audit.finding import Suppression
from ext4audit.policy import Policy, PolicyError, SuppressionRule, parse_policy
from ext4audit.rules import all_rules

FULL = """
select = ["DUR", "prf001,LAY001"]
ignore = "errors-continue"
pedantic = true
fail_on = "high"
profile = ["tidb=/data"]

[[suppress]]
rule = "DUR001"
subject = "/data"
reason = "the controller's cache has a battery"
owner = "storage team"
expires = 2027-01-31

[[suppress]]
rule = "Striped-Metadata-Hotspot"
subject = "*"
reason = "rebuilt next year"
expires = "2027-12-31"
"""
GIVEN = 'rule = "DUR001"\nsubject = "*"\nreason = "so"\n'


def parsed(text: str) -> Policy:
    """Parse a policy file."""
    document: dict[str, Any] = toml_reader().loads(text)
    return parse_policy(document, all_rules(), did_you_mean)


def test_every_key_is_read() -> None:
    """A string may be given alone or in a list, a day as a date or a string."""
    assert parsed(FULL) == Policy(
        select=("DUR", "prf001,LAY001"),
        ignore=("errors-continue",),
        pedantic=True,
        fail_on="high",
        profile=("tidb=/data",),
        suppressions=(
            SuppressionRule(
                "DUR001",
                "/data",
                Suppression("the controller's cache has a battery", "storage team", "2027-01-31"),
            ),
            SuppressionRule("LAY001", "*", Suppression("rebuilt next year", None, "2027-12-31")),
        ),
    )


def test_the_table_may_be_named_after_the_tool() -> None:
    """As in a pyproject.toml, next to the tables of other tools."""
    text = '[project]\nname = "x"\n[tool.ext4audit]\nfail_on = "low"\n[tool.other]\nx = 1\n'
    assert parsed(text) == Policy(fail_on="low")


@pytest.mark.parametrize("text", ["", "# nothing\n", "[tool.ext4audit]\n"])
def test_an_empty_file_is_an_empty_policy(text: str) -> None:
    """It leaves every setting at its default."""
    assert parsed(text) == Policy()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('fial_on = "low"', "unknown key 'fial_on' (did you mean fail_on?)"),
        ('[tool.ext4audit]\nselct = "DUR"', "unknown key 'selct' (did you mean select?)"),
        ('[tool.ruff]\nselect = "DUR"', "there is no [tool.ext4audit] in [tool]"),
        ("[tool.ext4audti]\n[tool.ruff]", "in [tool] (did you mean ext4audit?)"),
        ('fail_on = "low"\n[tool.ext4audit]', "'fail_on' is outside of [tool.ext4audit]"),
        ('igonre = "DUR"\n[tool.ext4audit]', "unknown key 'igonre' (did you mean ignore?)"),
        (f"[tool.ext4audit]\n[[suppress]]\n{GIVEN}", "'suppress' is outside of"),
        ("tool = 3", "unknown key 'tool'"),
        ("[tool]\next4audit = 3", "tool.ext4audit is not a table"),
        ("select = 3", "select is not a list of strings"),
        ("select = [3]", "select is not a list of strings"),
        ('select = "DUR01"', "select: unknown rule 'DUR01' (did you mean DUR001?)"),
        ('select = "DRU"', "select: unknown rule 'DRU' (did you mean DUR?)"),
        ('select = "DUR,barier-disabled"', "unknown rule 'barier-disabled' (did you mean"),
        ('ignore = ["DUR001", "PFR001"]', "unknown rule 'PFR001' (did you mean PRF001?)"),
        ('ignore = ""', "ignore: unknown rule ''"),
        ('pedantic = "yes"', "pedantic is neither true nor false"),
        ('fail_on = "hihg"', "unknown severity 'hihg' (did you mean high?)"),
        ("fail_on = 3", "unknown severity 3"),
        ("suppress = 3", "suppress is not a list of tables: write [[suppress]]"),
        (f"[suppress]\n{GIVEN}", "suppress is not a list of tables: write [[suppress]]"),
        ("suppress = [3]", "suppress is not a list of tables"),
        ('[[suppress]]\nsubject = "*"\nreason = "so"', "suppress: rule is missing"),
        ('[[suppress]]\nrule = "DUR001"\nreason = "so"', "suppress: subject is missing"),
        ('[[suppress]]\nrule = "DUR001"\nsubject = "*"', "suppress: reason is missing"),
        (
            '[[suppress]]\nrule = "DUR001"\nsubject = "*"\nreason = " "',
            "suppress: reason is missing",
        ),
        (
            f"[[suppress]]\n{GIVEN}ownr = 'x'",
            "suppress: unknown key 'ownr' (did you mean owner?",
        ),
        ('[[suppress]]\nrule = "DUR001"\nsubject = 3\nreason = "so"', "subject is not a string"),
        (f"[[suppress]]\n{GIVEN}owner = 3", "suppress: owner is not a string"),
        (f"[[suppress]]\n{GIVEN.replace('DUR001', 'DUR')}", "suppress: unknown rule 'DUR'"),
        (f"[[suppress]]\n{GIVEN.replace('DUR001', 'DUR0O1')}", "(did you mean DUR001?)"),
        (
            f"[[suppress]]\n{GIVEN}expires = 'soon'",
            "suppress: expires is not a date such as 2027-01-31",
        ),
        (f"[[suppress]]\n{GIVEN}expires = '2027-02-29'", "expires is not a date"),
        (f"[[suppress]]\n{GIVEN}expires = '2027-13-01'", "expires is not a date"),
        (f"[[suppress]]\n{GIVEN}expires = 2027-01-31T00:00:00Z", "expires is not a date"),
        (f"[[suppress]]\n{GIVEN}expires = 20270131", "expires is not a date"),
        (f"[[suppress]]\n{GIVEN}expires = '2027-W04-7'", "expires is not a date"),
    ],
)
def test_an_invalid_file_is_refused_with_the_nearest_name(text: str, message: str) -> None:
    """A typing error must not silently accept more findings or reduce the audit."""
    with pytest.raises(PolicyError) as raised:
        parsed(text)
    assert message in str(raised.value)

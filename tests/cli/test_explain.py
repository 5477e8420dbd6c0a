"""`ext4audit explain`: one rule's page."""

from __future__ import annotations

import re

import pytest

from ext4audit.cli.explain import page
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from support.program import run

HEADINGS = ["What it checks", "Why it matters", "Remedy", "When to ignore", "References"]


def test_a_page_has_a_head_four_headings_and_references() -> None:
    """Code and name, the one line, the worst severity and the version; then the page."""
    done = run("explain", "LAY001")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith(
        "# LAY001 striped-metadata-hotspot\n\n"
        "Block-group bitmaps are concentrated on a few members of a stripe.\n\n"
        "Worst severity: high. Since: 0.1.\n\n"
        "## What it checks\n"
    )
    assert re.findall(r"^## (.*)$", done.stdout, re.MULTILINE) == HEADINGS
    assert "\n- https://nvartolomei.com/ext4-io-distribution-raid0\n" in done.stdout
    assert done.stdout.endswith("\n")
    assert not done.stdout.endswith("\n\n")


@pytest.mark.parametrize("word", ["lay001", "striped-metadata-hotspot", "Striped-Metadata-Hotspot"])
def test_a_rule_is_found_by_code_or_name_in_any_case(word: str) -> None:
    """Each prints the same page."""
    assert run("explain", word).stdout == run("explain", "LAY001").stdout


@pytest.mark.parametrize("word", ["LAY", "LAY00", "", "hotspot"])
def test_a_part_of_a_name_is_not_enough(word: str) -> None:
    """A page is one rule's; families and prefixes select, and do not explain."""
    done = run("explain", word)
    assert done.returncode == 2
    assert f"unknown rule {word!r}" in done.stderr


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_a_whole_page(rule: Rule) -> None:
    """All headings in their order, and every reference as a point of the list."""
    text = page(rule)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert [f"- {each}" for each in rule.references] == text.partition("## References\n\n")[
        2
    ].splitlines()

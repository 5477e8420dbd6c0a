"""`ext4audit explain`: the page of a rule."""

from __future__ import annotations

import json
import re

import pytest

from ext4audit.cli.rules import page_of
from ext4audit.facts.features_and_bugs import all_ranges
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from support.program import run, run_python

HEADINGS = ["What it checks", "Why it matters", "Remedy", "When to ignore", "References"]


def test_page_structure() -> None:
    """The head has code and name, summary, worst severity and version; then comes the page."""
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
def test_rule_by_code_or_name_in_any_case(word: str) -> None:
    """All spellings print the same page."""
    assert run("explain", word).stdout == run("explain", "LAY001").stdout


@pytest.mark.parametrize("word", ["prf2", "PRF02", "Prf002"])
def test_code_without_leading_zeros(word: str) -> None:
    """Only the number counts."""
    assert run("explain", word).stdout == run("explain", "PRF002").stdout


def test_page_without_docstrings() -> None:
    """Without docstrings only the head was printed, without an explanation."""
    done = run_python("-OO", "-m", "ext4audit", "explain", "LAY001")
    assert (done.returncode, done.stdout) == (2, "")
    assert "docstrings, which python -OO removes" in done.stderr


@pytest.mark.parametrize("word", ["DUR", "dur"])
def test_family_is_listed(word: str) -> None:
    """Its rules are listed as by `ext4audit rules`."""
    done = run("explain", word)
    listed = run("rules").stdout.splitlines()
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        line.split()[:2] for line in listed if line.startswith("DUR")
    ]


def test_json_and_markdown() -> None:
    """A rule is an object, a family a list; Markdown is what a pipe gets."""
    (rule,) = (each for each in all_rules() if each.code == "LAY001")
    found = json.loads(run("explain", "LAY001", "-f", "json").stdout)
    assert found["page"] == rule.page
    assert (found["code"], found["name"]) == (rule.code, rule.name)
    family = json.loads(run("explain", "LAY", "-f", "json").stdout)
    assert {each["family"] for each in family} == {"LAY"}
    assert run("explain", "LAY001", "-f", "markdown").stdout == page_of(rule)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("LAY00", "did you mean LAY0"),
        ("", ""),
        ("hotspot", "did you mean striped-metadata-hotspot?"),
        ("BARRIER", "did you mean barrier-disabled?"),
        ("xyz", ""),
    ],
)
def test_part_of_a_name_suggests_similar_names(word: str, near: str) -> None:
    """A page is about one rule; similar names are suggested."""
    done = run("explain", word)
    assert done.returncode == 2
    assert f"unknown rule {word!r}" in done.stderr
    assert near in done.stderr
    assert ("did you mean" in done.stderr) is bool(near)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_rule_has_a_complete_page(rule: Rule) -> None:
    """Every page has all headings in order, and lists every reference."""
    text = page_of(rule)
    kernels = ["Known kernels"] if rule.code in all_ranges() else []
    expected = [*HEADINGS[:-1], *kernels, HEADINGS[-1]]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == expected
    assert [f"- {each}" for each in rule.references] == text.partition("## References\n\n")[
        2
    ].splitlines()

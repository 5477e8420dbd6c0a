"""docs/rules/ has the docstring of every rule, and an index that lists all rules."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from ext4audit.facts.features_and_bugs import FEATURES
from ext4audit.facts.options import NOT_EXT4_OPTIONS, all_options, ext4_options
from ext4audit.rule import Rule
from ext4audit.rules import all_rules, default_rules
from support.docs.generated_files import write, written
from support.docs.pages import PAGES, ROOT, name
from support.docs.rule_pages import FAMILIES, INDEX, RULES, rule_pages, when_it_runs

IN_0_1_0 = 8
ELEMENTS = re.compile(r"<(?!/?(?:a|code|em|h\d|li|p|pre|strong|ul|ol|table|t[dhr]|thead|tbody)\b)")
ENGLISH = re.compile(
    r"abort|acl|async|atime|auto|barrier|bh|bind|check|commit|data|dax|debug|defaults|dev|discard"
    r"|encrypt|errors|exec|group|journal|loud|mand|mmp|orlov|owner|private|project|quota|remount"
    r"|reservation|ro|rw|sb|shared|shutdown|silent|slave|stripe|suid|sync|users?|verity"
)
"""Options and features that are also words of a sentence."""
CODE = re.compile(r"`[^`]*`")


def names() -> re.Pattern[str]:
    """Match an option with its value, and an option or a feature that is no English word."""
    valued = {spec.on for spec in all_options() if spec.has_value} | {"rootflags=", "barrier="}
    plain = {*ext4_options(), *NOT_EXT4_OPTIONS, *FEATURES, *(spec.on for spec in all_options())}
    plain = {name for name in plain - valued if not ENGLISH.fullmatch(name)}
    either = f"(?:{'|'.join(valued)})[\\w-]*|{'|'.join(sorted(plain, key=len, reverse=True))}"
    return re.compile(rf"(?<![\w/-])(?:{either})(?![\w=(-])")


def html(text: str) -> str:
    """Return the HTML that GitHub makes of a page."""
    cmark: Any = pytest.importorskip("cmarkgfm")
    unsafe = importlib.import_module("cmarkgfm.cmark").Options.CMARK_OPT_UNSAFE
    return str(cmark.github_flavored_markdown_to_html(text, options=unsafe))


def test_the_pages_are_up_to_date(*, accept: bool) -> None:
    """`pytest --accept` writes the pages; docs/rules/ contains nothing else."""
    if accept:
        write(RULES, rule_pages())
    assert written(RULES) == rule_pages()


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_page_has_the_docstring_of_its_rule(rule: Rule) -> None:
    """It is included word for word, with the summary above and the references below."""
    page = (RULES / f"{rule.code}.md").read_text(encoding="utf-8")
    module = importlib.import_module(rule.module)
    summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2]
    head, docstring, tail = page.partition(inspect.cleandoc(rule.page))
    assert docstring.startswith("## What it checks")
    assert f"# {rule.code} {rule.name}\n\n{summary}\n" in head
    assert all(f"- {reference}\n" in tail for reference in rule.references)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_page_has_the_names_of_options_and_features_in_backquotes(rule: Rule) -> None:
    """`data=journal` is then an option and not two words of the sentence."""
    assert names().findall(CODE.sub("", rule.page)) == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_when_to_ignore_has_whole_sentences(rule: Rule) -> None:
    """The first one has a verb, instead of continuing the heading: "Where no program ..."."""
    section = rule.page.partition("## When to ignore\n")[2].strip()
    assert section.startswith(("Ignore it ", "Ignore it, ", "Do not ignore it"))


@pytest.mark.parametrize("path", [*PAGES, *sorted(RULES.glob("*.md"))], ids=name)
def test_nothing_of_a_page_is_lost_as_markup(path: Path) -> None:
    """A name in angle brackets outside of code would become an invisible HTML element."""
    assert ELEMENTS.findall(html(path.read_text(encoding="utf-8"))) == []


def test_the_index_lists_every_rule_once() -> None:
    """A rule is listed under its family, with severity, name, summary and when it judges."""
    text = (RULES / INDEX).read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))
    for rule in all_rules():
        row = f"| {rule.name} | {rule.severity.value} | {when_it_runs(rule)} | {rule.summary} |"
        assert f"| [{rule.code}]({rule.code}.md) {row}\n" in sections[FAMILIES[rule.family]]
    assert len(re.findall(r"^\| \[", text, re.MULTILINE)) == len(all_rules())


def test_the_changelog_counts_the_rules() -> None:
    """Until a release, whose numbers stay."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    new = text.partition(" (unreleased)\n")[2].partition("\n## ")[0]
    if not new:
        pytest.skip("everything is released")
    every, usual = len(all_rules()), len(default_rules())
    assert f"\n{every} rules instead of {IN_0_1_0}, " in new
    assert f"\n- {every - IN_0_1_0} more rules: " in new
    assert f" Of all {every}, {usual} judge by default, " in new

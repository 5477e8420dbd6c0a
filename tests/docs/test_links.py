"""Links, headings and paths in README.md and docs/ exist, and no changelog topic is repeated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.docs.pages import PAGES, README, ROOT, name

RULES = sorted((ROOT / "docs" / "rules").glob("*.md"))
ALL = (*PAGES, *RULES)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`((?:src|tests|fixtures|docs|share)/[^`\s]*|\.ci/run)`")
CODE = re.compile(r"`([^`\n]+)`")
CALL = re.compile(r"(\w+)\(")
DEFINITION = re.compile(r"^\s*(?:def|class) (\w+)", re.MULTILINE)
LONGEST_README = 200


def prose(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", ALL, ids=name)
def test_links_resolve(page: Path) -> None:
    """Each link within the tree points to an existing file, and to a heading of that file."""
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target} of {name(page)}"
        assert there.is_relative_to(ROOT), f"{target} of {name(page)}"
        assert not anchor or anchor in anchors(there), f"{target} of {name(page)}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_exist(page: Path) -> None:
    """Each path that a page names in code exists; `<…>` stands for any name."""
    paths = PATH.findall(prose(page))
    patterns = {path: re.sub(r"<[^>]*>", "*", path.rstrip("/")) for path in paths}
    assert [path for path, pattern in patterns.items() if not list(ROOT.glob(pattern))] == []


def test_functions_that_the_architecture_names_exist() -> None:
    """A contributor who follows the page calls them as it says."""
    page = prose(ROOT / "docs" / "architecture.md")
    called = {each for code in CODE.findall(page) for each in CALL.findall(code)}
    modules = (path.read_text() for top in ("src", "tests") for path in (ROOT / top).rglob("*.py"))
    defined = {each for text in modules for each in DEFINITION.findall(text)}
    assert called - defined == set()


def test_every_page_can_be_reached_from_the_readme() -> None:
    """The other pages are reachable through links alone."""
    reached: set[Path] = set()
    waiting = [README]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(prose(page)))
        near = {(page.parent / link).resolve() for link in links if link.endswith(".md")}
        waiting += near - reached
    assert {page.resolve() for page in ALL} - reached == set()


def test_the_readme_is_short() -> None:
    """Longer explanations belong in docs/."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= LONGEST_README


def test_the_changelog_has_each_topic_once() -> None:
    """Two edits of one entry that were merged as two lines would repeat it and differ."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    heads = [line[:28] for line in lines if line.startswith("- ")]
    assert [head for head in set(heads) if heads.count(head) > 1] == []

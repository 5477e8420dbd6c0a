"""The examples in README.md and docs/ that are not commands: Python and configuration files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

from ext4audit.facts import toml_reader
from ext4audit.policy import parse_policy
from ext4audit.report import Outcome
from ext4audit.rules import all_rules
from ext4audit.testing import load_rules, problems, unheeded, verdicts
from support.docs.pages import PAGES, ROOT, Block, blocks, name
from support.docs.sandbox import NAMED_FILE, DocsSandbox
from support.hosts.fixture_hosts import HOSTS
from support.program import run_python


def examples(*languages: str) -> list[tuple[str, Block]]:
    """Return the blocks of all pages in some languages, each with the name of its page."""
    return [
        (name(page), block)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"), *languages)
    ]


PYTHON = examples("python")
FILES = [(page, block) for page, block in PYTHON if NAMED_FILE.match(block.text)]


@pytest.mark.parametrize(("page", "block"), [each for each in PYTHON if each not in FILES])
def test_python_runs(page: str, block: Block, tmp_path: Path) -> None:
    """The code runs next to the page's example files and writes nothing to standard error."""
    scene = DocsSandbox(tmp_path)
    scene.write_files((ROOT / page).read_text(encoding="utf-8"))
    done = run_python("-c", block.text, cwd=scene.root)
    assert (done.returncode, done.stderr) == (0, ""), page
    assert done.stdout


@pytest.mark.parametrize(("page", "block"), examples("yaml"))
def test_yaml_can_be_read(page: str, block: Block) -> None:
    """A YAML parser accepts every block."""
    assert list(yaml.safe_load_all(block.text)), page


@pytest.mark.parametrize(("page", "block"), FILES)
def test_a_file_of_python_is_a_rule(page: str, block: Block, tmp_path: Path) -> None:
    """The rule is complete, with all headings, and uses only the public interface."""
    scene = DocsSandbox(tmp_path)
    scene.write_files(block.text.join(("```python\n", "```\n")))
    (path,) = scene.root.glob("x*.py")
    (rule,) = load_rules(path)
    assert problems(rule) == (), page
    imported = [n for n in ast.walk(ast.parse(block.text)) if isinstance(n, ast.ImportFrom)]
    assert {node.module for node in imported} == {"ext4audit"}
    fixtures = [HOSTS / name / "snapshot" for name in ("lvm-linear-nobarrier", "healthy-debian-12")]
    outcomes = {each.outcome for fixture in fixtures for each in verdicts(rule, fixture)}
    assert outcomes == {Outcome.FAIL, Outcome.NOT_APPLICABLE}
    assert not unheeded(rule, fixtures[0])


def test_the_policy_is_one() -> None:
    """All keys, rules and profiles of the example policy exist."""
    texts = [block.text for _page, block in examples("toml")]
    (policy,) = [text for text in texts if text.startswith("# ext4audit.toml\n")]
    parsed = parse_policy(toml_reader().loads(policy), all_rules(), lambda _word, _known: "")
    assert parsed.suppressions
    assert parsed.fail_on == "high"


def test_every_file_is_named() -> None:
    """The first line of a file is a comment with its name, so that a test can write and use it."""
    for page, block in examples("toml"):
        assert block.text.startswith("# "), f"{page}: {block.text}"

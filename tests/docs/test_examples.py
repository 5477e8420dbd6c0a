"""The examples in README.md and docs/ that are no commands: Python, and files of configuration."""

from __future__ import annotations

import pytest
import yaml

from ext4audit.facts import toml_reader
from ext4audit.policy import parse_policy
from ext4audit.rules import all_rules
from support.docs.pages import PAGES, ROOT, Block, blocks, name
from support.program import run_python


def examples(*languages: str) -> list[tuple[str, Block]]:
    """Return the blocks of all pages in some languages, each with the name of its page."""
    return [
        (name(page), block)
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"), *languages)
    ]


@pytest.mark.parametrize(("page", "block"), examples("python"))
def test_python_runs(page: str, block: Block) -> None:
    """From the top of the tree, without a word on standard error."""
    done = run_python("-c", block.text, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, ""), page
    assert done.stdout


@pytest.mark.parametrize(("page", "block"), examples("yaml"))
def test_yaml_can_be_read(page: str, block: Block) -> None:
    """By any reader of YAML."""
    assert list(yaml.safe_load_all(block.text)), page


def test_the_policy_is_one() -> None:
    """All its keys, rules and profiles exist."""
    texts = [block.text for _page, block in examples("toml")]
    (policy,) = [text for text in texts if text.startswith("# ext4audit.toml\n")]
    parsed = parse_policy(toml_reader().loads(policy), all_rules(), lambda _word, _known: "")
    assert parsed.suppressions
    assert parsed.fail_on == "high"


def test_every_file_is_named() -> None:
    """Its first line is a comment with the name, so that a test can write and use it."""
    for page, block in examples("toml"):
        assert block.text.startswith("# "), f"{page}: {block.text}"

"""The two commands of the README are those that CI runs."""

from __future__ import annotations

import re

from support.docs.pages import README, ROOT, SHELL, blocks, exchanges

AUDIT = "uv run ext4audit scan"
TESTS = "uv run pytest"


def test_the_two_commands_are_those_of_ci() -> None:
    """Each command has a block to itself, after the installation of uv."""
    text = README.read_text(encoding="utf-8")
    commands = [part.command for block in blocks(text, SHELL) for part in exchanges(block)]
    run_by_ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for command in (AUDIT, TESTS):
        assert command in commands
        assert any(
            re.fullmatch(rf".*pip install -q uv && python3 -m {command}", c) for c in commands
        )
        assert re.search(rf"^{command}\b", run_by_ci, re.MULTILINE)


def test_the_readme_has_ten_commands() -> None:
    """They are the commands in common use, each with an explanation."""
    section = README.read_text(encoding="utf-8").partition("\n## Ten commands\n")[2]
    first = next(iter(blocks(section, SHELL)))
    assert all("  # " in part.command for part in exchanges(first))
    assert len(exchanges(first)) == 10

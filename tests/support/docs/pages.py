"""The handwritten pages, README.md and docs/*.md, parsed into blocks, commands and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
"""The handwritten pages. Those in docs/rules/ are generated completely."""

SHELL = "sh"
"""The language of a block of commands."""
TRANSCRIPT = "console"
"""The language of a block of commands after prompts, with their outputs."""
PROMPT = "$ "
_FENCED_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the span of the text in the page."""

    language: str
    text: str
    start: int
    end: int


class Exchange(NamedTuple):
    """A command and the output that the page shows, None if it shows no output."""

    command: str
    output: str | None


def name(page: Path) -> str:
    """Return the path of a page relative to the repository."""
    return str(page.relative_to(ROOT))


def blocks(text: str, *languages: str) -> list[Block]:
    """Return the fenced blocks of a page in the given languages."""
    found = [
        Block(match[1], match[2], match.start(2), match.end(2))
        for match in _FENCED_BLOCK.finditer(text)
    ]
    return [block for block in found if block.language in languages]


def exchanges(block: Block) -> list[Exchange]:
    """Return the commands of a block; a backslash at the end of a line continues the command."""
    if block.language == TRANSCRIPT:
        parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert parts[0] == "", f"a transcript begins with a prompt: {block.text!r}"
        return [_exchange(part) for part in parts[1:]]
    lines = re.findall(r"(?:[^\n]*\\\n)*[^\n]+\n", block.text)
    return [Exchange(line.strip(), None) for line in lines if not line.startswith("#")]


def _exchange(part: str) -> Exchange:
    found = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
    assert found is not None
    return Exchange(found[0].rstrip("\n"), part[found.end() :])


def transcript(parts: Sequence[Exchange]) -> str:
    """Return the text of a transcript block."""
    return "".join(f"{PROMPT}{part.command}\n{part.output}" for part in parts)


def with_outputs(text: str, output_of: Callable[[str], str]) -> str:
    """Return the page with the current outputs of the commands in its transcripts."""
    for block in reversed(blocks(text, TRANSCRIPT)):
        parts = [Exchange(part.command, output_of(part.command)) for part in exchanges(block)]
        text = text[: block.start] + transcript(parts) + text[block.end :]
    return text

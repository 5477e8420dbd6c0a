from __future__ import annotations

import time
from pathlib import Path

import pytest

from ext4audit.facts import parse_toml
from support.program import run

HOSTILE = {
    "nested lists": "a=" + "[" * 100_000,
    "nested tables": "a=" + "{a=" * 100_000,
    "a key of many parts": ".".join("a" * 50_000) + "=1",
    "a header of many parts": f"[{'.'.join('a' * 50_000)}]",
    "a key within a value": "a={" + ".".join("a" * 50_000) + "=1}",
    "many keys of many parts": f"{'.'.join('a' * 900)}=1\n" * 500,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_would_take_long_is_refused_at_once(text: str) -> None:
    """A key of 50,000 parts can take 50 s, and deep nesting can cause an internal error."""
    start = time.process_time()
    with pytest.raises(ValueError, match=r"nested too deep|more than 64 dots"):
        parse_toml(text)
    assert time.process_time() - start < 1


def test_what_people_write_is_read() -> None:
    """Dots in a comment and in ordinary values do not matter."""
    text = "#" + "." * 100 + "\n[a.b]\nreason = 'see 1.2.3 ... and e.g. v1.47.0'\n"
    assert parse_toml(text) == {"a": {"b": {"reason": "see 1.2.3 ... and e.g. v1.47.0"}}}


@pytest.mark.parametrize("words", [("scan", "--config"), ("plan",)])
@pytest.mark.parametrize("name", ["nested lists", "a key of many parts"])
def test_each_file_of_a_user_is_refused_as_a_mistake(
    words: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    """The exit status is 2, and one line names the file."""
    file = tmp_path / "x.toml"
    file.write_text(HOSTILE[name])
    done = run(*words, str(file))
    assert done.returncode == 2
    assert done.stderr.startswith(f"ext4audit: {file}: ")

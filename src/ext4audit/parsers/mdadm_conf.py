"""The arrays that mdadm.conf(5) names."""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORD = "array"
_SHORTEST = 3
_STANDARD_FOLDER = "/dev/md/"


def parse_md_arrays(text: str) -> tuple[str, ...]:
    """Return the device of each ARRAY line, as a path; lines that name none are left out.

    Keywords are matched whatever their case, and may be cut to three letters. A line that begins
    with a blank continues the one before. "home" is /dev/md/home; `<ignore>` is no device.
    """
    found = (_device(words) for words in _lines(text) if _is_array(words[0]))
    return tuple(device for device in found if device)


def _lines(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for line in text.split("\n"):
        own = _words(line)
        if not own:
            continue
        if words and line[0].isspace():
            words += own
            continue
        if words:
            yield words
        words = own
    if words:
        yield words


def _words(line: str) -> list[str]:
    """Return the words before a comment, which a word begins that begins with a hash sign."""
    words: list[str] = []
    for word in line.split():
        if word.startswith("#"):
            break
        words.append(word.replace('"', "").replace("'", ""))
    return words


def _is_array(word: str) -> bool:
    return len(word) >= _SHORTEST and _KEYWORD.startswith(word.lower())


def _device(words: list[str]) -> str | None:
    name = words[1] if len(words) > 1 else ""
    if not name or "=" in name or name.startswith("<"):
        return None
    return name if name.startswith("/") else _STANDARD_FOLDER + name

"""Words that another rule warns of: no remedy of drift puts them in force or writes them down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ext4audit.facts.host import Filesystem, Host
from ext4audit.rules._demands import canonical, demanded

WARNED_OF: Mapping[str, str] = MappingProxyType(
    {
        "nobarrier": "DUR001",
        "data=writeback": "DUR003",
        "journal_async_commit": "DUR004",
        "errors=continue": "DUR006",
        "noauto_da_alloc": "DUR008",
        "norecovery": "DUR009",
        "nodelalloc": "PRF003",
        "discard": "PRF004",
        "data=journal": "PRF007",
        "strictatime": "PRF008",
        "sync": "PRF012",
        "dirsync": "PRF012",
    }
)
"""The rule that warns of a word, also where it is off by default."""
LONGEST_COMMIT_SECONDS = 30
"""What DUR007 lets pass."""
OWNERS = ("resuid=", "resgid=")


def condemned(words: Iterable[str], fs: Filesystem, host: Host) -> Mapping[str, str]:
    """Return the words that a rule warns of, with its code; not what a profile demands."""
    wanted = demanded(fs, host)
    return {
        word: code
        for word in map(canonical, words)
        if word not in wanted and (code := WARNED_OF.get(word) or _by_value(word))
    }


def warning(words: Mapping[str, str]) -> str:
    """Return the sentence that names the rules, empty where there is none."""
    said = ", ".join(f"{code} warns of {word}" for word, code in words.items())
    return f"{said}: follow that rule first." if said else ""


def _by_value(word: str) -> str | None:
    """Return the rule that warns of an option's value."""
    return next(_codes(word), None)


def _codes(word: str) -> Iterator[str]:
    name, _, value = word.partition("=")
    if name == "commit" and value.isdecimal() and int(value) > LONGEST_COMMIT_SECONDS:
        yield "DUR007"
    if word.startswith(OWNERS) and value != "0":
        yield "SEC003"

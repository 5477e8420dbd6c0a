"""Words that another rule warns of: no remedy of drift puts them in force or writes them down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.options import Setter
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
NODELALLOC = "nodelalloc"
HARMLESS_WHEN_SHOWN = frozenset({"noblock_validity", "nodioread_nolock"})
OWNERS = ("resuid=", "resgid=")


def condemned(words: Iterable[str], fs: Filesystem, host: Host) -> Mapping[str, str]:
    """Return the words that a rule warns of, with its code; not what a profile demands."""
    wanted = demanded(fs, host)
    said = {**WARNED_OF, **_hidden(fs), **_on_this_kernel(fs, host)}
    return {
        word: code
        for word in map(canonical, words)
        if word not in wanted and (code := said.get(word) or _by_value(word))
    }


def _hidden(fs: Filesystem) -> Mapping[str, str]:
    """Return what DUR002 warns of only because the superblock hides it."""
    hidden = fs.options.value.hidden if isinstance(fs.options, Known) else ()
    tokens = HARMLESS_WHEN_SHOWN.intersection(option.token for option in hidden)
    return dict.fromkeys(tokens, "DUR002")


def _on_this_kernel(fs: Filesystem, host: Host) -> Mapping[str, str]:
    """Return what PRF001 warns of beside nodelalloc, which is in force or is to be."""
    option = fs.options.value.find("delalloc") if isinstance(fs.options, Known) else None
    # What data=journal implies goes with it.
    by_journal = option is not None and option.set_by is Setter.IMPLIED
    off = option is not None and option.token == NODELALLOC and not by_journal
    if not off and NODELALLOC not in demanded(fs, host):
        return {}
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    return {"dioread_nolock": "PRF001"} if affected else {}


def warning(words: Mapping[str, str]) -> str:
    """Return the words that name the rules, empty where there is none."""
    return ", ".join(f"{code} warns of {word}" for word, code in words.items())


def _by_value(word: str) -> str | None:
    """Return the rule that warns of an option's value."""
    return next(_codes(word), None)


def _codes(word: str) -> Iterator[str]:
    name, _, value = word.partition("=")
    if name == "commit" and value.isdecimal() and int(value) > LONGEST_COMMIT_SECONDS:
        yield "DUR007"
    if word.startswith(OWNERS) and value != "0":
        yield "SEC003"

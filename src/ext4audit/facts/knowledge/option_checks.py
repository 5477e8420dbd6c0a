"""What an entry on a mount option must have: its grammar, and how kernels spell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ext4audit.facts.knowledge.values import (
    NAME,
    NUMBERS,
    Near,
    Place,
    Sources,
    Wrong,
    check_choice,
    check_keys,
    check_kind,
    check_source,
    numbers_of,
    text_of,
    texts_of,
)
from ext4audit.facts.options import NOT_VERIFIED

BOUNDS_OF_OPTIONS = (
    *("taken_from", "taken_to", "refused_from", "refused_to", "ignored_from", "ignored_to"),
)
FLAGS_OF_OPTIONS = ("power_of_two", "not_ext2", "not_ext3")
KINDS = ("none", "int", "optional-int", "text", "any")


def check_grammar(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse an entry of option_grammar that says nothing which a mount can be judged by."""
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not the name of a mount option")
    keys = ("value", "most", "needs_journal", *BOUNDS_OF_OPTIONS, *FLAGS_OF_OPTIONS)
    known = (*keys, "source", "confirmed")
    check_keys(place, entry, known, near)
    if isinstance(entry.get("value"), list):
        if not all(isinstance(each, str) for each in entry["value"]):
            raise Wrong((name, "value"), "it is not a list of texts")
    else:
        check_choice(place, entry, "value", KINDS, near)
    check_kind(place, entry, "most", int, "a number")
    if not isinstance(entry.get("needs_journal"), list):
        check_kind(place, entry, "needs_journal", bool, "true, false, or a list of values")
    else:
        texts_of(place, entry, "needs_journal")
    for key in FLAGS_OF_OPTIONS:
        check_kind(place, entry, key, bool, "true or false")
    for key in BOUNDS_OF_OPTIONS:
        if key in entry and NUMBERS.fullmatch(text_of(place, entry, key)) is None:
            raise Wrong((name, key), "it is not a version like 5.15")
    check_source(place, entry, sources, note=True)


SPELLING_KEYS = ("on", "off", "aliases", "defaults", "superblock_bits", "source", "confirmed")
TOKEN = re.compile(r"[a-z0-9_]+(?:=[a-z0-9_]*)?")
"""How the options file spells a state of an option: "nobarrier", "data=ordered", "commit="."""


def check_spelling(name: str, entry: Mapping[str, Any], sources: Sources, near: Near) -> None:
    """Refuse an entry of option_spellings that the module of facts could not take."""
    place: Place = (name,)
    if NAME.fullmatch(name) is None:
        raise Wrong(place, "it is not the name of a mount option")
    check_keys(place, entry, SPELLING_KEYS, near)
    for key in ("on", "off"):
        if key in entry and TOKEN.fullmatch(text_of(place, entry, key)) is None:
            raise Wrong((name, key), "it is not a token of the options file, such as nobarrier")
    for key in ("aliases", "superblock_bits"):
        tokens_of((name, key), entry.get(key, {}), ())
    _check_defaults((name, "defaults"), entry.get("defaults", {}))
    check_source(place, entry, sources, note=True)


def _check_defaults(place: Place, defaults: object) -> None:
    """Refuse what does not map ascending versions to tokens; one may be empty or not verified."""
    kernels = list(tokens_of(place, defaults, ("", NOT_VERIFIED)))
    for version in kernels:
        if NUMBERS.fullmatch(version) is None:
            raise Wrong((*place, version), "it is not a version like 5.15")
    versions = list(map(numbers_of, kernels))
    if versions != sorted(versions):
        raise Wrong(place, "its versions do not ascend")


def tokens_of(place: Place, words: object, marks: tuple[str, ...]) -> dict[str, str]:
    """Return a table of tokens of the options file; a mark may stand in place of one."""
    if not isinstance(words, dict):
        raise Wrong(place, "it is not a table of tokens")
    for word, token in words.items():
        if token not in marks and (not isinstance(token, str) or TOKEN.fullmatch(token) is None):
            raise Wrong((*place, word), "it is not a token of the options file")
    return words

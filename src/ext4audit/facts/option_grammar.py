"""Which words of a mount ext4 takes, ignores or refuses, by kernel version.

The words are data, in option_grammar.toml, which is parsed when somebody asks for the first time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from ext4audit.facts.toml_table import read_table

TABLE = "option_grammar.toml"
NUMBER = re.compile(r"\+?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
"""What the kernel reads as a number: decimal, octal or hexadecimal (kstrtouint with base 0)."""
LARGEST = 2**32 - 1
"""The highest number that any option takes, on kernels that read it unsigned."""
LARGEST_SIGNED = 2**31 - 1
READ_SIGNED_TO, READ_UNSIGNED_FROM = (5, 10), (6, 1)
"""What was tried: 5.10 refuses a higher number, 6.1 takes it; in between is not known."""
TOO_LARGE = f"it takes at most {LARGEST_SIGNED}"
Upstream = tuple[int, ...]


class Handling(Enum):
    """What a mount does with a word. NOT_KNOWN: no kernel near this version was looked at."""

    TAKEN = "taken"
    IGNORED = "ignored"
    REFUSED = "refused"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class OptionHandling:
    """The fate of a word, and why: a clause about the word."""

    handling: Handling
    why: str = ""


TAKEN = OptionHandling(Handling.TAKEN)


def ext4_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the words that ext4 takes or once took, by what stands before "="."""
    return read_table(TABLE)


def handling_of(word: str, upstream: Upstream) -> OptionHandling:
    """Return what the ext4 of a kernel, by its upstream number, does with one word of a mount."""
    key, equals, value = word.partition("=")
    said = ext4_options().get(key)
    if said is None:
        return OptionHandling(Handling.REFUSED, "no ext4 of kernel.org has it")
    wrong = _wrong(said, value if equals else None)
    if wrong:
        return OptionHandling(Handling.REFUSED, wrong)
    if word == "stripe=0":
        return OptionHandling(Handling.IGNORED, "the stripe of the superblock stays in force")
    if upstream < READ_UNSIGNED_FROM and NUMBER.fullmatch(value) and _is_unsigned(value):
        known = upstream[:2] <= READ_SIGNED_TO
        return (
            OptionHandling(Handling.REFUSED, TOO_LARGE)
            if known
            else OptionHandling(Handling.NOT_KNOWN)
        )
    return _by_version(said, upstream)


def _is_unsigned(value: str) -> bool:
    """Whether a number needs all 32 bits."""
    return _number(value) > LARGEST_SIGNED


def is_refused_for(word: str, fstype: str) -> bool:
    """Whether ext4 refuses a word on a filesystem that is mounted as ext2 or ext3."""
    said = ext4_options().get(word.partition("=")[0], {})
    return bool(said.get(f"not_{fstype}", False))


def needs_journal(word: str) -> bool:
    """Whether ext4 refuses a word on a filesystem without a journal."""
    return bool(ext4_options().get(word.partition("=")[0], {}).get("needs_journal", False))


def _wrong(said: Mapping[str, Any], value: str | None) -> str:
    """Return what is wrong with the value behind a word, None for no "="; empty if nothing."""
    kind = said.get("value", "none")
    if isinstance(kind, list):
        return "" if (value or "") in kind else f"it takes {', '.join(filter(None, kind))}"
    if kind == "none":
        return "" if value is None else "it takes no value"
    if kind == "text":
        return "it needs a value" if value is None else ""
    return "" if kind == "any" else _wrong_number(said, value)


def _wrong_number(said: Mapping[str, Any], value: str | None) -> str:
    if value is None:
        return "" if said["value"] == "optional-int" else "it needs a number"
    if not NUMBER.fullmatch(value):
        return "it takes a number"
    number = _number(value)
    most = said.get("most", LARGEST)
    if number > most:
        return f"it takes at most {most}"
    if said.get("power_of_two") and number & (number - 1):
        return "it takes powers of two"
    return ""


def _number(text: str) -> int:
    digits = text.lstrip("+").lower()
    if digits.startswith("0x"):
        return int(digits, 16)
    return int(digits, 8 if digits.startswith("0") else 10)


def _by_version(said: Mapping[str, Any], upstream: Upstream) -> OptionHandling:
    at = {name: _version(bound) for name, bound in said.items() if name.endswith(("_from", "_to"))}
    for fate, start, end in (
        (Handling.REFUSED, "refused_from", "taken_to"),
        (Handling.IGNORED, "ignored_from", "ignored_to"),
    ):
        if start in at and upstream >= at[start]:
            return OptionHandling(fate, f"{fate.value} since {said[start]}")
        if start in at and end in at and upstream[:2] > at[end]:
            return OptionHandling(Handling.NOT_KNOWN)
    if "taken_from" not in at or upstream >= at["taken_from"]:
        return TAKEN
    if "refused_to" in at and upstream[:2] <= at["refused_to"]:
        return OptionHandling(Handling.REFUSED, f"taken since {said['taken_from']}")
    return OptionHandling(Handling.NOT_KNOWN)


@cache
def _version(text: str) -> Upstream:
    return tuple(map(int, text.split(".")))

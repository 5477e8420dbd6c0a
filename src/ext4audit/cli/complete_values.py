"""The values of options and arguments that a shell completes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import click

SAFE = re.compile(r"[A-Za-z0-9_.,=+/-]*")
"""What needs no quotes in any shell: what was typed is put back as it is, with more behind it."""
FILES_OF = frozenset(
    "[TARGET]... [FILE.toml] DEVICE|IMAGE|MOUNTPOINT FILE NEW.json OLD.json PATH REPORT "
    "SOURCE".split()
)
"""The metavars of what the shell completes better: names of files."""
NOTHING_OF = frozenset("ID:VERSION KIND N RELEASE SECONDS SIZE VERSION WORDS".split())
"""The metavars of what only the user knows."""


class Fit(NamedTuple):
    """A word that fits, or where `kind` is "files" what stands before the name of any file."""

    text: str
    says: str = ""
    kind: str = "word"

    def behind(self, prefix: str) -> Fit:
        """Return the same, as a part of a word that begins with the prefix."""
        return self._replace(text=prefix + self.text)


FILES = Fit("", kind="files")


def starting(typed: str, words: Mapping[str, str]) -> list[Fit]:
    """Return the words that begin so, in any case, with the first sentence of what they say."""
    start = typed.lower()
    return [
        Fit(word, _first_sentence(says))
        for word, says in words.items()
        if word.lower().startswith(start)
    ]


def values(parameter: click.Parameter, typed: str) -> list[Fit]:
    """Return the values of an option or argument that begin so."""
    if parameter.metavar in FILES_OF:
        return [FILES]
    if SAFE.fullmatch(typed) is None:
        return []
    if isinstance(parameter.type, click.Choice):
        return starting(typed, dict.fromkeys(parameter.type.choices, ""))
    find = _FOUND.get(parameter.metavar or "")
    return find(typed) if find else []


def _rules(typed: str) -> list[Fit]:
    """Return codes and names of rules; until a letter is typed only codes, of which each says it.

    Every rule twice is more than a screen.
    """
    from ext4audit.rules import all_rules  # noqa: PLC0415 - 60 ms that no other word needs

    rules = all_rules()
    by_code = {rule.code: f"{rule.name}: {rule.summary}" for rule in rules}
    by_name = {rule.name: f"{rule.code}: {rule.summary}" for rule in rules}
    return starting(typed, {**by_code, **by_name} if typed else by_code)


def _rule_list(typed: str) -> list[Fit]:
    return _last_of_list(typed, _rules)


def _profile_list(typed: str) -> list[Fit]:
    return _last_of_list(typed, _profiles)


def _profiles(typed: str) -> list[Fit]:
    """Return names of profiles, and the files of a mount point behind one."""
    from ext4audit.facts.profile import all_profiles  # noqa: PLC0415 - for this word only

    known = all_profiles()
    name, equals, _ = typed.partition("=")
    if equals:
        return [FILES.behind(f"{name}=")] if name in known else []
    return starting(typed, {each: profile.product for each, profile in known.items()})


def _last_of_list(typed: str, find: Callable[[str], list[Fit]]) -> list[Fit]:
    """Return what fits behind the last comma, without what stands before it."""
    before, comma, last = typed.rpartition(",")
    there = before.lower().split(",")
    fitting = [fit for fit in find(last) if fit.text.lower() not in there]
    return [fit.behind(before + comma) for fit in fitting]


_FOUND: Mapping[str, Callable[[str], list[Fit]]] = {
    "RULES": _rule_list,
    "CODE|NAME": _rules,
    "NAME[=MOUNT]": _profile_list,
}


def _first_sentence(says: str) -> str:
    """Return it on one line, without its full stop: a shell shows a line."""
    return " ".join(says.split()).partition(".  [")[0].partition(". ")[0].removesuffix(".")

"""Which rules judge: those that words select, or those that are on when nobody chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ext4audit.rule import Rule


class UnknownRule(ValueError):  # noqa: N818 - named after what the user typed
    """A selection names no rule; carries the word as typed."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class NothingSelected(ValueError):  # noqa: N818 - what the user asked for
    """A selection leaves no rule: an audit by no rules would call anything clean."""


def matches(rule: Rule, word: str) -> bool:
    """Whether a word selects a rule: its code, a prefix of its code, its family, or its name."""
    upper = word.upper()
    return rule.code.startswith(upper) or rule.name == word.lower()


def select(
    rules: Sequence[Rule],
    wanted: Iterable[str] = (),
    ignored: Iterable[str] = (),
    *,
    usual: Callable[[Rule], bool] = lambda rule: rule.default,
) -> tuple[Rule, ...]:
    """Return the rules that `wanted` names without the `ignored`.

    Where it names none they are the `usual` ones: those that are on by default.

    Raises UnknownRule for a word that names no rule at all: a typing error must not silently
    audit less. Raises NothingSelected when no rule is left.
    """
    wanted, ignored = tuple(wanted), tuple(ignored)
    for word in (*wanted, *ignored):
        if not word or not any(matches(rule, word) for rule in rules):
            raise UnknownRule(word)
    chosen = [r for r in rules if _names(wanted, r) or (not wanted and usual(r))]
    left = tuple(r for r in chosen if not _names(ignored, r))
    if not left:
        raise NothingSelected
    return left


def _names(words: Iterable[str], rule: Rule) -> bool:
    return any(matches(rule, word) for word in words)

"""The selection of rules by code, prefix, family or name, and the default selection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ext4audit.rule import Rule


class UnknownRule(ValueError):  # noqa: N818 - named after what the user typed
    """A selector matches no rule; `word` is the selector as typed."""

    def __init__(self, word: str) -> None:
        super().__init__(word)
        self.word = word


class NothingSelected(ValueError):  # noqa: N818 - what the user asked for
    """A selection leaves no rule: an audit without rules would report any host as clean."""


def matches(rule: Rule, word: str) -> bool:
    """Whether a selector matches a rule: its code, a prefix of its code, its family or its name."""
    upper = word.upper()
    return rule.code.startswith(upper) or rule.name == word.lower()


def select(
    rules: Sequence[Rule],
    wanted: Iterable[str] = (),
    ignored: Iterable[str] = (),
    *,
    usual: Callable[[Rule], bool] = lambda rule: rule.default,
) -> tuple[Rule, ...]:
    """Return the rules that `wanted` selects without the `ignored` ones.

    Without `wanted` these are the `usual` rules: those that are on by default.

    Raises UnknownRule for a selector that matches no rule: a typing error must not silently
    reduce the audit. Raises NothingSelected when no rule is left.
    """
    wanted, ignored = tuple(wanted), tuple(ignored)
    for word in (*wanted, *ignored):
        if not word or not any(matches(rule, word) for rule in rules):
            raise UnknownRule(word)
    chosen = [r for r in rules if _matches_any(wanted, r) or (not wanted and usual(r))]
    left = tuple(r for r in chosen if not _matches_any(ignored, r))
    if not left:
        raise NothingSelected
    return left


def _matches_any(selectors: Iterable[str], rule: Rule) -> bool:
    return any(matches(rule, selector) for selector in selectors)

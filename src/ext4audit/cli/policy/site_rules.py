"""Site rules that a policy file names: files relative to it, and installed packages."""

from collections.abc import Sequence
from functools import partial
from os.path import dirname, join

import click

from ext4audit.cli import did_you_mean
from ext4audit.cli.output import refused
from ext4audit.cli.policy.trusted import read_text
from ext4audit.policy.site_rules import (
    NoSuchPackage,
    SiteRuleError,
    broken,
    package_names,
    refuse_collisions,
    rules_of_package,
    rules_of_text,
)
from ext4audit.rule import Rule
from ext4audit.rules import all_rules
from ext4audit.sources.timeouts import answered_for

LARGEST_BYTES = 1 << 20
OWN_IT = "a file of rules must belong to root or to you, in such a directory"
_LOADED: dict[tuple[tuple[str, ...], str], tuple[Rule, ...]] = {}
"""The rules that this process has loaded, by their sources and the policy path."""


def load(sources: Sequence[str], policy: str) -> tuple[Rule, ...]:
    """Return the rules of all sources; raises UsageError for a missing or untrusted source.

    For a source that cannot be loaded, returns placeholder rules that raise the error.
    """
    found: list[Rule] = []
    for number, source in enumerate(dict.fromkeys(sources), start=1):
        found += _load_source(source, policy, number, (*all_rules(), *found))
    _LOADED[tuple(sources), policy] = tuple(found)
    return tuple(found)


def loaded(sources: tuple[str, ...], policy: str) -> tuple[Rule, ...]:
    """Return the rules of `load`, which runs only once per process, for example in a worker."""
    known = _LOADED.get((sources, policy))
    return load(sources, policy) if known is None else known


def _load_source(source: str, policy: str, number: int, taken: Sequence[Rule]) -> tuple[Rule, ...]:
    is_file = source.endswith(".py") or "/" in source
    path = join(dirname(policy), source)  # noqa: PTH118, PTH120 - pathlib drops "./"
    text = _text(path) if is_file else ""
    try:
        rules = rules_of_text(text, path) if is_file else rules_of_package(source)
        refuse_collisions(rules, source, taken)
    except NoSuchPackage:
        near = did_you_mean(source, package_names())
        raise click.UsageError(
            f"rules: no installed package {source!r} has rules{near}; a file ends in .py"
        ) from None
    except SiteRuleError as error:
        return broken(error, source, text, number, {rule.code for rule in taken})
    return rules


def _text(path: str) -> str:
    """Return the text of a rule file; raises UsageError."""
    read = partial(read_text, path, LARGEST_BYTES, trusted=False, advice=OWN_IT)
    with refused(f"rules: {path}"):
        return answered_for(path, read)

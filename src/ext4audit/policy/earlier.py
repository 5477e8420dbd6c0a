"""What an earlier report says, and how its findings are recognized in a later one."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ext4audit.finding import Severity
from ext4audit.records import dataclass

Key: TypeAlias = tuple[str, str, str | None]
"""Rule, superblock (UUID where it has one; "" for the host), and the fact that failed.

Reports of JSON 1.0 tell no facts: None there is any fact of the rule on the superblock.
"""


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of an earlier report; `subject` is what its filesystem was called there."""

    rule: str
    superblock: str
    fact: str | None
    severity: Severity
    subject: str
    message: str
    suppressed: bool = False

    @property
    def key(self) -> Key:
        """What stays the same when devices are renamed and numbers change."""
        return self.rule, self.superblock, self.fact

    @property
    def pair(self) -> tuple[str, str]:
        """The rule and the superblock: of what verdict it is."""
        return self.rule, self.superblock


class Earlier:
    """The findings of an earlier report, ready to be looked up."""

    def __init__(self, findings: Sequence[KnownFinding]) -> None:
        self._findings = findings
        self._all = _worst(findings)
        self._open = _worst([each for each in findings if not each.suppressed])

    def has(self, key: Key, severity: Severity, *, accepted: bool) -> bool:
        """Whether it has a finding, and not a milder one.

        What a suppression accepted is known only while one accepts it (`accepted`): a baseline
        must not outlive the day on which a suppression ends.
        """
        known = self._all if accepted else self._open
        found = known.get(key) or known.get((*key[:2], None))
        return found is not None and found.at_least(severity)

    def without(self, still: Iterable[Key]) -> Iterator[KnownFinding]:
        """Yield the findings that a later report, which has `still`, does not have."""
        keys = frozenset(still)
        pairs = frozenset(key[:2] for key in keys)
        for each in self._findings:
            if not (each.pair in pairs if each.fact is None else each.key in keys):
                yield each


def _worst(findings: Sequence[KnownFinding]) -> dict[Key, Severity]:
    """Return the worst severity of each key: copies of one filesystem share theirs."""
    mildest_first = sorted(findings, key=lambda each: -each.severity.rank)
    return {each.key: each.severity for each in mildest_first}


def superblock_key(filesystem_id: str | None) -> str:
    """Return what a superblock is known by: its UUID, without the device that tells clones apart.

    A snapshot that is attached for an hour would otherwise make every finding of its origin new.
    Without a UUID nothing but the device number is left.
    """
    return "" if filesystem_id is None else word_of(filesystem_id).partition("@")[0]


def word_of(value: object) -> str:
    """Return a text of a report; raises TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def name_of(members: Mapping[str, Any], key: str) -> str:
    """Return a text of an object, of its original bytes where they are not UTF-8.

    Raises KeyError, TypeError or ValueError.
    """
    original = members.get(f"{key}_b64")
    if original is None:
        return word_of(members[key])
    return a2b_base64(word_of(original)).decode("utf-8", "surrogateescape")

"""Two reports of one host: which findings are new, which are fixed, which remain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ext4audit.policy.baseline import CHECKED, Key, KnownFinding, known_findings, superblock_key
from ext4audit.records import dataclass
from ext4audit.report import Outcome


@dataclass(frozen=True, slots=True)
class Difference:
    """The findings of two reports; what has become worse is new.

    `unchecked` are findings of the older one that the newer one could not look for again: the
    rule was not selected, or its evidence is missing.
    """

    new: tuple[KnownFinding, ...]
    fixed: tuple[KnownFinding, ...]
    unchanged: tuple[KnownFinding, ...]
    unchecked: tuple[KnownFinding, ...]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    """Compare two reports in JSON, version 1.

    Raises KeyError, TypeError, ValueError or AttributeError for a document that is none.
    """
    before, after = known_findings(old), known_findings(new)
    old_by_key, still = _by_key(before), _by_key(after)
    checked = _checked(new)
    gone = [finding for finding in before if finding.key not in still]
    same = [finding for finding in after if _is_known(finding, old_by_key)]
    return Difference(
        new=tuple(finding for finding in after if not _is_known(finding, old_by_key)),
        fixed=tuple(each for each in gone if (each.rule, each.superblock) in checked),
        unchanged=tuple(same),
        unchecked=tuple(each for each in gone if (each.rule, each.superblock) not in checked),
    )


def _by_key(findings: Sequence[KnownFinding]) -> dict[Key, KnownFinding]:
    return {finding.key: finding for finding in findings}


def _is_known(finding: KnownFinding, before: Mapping[Key, KnownFinding]) -> bool:
    known = before.get(finding.key)
    return known is not None and known.severity.at_least(finding.severity)


def _checked(document: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the rules and superblocks that a report has judged with all that they needed."""
    outcomes = {outcome.value: outcome for outcome in Outcome}
    return frozenset(
        (verdict["rule"], superblock_key(verdict["filesystem"]))
        for verdict in document["verdicts"]
        if outcomes[verdict["outcome"]] in CHECKED and not verdict["unknowns"]
    )

"""Two reports of one host: which findings are new, which are fixed, which remain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ext4audit.policy.baseline import Pair, checked, known_findings, subject_of
from ext4audit.policy.earlier import Earlier, KnownFinding, superblock_key, word_of
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
    earlier = Earlier(before)
    same = [each for each in after if _is_known(each, earlier)]
    gone = list(earlier.without(each.key for each in after))
    seen = _checked(new)
    return Difference(
        new=tuple(each for each in after if not _is_known(each, earlier)),
        fixed=tuple(each for each in gone if each.pair in seen),
        unchanged=tuple(same),
        unchecked=tuple(each for each in gone if each.pair not in seen),
    )


def _is_known(finding: KnownFinding, earlier: Earlier) -> bool:
    return earlier.has(finding.key, finding.severity, accepted=finding.suppressed)


def _checked(document: Mapping[str, Any]) -> frozenset[Pair]:
    """Return the rules and superblocks that a report has judged with all that they needed."""
    return checked(
        (
            (word_of(verdict["rule"]), superblock_key(subject_of(verdict))),
            Outcome(verdict["outcome"]),
            bool(verdict["unknowns"]),
        )
        for verdict in document["verdicts"]
    )

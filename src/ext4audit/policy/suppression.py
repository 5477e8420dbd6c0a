"""Suppressions: which findings a policy file accepts, until when, and which of them are stale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Suppression
from ext4audit.report import Outcome, Report, Verdict

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class SuppressionRule:
    """One [[suppress]] of a policy file: a rule's code, a glob of subjects, and the reason.

    A subject is what names a filesystem (UUID, mount point, device path, label) or the host, or
    the fact of one finding (the mount point of an fstab entry). Case matters but in a UUID.
    """

    code: str
    subject: str
    suppression: Suppression

    def is_expired(self, today: str) -> bool:
        """Whether its last day is over; both are dates as ISO 8601 writes them."""
        return self.suppression.expires is not None and self.suppression.expires < today

    def matches(self, code: str, names: Sequence[str]) -> bool:
        """Whether it accepts a rule's finding about a subject that has these names."""
        return code == self.code and any(
            name == self.subject or fnmatchcase(name, self._subject_as(name)) for name in names
        )

    def _subject_as(self, name: str) -> str:
        """Return the glob for a name: UUIDs are written in either case, "/Data" is not "/data"."""
        return self.subject.lower() if UUID.fullmatch(name) else self.subject

    @property
    def words(self) -> str:
        """How it is called in a sentence."""
        return f"the suppression of {self.code} for {self.subject!r}"


def suppress(
    report: Report, rules: Sequence[SuppressionRule], today: str
) -> tuple[Report, frozenset[SuppressionRule]]:
    """Return the report with its accepted findings marked, and the suppressions that matched.

    What has expired accepts nothing. `today` is a date as ISO 8601 writes it.
    """
    live = [rule for rule in rules if not rule.is_expired(today)]
    by_id = {fs.id: fs for fs in report.host.filesystems}
    used: set[SuppressionRule] = set()

    def mark(verdict: Verdict, finding: Finding) -> Finding:
        fs = by_id.get(verdict.filesystem_id or "")
        names = (*_names(fs), finding.fact) if fs else (finding.fact, report.host.name)
        found = next((rule for rule in live if rule.matches(verdict.rule.code, names)), None)
        if found is None:
            return finding
        used.add(found)
        return replace(finding, suppression=found.suppression)

    verdicts = [replace(v, findings=tuple(mark(v, f) for f in v.findings)) for v in report.verdicts]
    return replace(report, verdicts=tuple(verdicts)), frozenset(used)


def stale(
    rules: Sequence[SuppressionRule],
    used: frozenset[object],
    today: str,
    *,
    judged: frozenset[str],
) -> Iterator[str]:
    """Yield a sentence for each suppression that has expired, or matches nothing any more.

    `judged` are the codes of the rules that judged everything with all that they needed: of
    another nothing is known.
    """
    for rule in rules:
        if rule.is_expired(today):
            yield f"{rule.words} expired on {rule.suppression.expires}"
        elif rule not in used and rule.code in judged:
            yield f"{rule.words} matches no finding: remove it, or correct the subject"


def not_judged(report: Report) -> frozenset[str]:
    """Return the codes of the rules that may have found more, had they seen everything."""
    every = report.host.gaps
    return frozenset(
        verdict.rule.code
        for verdict in report.verdicts
        if every or verdict.unknowns or verdict.outcome in (Outcome.UNDETERMINED, Outcome.ERROR)
    )


def _names(fs: Filesystem) -> tuple[str, ...]:
    """Return what a filesystem is called."""
    said = (fs.uuid, fs.label, fs.device, fs.name, fs.id, str(fs.device_number))
    return (*fs.mount_points, *(name for name in said if name))

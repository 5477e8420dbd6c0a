"""Suppressions of a policy file: their application to a report, and the stale ones."""

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

    A subject is a name of a filesystem (UUID, mount point, device path, label), a name of the
    host, or the fact of one finding (the mount point of an fstab entry). Names other than UUIDs
    are case-sensitive.
    """

    code: str
    subject: str
    suppression: Suppression

    def is_expired(self, today: str) -> bool:
        """Whether its last day is before `today`, a date in ISO 8601."""
        return self.suppression.expires is not None and self.suppression.expires < today

    def matches(self, code: str, names: Sequence[str]) -> bool:
        """Whether it accepts a finding of this rule about a subject with these names."""
        return code == self.code and any(
            name == self.subject or fnmatchcase(name, self._glob_for(name)) for name in names
        )

    def _glob_for(self, name: str) -> str:
        """Return the glob for a name: UUIDs exist in either case, but "/Data" is not "/data"."""
        return self.subject.lower() if UUID.fullmatch(name) else self.subject

    @property
    def text(self) -> str:
        """The name of the suppression in a sentence."""
        return f"the suppression of {self.code} for {self.subject!r}"


def suppress(
    report: Report, rules: Sequence[SuppressionRule], today: str
) -> tuple[Report, frozenset[SuppressionRule]]:
    """Return the report with its accepted findings marked, and the suppressions that matched.

    An expired suppression accepts nothing. `today` is a date in ISO 8601.
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
    """Yield a sentence for each suppression that has expired or matches no finding.

    `judged` are the codes of the rules that had all their evidence. Suppressions of other rules
    are not reported, because those rules might have found more.
    """
    for rule in rules:
        if rule.is_expired(today):
            yield f"{rule.text} expired on {rule.suppression.expires}"
        elif rule not in used and rule.code in judged:
            yield f"{rule.text} matches no finding: remove it, or correct the subject"


def not_judged(report: Report) -> frozenset[str]:
    """Return the codes of the rules that lacked evidence and so might have found more."""
    has_gaps = bool(report.host.gaps)
    return frozenset(
        verdict.rule.code
        for verdict in report.verdicts
        if has_gaps or verdict.unknowns or verdict.outcome in (Outcome.UNDETERMINED, Outcome.ERROR)
    )


def _names(fs: Filesystem) -> tuple[str, ...]:
    """Return all names of a filesystem."""
    names = (fs.uuid, fs.label, fs.device, fs.name, fs.id, str(fs.device_number))
    return (*fs.mount_points, *(name for name in names if name))

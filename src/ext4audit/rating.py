"""Rate findings anew by the profiles of a filesystem: the same fact weighs less below a replica."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.facts.profile import Profile
from ext4audit.finding import Citation, Finding, Severity
from ext4audit.records import replace
from ext4audit.report import Verdict

AT_LEAST = "+"


def rated(verdict: Verdict, profiles: Sequence[Profile]) -> Verdict:
    """Return the verdict with the severities that the profiles give to its rule's findings.

    A profile lowers a severity only where every profile of the filesystem agrees, because the
    data below the strictest of them is what is at stake; any of them raises it.
    """
    if not (profiles and verdict.findings):
        return verdict
    findings = tuple(_rated(f, verdict.rule.code, profiles) for f in verdict.findings)
    return replace(verdict, findings=findings)


def _rated(finding: Finding, code: str, profiles: Sequence[Profile]) -> Finding:
    said = [(profile, dict(profile.rate).get(code)) for profile in profiles]
    least = [(p, _severity(word)) for p, word in said if word and word.startswith(AT_LEAST)]
    most = [(p, _severity(word)) for p, word in said if word and not word.startswith(AT_LEAST)]
    if least:
        return _with(finding, _worst([finding.severity, *(s for _, s in least)]), least)
    if len(most) == len(profiles):
        cap = _worst([severity for _, severity in most])
        return _with(finding, max(finding.severity, cap, key=_rank), most)
    return finding


def _severity(word: str) -> Severity:
    return Severity(word.removeprefix(AT_LEAST))


def _worst(severities: Sequence[Severity]) -> Severity:
    return min(severities, key=_rank)


def _rank(severity: Severity) -> int:
    return severity.rank


def _with(finding: Finding, severity: Severity, by: Sequence[tuple[Profile, Severity]]) -> Finding:
    """Return the finding with a severity, and the profiles that gave it as evidence."""
    if severity is finding.severity:
        return finding
    cited = tuple(
        Citation(f"{severity.value} by profile {p.name}", p.says, p.source) for p, _ in by
    )
    return replace(finding, severity=severity, citations=(*finding.citations, *cited))

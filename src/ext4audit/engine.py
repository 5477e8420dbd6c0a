"""The engine: gives exactly one verdict for each rule and subject, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ext4audit.evidence import Undetermined
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.profile import ActiveProfile, Profile
from ext4audit.finding import Citation, Finding, Severity
from ext4audit.report import Outcome, Report, Source, Verdict
from ext4audit.rule import NotApplicable, Rule, Scope

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


def judge(rule: Rule, fs: Filesystem | None, host: Host) -> Verdict:
    """Run one rule over one subject; the wall round a rule that is wrong.

    Findings yielded before a hole survive it: the verdict is then FAIL and carries the hole.
    """
    subject = None if fs is None else fs.id
    findings: list[Finding] = []
    evidence: list[Citation] = []
    hole: Undetermined | None = None
    try:
        for said in rule.run(fs, host):
            _keep(said, findings, evidence)
    except Undetermined as met:
        hole = met
    except NotApplicable as reason:
        if not findings:
            return Verdict(rule, subject, Outcome.NOT_APPLICABLE, note=str(reason))
        note = f"the rule made findings and then said that it does not apply: {reason}"
        return Verdict(rule, subject, Outcome.ERROR, findings=tuple(findings), note=note)
    except Exception:  # noqa: BLE001 - the wall: one wrong rule must not end the audit
        import traceback  # noqa: PLC0415 - 5 ms of every start, for a wrong rule only

        note = traceback.format_exc()
        return Verdict(rule, subject, Outcome.ERROR, findings=tuple(findings), note=note)
    outcome = Outcome.FAIL if findings else Outcome.UNDETERMINED if hole else Outcome.PASS
    unknowns = hole.unknowns if hole else ()
    return Verdict(rule, subject, outcome, tuple(findings), unknowns, tuple(evidence))


def _keep(said: object, findings: list[Finding], evidence: list[Citation]) -> None:
    """Sort what a rule yields; raises TypeError for what is neither finding nor citation."""
    if isinstance(said, Finding):
        findings.append(_told_apart(said, findings))
    elif isinstance(said, Citation):
        evidence.append(said)
    else:
        raise TypeError(f"a rule yielded {type(said).__name__}")


def _told_apart(finding: Finding, before: Sequence[Finding]) -> Finding:
    """Return the finding, its fact numbered where the verdict has the same one already.

    A baseline knows findings by their facts, but two lines of fstab can be alike, and two arrays
    differ in nothing but their names, which change.
    """
    facts = {each.fact for each in before}
    number = 1
    fact = finding.fact
    while fact in facts:
        number += 1
        fact = f"{finding.fact} #{number}".lstrip()
    return finding if fact == finding.fact else replace(finding, fact=fact)


def audit(
    source: Source, host: Host, rules: Sequence[Rule], profiles: Sequence[ActiveProfile] = ()
) -> Report:
    """Judge every subject by every rule: filesystem rules by superblock, host rules once."""
    if profiles:
        host = replace(host, profiles=tuple(profiles))
    verdicts = [
        rated(judge(rule, fs, host), host.profiles_of(fs))
        for fs in host.filesystems
        for rule in rules
        if rule.scope is Scope.FILESYSTEM
    ]
    verdicts += [judge(rule, None, host) for rule in rules if rule.scope is Scope.HOST]
    return Report(source, host, tuple(verdicts))

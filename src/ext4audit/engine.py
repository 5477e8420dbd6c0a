"""The engine: gives exactly one verdict for each rule and subject, whatever happens."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import Undetermined
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.profile import ActiveProfile
from ext4audit.finding import Citation, Finding
from ext4audit.rating import rated
from ext4audit.records import replace
from ext4audit.report import Outcome, Report, Source, Verdict
from ext4audit.rule import NotApplicable, Rule, Scope


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

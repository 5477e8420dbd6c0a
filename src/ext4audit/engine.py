"""The engine: `audit` runs rules on subjects and returns exactly one verdict for each pair.

`judge` runs one rule and is the boundary that turns its exception into an ERROR verdict.
`with_profile_severities` applies the severities of the active profiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, OUTSIDE, OutOfScope, Undetermined, Unknown
from ext4audit.facts.host import AT_LEAST, ActiveProfile, Filesystem, Host, Profile
from ext4audit.finding import Citation, Disruption, Finding, Severity
from ext4audit.report import (
    ARCHIVES,
    Outcome,
    Report,
    ReportSource,
    Verdict,
    as_captured,
    filesystems_by_fact,
    subject_of,
)
from ext4audit.rule import NotApplicable, Rule, Scope


def audit(
    source: ReportSource, host: Host, rules: Sequence[Rule], profiles: Sequence[ActiveProfile] = ()
) -> Report:
    """Run filesystem rules on each superblock and host rules once, and return the report."""
    if profiles:
        host = host._replace(profiles=tuple(profiles))
    verdicts = [
        with_profile_severities(judge(rule, fs, host), host.profiles_of(fs))
        for fs in host.filesystems
        for rule in rules
        if rule.scope is Scope.FILESYSTEM
    ]
    of_host = (judge(rule, None, host) for rule in rules if rule.scope is Scope.HOST)
    verdicts += [_with_severities_of_host(verdict, host) for verdict in of_host]
    if source.kind in ARCHIVES:
        host = host._replace(gaps=tuple(map(as_captured, host.gaps)))
        verdicts = [v._replace(unknowns=tuple(map(as_captured, v.unknowns))) for v in verdicts]
    return Report(source, host, tuple(verdicts))


def judge(rule: Rule, fs: Filesystem | None, host: Host) -> Verdict:
    """Run one rule on one subject; an exception in the rule becomes an ERROR verdict.

    Findings that precede an unknown are kept: the verdict is then FAIL and lists the unknown too.
    Evidence that a rule cites again is listed once.
    """
    subject = None if fs is None else fs.id
    findings: list[Finding] = []
    evidence: list[Citation] = []
    last: dict[str, int] = {}
    undetermined: Undetermined | None = None
    try:
        for output in rule.run(fs, host):
            shown = _with_origin(_with_obstacles(output, fs, host), host.mount_table)
            if isinstance(shown, Finding):
                findings.append(_numbered(shown, last))
            elif isinstance(shown, Citation):
                evidence.append(shown)
            else:
                raise TypeError(f"a rule yielded {type(shown).__name__}")  # noqa: TRY301
    except Undetermined as raised:
        undetermined = raised
    except NotApplicable as reason:
        if not findings:
            return Verdict(rule, subject, Outcome.NOT_APPLICABLE, note=str(reason))
        note = f"the rule reported findings and then raised NotApplicable: {reason}"
        return Verdict(rule, subject, Outcome.ERROR, findings=tuple(findings), note=note)
    except Exception:  # noqa: BLE001 - the boundary: a faulty rule must not end the audit
        import traceback  # noqa: PLC0415 - takes 5 ms, and only a faulty rule needs it

        note = traceback.format_exc()
        return Verdict(rule, subject, Outcome.ERROR, findings=tuple(findings), note=note)
    met = undetermined.unknowns if undetermined else ()
    unknowns = tuple(each for each in met if not isinstance(each, OutOfScope))
    if met and not unknowns and not findings:
        return Verdict(rule, subject, Outcome.NOT_APPLICABLE, note=met[0].detail)
    outcome = Outcome.FAIL if findings else Outcome.UNDETERMINED if undetermined else Outcome.PASS
    cited = tuple(dict.fromkeys(evidence))
    return Verdict(rule, subject, outcome, tuple(findings), unknowns, cited)


def _with_obstacles(output: object, fs: Filesystem | None, host: Host) -> object:
    """Return a finding with remedies adapted to the obstacles on this host.

    Obstacles are settings that an unmount loses, users of the filesystem to stop before it, a
    feature that makes commands fail, a device that cannot be opened, a mounted filesystem that may
    be the same one, and a program that generates fstab. Other outputs are returned as they are.
    """
    if not isinstance(output, Finding):
        return output
    found = tuple(remedies.with_generator(each, host) for each in output.remedies)
    if fs is None:
        return output._replace(remedies=found)
    found = remedies.with_losses(found, fs, host)
    if any(remedy.disruption is Disruption.UNMOUNT for remedy in found):
        found = tuple(remedies.with_users(each, fs, host) for each in found)
    found = remedies.with_features(found, fs)
    if isinstance(fs.primary, Unknown) and fs.primary.hint == OUTSIDE:
        found = tuple(remedies.obstacles.with_refusal(each, fs) for each in found)
    twin = host.mounted_twin(fs)
    if twin is not None and host.is_same_storage(fs, twin) is not False:
        found = tuple(remedies.obstacles.with_twin(each, fs, twin) for each in found)
    return output._replace(remedies=found)


def _with_origin(output: object, table: str) -> object:
    """Return a rule's output with the mount table that was really read as the citations' origin."""
    if table == MOUNT_TABLE:
        return output
    if isinstance(output, Citation):
        return _read_in(output, table)
    if isinstance(output, Finding):
        return output._replace(citations=tuple(_read_in(c, table) for c in output.citations))
    return output


def _read_in(cited: Citation, table: str) -> Citation:
    return cited._replace(origin=table) if cited.origin == MOUNT_TABLE else cited


def _numbered(finding: Finding, last: dict[str, int]) -> Finding:
    """Return the finding with the next number, if the verdict already has its numbered fact.

    A baseline identifies findings by these facts, but two lines of fstab can be equal, and two
    arrays may differ only in their names, which are not stable. `last` maps each numbered fact of
    the verdict to the last number used for it; that of the finding is added.
    """
    numbered = finding._replace(number=last.get(finding.fact, 1))
    while numbered.numbered_fact in last:
        numbered = numbered._replace(number=numbered.number + 1)
    last[numbered.numbered_fact] = 1
    last[finding.fact] = numbered.number
    return numbered


def with_profile_severities(verdict: Verdict, profiles: Sequence[Profile]) -> Verdict:
    """Return the verdict with the severities that the profiles set for its rule.

    Any profile of the filesystem can raise a severity. It is lowered only if every profile lowers
    it, and only as far as the strictest one does, because that profile's data are at risk.
    """
    if not (profiles and verdict.findings):
        return verdict
    findings = tuple(_rated(f, verdict.rule.code, profiles) for f in verdict.findings)
    return verdict._replace(findings=findings)


def _with_severities_of_host(verdict: Verdict, host: Host) -> Verdict:
    """Return a host verdict, with each finding rated by the profiles of its filesystem or path.

    A finding about neither concerns all filesystems and gets the worst of their severities.
    """
    if not (host.profiles and verdict.findings):
        return verdict
    everywhere = [fs.mount_points for fs in host.filesystems] or [()]
    by_fact = filesystems_by_fact(host)

    def rated(finding: Finding) -> Finding:
        fs = subject_of(finding, None, by_fact)
        if fs or finding.device:
            places = [fs.mount_points if fs else ()]
        else:
            places = [(finding.mount_point,)] if finding.mount_point else everywhere
        every = (_rated(finding, verdict.rule.code, _profiles_at(each, host)) for each in places)
        return min(every, key=lambda each: each.severity.rank)

    return verdict._replace(findings=tuple(map(rated, verdict.findings)))


def _profiles_at(mount_points: tuple[str, ...], host: Host) -> tuple[Profile, ...]:
    """Return the profiles in force for a filesystem mounted, or to be mounted, at these points."""
    return tuple(dict.fromkeys(a.profile for a in host.profiles if a.covers(mount_points)))


def _rated(finding: Finding, code: str, profiles: Sequence[Profile]) -> Finding:
    ratings = [(profile, dict(profile.rate).get(code)) for profile in profiles]
    least = [(p, _severity(rate)) for p, rate in ratings if rate and rate.startswith(AT_LEAST)]
    most = [(p, _severity(rate)) for p, rate in ratings if rate and not rate.startswith(AT_LEAST)]
    if least:
        return _with(finding, _worst([finding.severity, *(s for _, s in least)]), least)
    if most and len(most) == len(profiles):
        cap = _worst([severity for _, severity in most])
        return _with(finding, max(finding.severity, cap, key=_rank), most)
    return finding


def _severity(rate: str) -> Severity:
    return Severity(rate.removeprefix(AT_LEAST))


def _worst(severities: Sequence[Severity]) -> Severity:
    return min(severities, key=_rank)


def _rank(severity: Severity) -> int:
    return severity.rank


def _with(finding: Finding, severity: Severity, by: Sequence[tuple[Profile, Severity]]) -> Finding:
    """Return the finding with a new severity, and citations of the profiles that set it."""
    if severity is finding.severity:
        return finding
    cited = tuple(
        Citation(f"{severity.value} by profile {p.name}", p.says, p.source) for p, _ in by
    )
    return finding._replace(severity=severity, citations=(*finding.citations, *cited))

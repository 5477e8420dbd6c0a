"""Application of `ext4audit probe` results to a report: findings are confirmed or removed.

A measurement applies to the filesystem with its UUID on the same host, as long as the kernel, the
number of array members and the options that affect the result are the same. It never removes a
confirmed finding.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.measurement import Measurement, ProbeRun, ProbeVerdict
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.report import Outcome, Report, Verdict

DECIDING = {
    "DUR001": ("barrier",),
    "LAY001": (),
    "PRF001": ("data", "delalloc", "dioread_nolock"),
    "PRF002": ("auto_da_alloc", "data", "delalloc"),
}
"""The options that affect the measurement for each rule."""
OF_MEMBERS = "LAY001"
"""The rule about array members; after a reshape (mdadm --grow), its measurement is void."""
NAMELESS = "is not used: it could not read the UUID of its filesystem"
PROVES_HEALTH = "probe"
"""The only mode whose healthy results count; an observation may miss the harmful load."""


class _Cited(NamedTuple):
    """A measurement that applies to a filesystem, and its citation."""

    run: ProbeRun
    result: Measurement

    @property
    def citation(self) -> Citation:
        verb = "observed" if self.run.mode != PROVES_HEALTH else "measured"
        value = f"{verb} {self.result.verdict.value}: {self.result.why}"
        origin = f"ext4audit probe {self.run.directory}, {self.run.taken_at}"
        return Citation(f"probe {self.result.probe}", value, origin)


def apply_measurements(report: Report, runs: Sequence[ProbeRun]) -> Report:
    """Return the report after applying the newest measurement of each rule and filesystem."""
    verdicts = (_measured(v, _newest(fs, v, report, runs)) for v, fs in report.judged)
    return report._replace(verdicts=tuple(verdicts))


def _newest(
    fs: Filesystem | None, verdict: Verdict, report: Report, runs: Sequence[ProbeRun]
) -> _Cited | None:
    """Return the newest conclusive measurement that applies to a verdict, if any."""
    code = verdict.rule.code
    if fs is None or code not in DECIDING:
        return None
    found = [
        _Cited(run, result)
        for run in runs
        for result in run.results
        if result.rule == code and _decides(run, result)
        if refusal(run, result, fs, report.host) is None
    ]
    return max(found, key=lambda each: each.run.taken_at, default=None)


def _decides(run: ProbeRun, result: Measurement) -> bool:
    """Return whether a measurement is conclusive; others do not supersede an older one."""
    if result.verdict is ProbeVerdict.HEALTHY:
        return run.mode == PROVES_HEALTH
    return result.verdict is ProbeVerdict.AFFECTED


def refusal(run: ProbeRun, result: Measurement, fs: Filesystem, host: Host) -> str | None:
    """Return why a result of a run does not apply to a filesystem, None if it does."""
    if not fs.uuid or fs.shares_uuid or fs.uuid != run.filesystem.uuid:
        return "it was measured on another filesystem"
    if run.host != host.name:  # machines made from the same image share UUIDs
        return f"it was made on the host {run.host!r}"
    if not (isinstance(host.kernel, Known) and isinstance(fs.options, Known)):
        return "the kernel and the options in force are not known"
    if host.kernel.value.release != run.filesystem.kernel_release:
        return f"it was made with Linux {run.filesystem.kernel_release}"
    return _change(run, result, fs)


def _change(run: ProbeRun, result: Measurement, fs: Filesystem) -> str | None:
    """Return which option or members have changed since the measurement, else None."""
    then = dict(run.filesystem.options)
    for name in DECIDING[result.rule]:
        option = option_of(fs, name)
        now = option.token if option else None
        if now != then.get(name):
            return f"{then.get(name, f'no {name}')} was in force"
    return _change_of_members(result, fs) if result.rule == OF_MEMBERS else None


def _change_of_members(result: Measurement, fs: Filesystem) -> str | None:
    if isinstance(fs.layout, Unknown):
        return "the members of its array are not known"
    members = fs.layout.value.members if fs.layout else ()
    then = len(result.members)
    return None if then == len(members) else f"the array had {then} members"


def _measured(verdict: Verdict, cited: _Cited | None) -> Verdict:
    if cited is None or not verdict.findings or verdict.outcome is not Outcome.FAIL:
        return verdict
    if cited.result.verdict is ProbeVerdict.AFFECTED:
        findings = (_cite(_confirmed(finding), cited) for finding in verdict.findings)
        return verdict._replace(findings=tuple(findings))
    return _passed(verdict, cited)


def _confirmed(finding: Finding) -> Finding:
    """Return a finding as measured and confirmed, with at least low severity."""
    severity = Severity.LOW if finding.severity is Severity.INFO else finding.severity
    return finding._replace(severity=severity, confidence=Confidence.CONFIRMED, measured=True)


def _cite(finding: Finding, cited: _Cited) -> Finding:
    return finding._replace(citations=(*finding.citations, cited.citation))


def _passed(verdict: Verdict, cited: _Cited) -> Verdict:
    """Return the verdict without findings that are not confirmed; unknowns are kept."""
    kept = [f for f in verdict.findings if f.confidence is Confidence.CONFIRMED]
    gone = [f for f in verdict.findings if f.confidence is not Confidence.CONFIRMED]
    if not gone:
        return verdict._replace(findings=tuple(_cite(finding, cited) for finding in kept))
    evidence = dict.fromkeys(each for finding in gone for each in finding.citations)
    outcome = Outcome.FAIL if kept else Outcome.UNDETERMINED if verdict.unknowns else Outcome.PASS
    return verdict._replace(
        outcome=outcome,
        findings=tuple(_cite(finding, cited) for finding in kept),
        evidence=(*verdict.evidence, *evidence, cited.citation),
    )


def used_measurements(report: Report, runs: Sequence[ProbeRun]) -> frozenset[ProbeRun]:
    """Return the runs with a measurement that applies to a filesystem of the host."""
    return frozenset(
        run
        for run in runs
        for fs in report.host.filesystems
        if any(refusal(run, result, fs, report.host) is None for result in run.results)
    )


def unused_measurements(report: Report, runs: Sequence[ProbeRun]) -> Iterator[str]:
    """Yield a sentence for each measurement that is not used or matches no finding."""
    for run in runs:
        subjects = [fs for fs in report.host.filesystems if fs.uuid == run.filesystem.uuid]
        if not subjects:
            which = "belongs to no audited filesystem" if run.filesystem.uuid else NAMELESS
            yield f"the probe of {run.directory} {which}"
        for fs in subjects:
            yield from _unused_of(report, run, fs)


def _unused_of(report: Report, run: ProbeRun, fs: Filesystem) -> Iterator[str]:
    of_rule = {v.rule.code: v for v in report.verdicts if v.filesystem_id == fs.id}
    for result in run.results:
        if result.rule not in of_rule:
            continue
        reason = refusal(run, result, fs, report.host)
        name = f"the probe {result.probe} of {run.directory}"
        if reason is not None:
            yield f"{name} is not used for {result.rule}: {reason}"
        elif result.verdict is ProbeVerdict.AFFECTED and not of_rule[result.rule].findings:
            yield f"{name} is affected, and {result.rule} has no finding: {result.why}"

"""Baselines and differences: the known findings of a report, and which are new or fixed.

`apply_baseline` compares a report with a baseline; `difference` compares two JSON reports.
"""

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Severity
from ext4audit.report import FixedFinding, Outcome, Report, Verdict

Key: TypeAlias = tuple[str, str, str | None]
"""Rule code, superblock (its UUID if it has one; "" for the host), and the fact that failed.

Reports of JSON 1.0 have no facts; there, None matches any fact of the rule on the superblock.
"""
Pair: TypeAlias = tuple[str, str]
"""Rule code and superblock."""
CHECKED = frozenset({Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE})
"""Outcomes of a rule that had its evidence; findings that are no longer present are fixed."""


class KnownFinding(NamedTuple):
    """A finding of a JSON report; `subject` is the name of its filesystem in the report."""

    rule: str
    superblock: str
    fact: str | None
    severity: Severity
    subject: str
    message: str
    suppressed: bool = False

    @property
    def key(self) -> Key:
        """The identity of the finding, independent of device names and numbers."""
        return self.rule, self.superblock, self.fact

    @property
    def pair(self) -> tuple[str, str]:
        """The rule and the superblock, which identify the verdict of the finding."""
        return self.rule, self.superblock


class FindingIndex:
    """The findings of an earlier report, indexed by key."""

    def __init__(self, findings: Sequence[KnownFinding]) -> None:
        self._findings = findings
        self._all = _worst(findings)
        self._open = _worst([each for each in findings if not each.suppressed])

    def has(self, key: Key, severity: Severity, *, accepted: bool) -> bool:
        """Return whether the earlier report has the finding with at least this severity.

        A finding that was suppressed is known only if it is still suppressed (`accepted`).
        Otherwise a baseline would extend a suppression beyond its last day.
        """
        known = self._all if accepted else self._open
        found = known.get(key) or known.get((*key[:2], None))
        return found is not None and found.at_least(severity)

    def without(self, still: Iterable[Key]) -> Iterator[KnownFinding]:
        """Yield the findings that are not in a later report with the keys `still`."""
        keys = frozenset(still)
        pairs = frozenset(key[:2] for key in keys)
        for each in self._findings:
            if not (each.pair in pairs if each.fact is None else each.key in keys):
                yield each


def _worst(findings: Sequence[KnownFinding]) -> dict[Key, Severity]:
    """Return the worst severity of each key; copies of a filesystem have the same key."""
    mildest_first = sorted(findings, key=lambda each: -each.severity.rank)
    return {each.key: each.severity for each in mildest_first}


_DEVICE_NUMBER = re.compile(r"[0-9]+:[0-9]+")


def superblock_key(filesystem_id: str | None, mount_points: Sequence[str] = ()) -> str:
    """Return the UUID of a superblock, without the device number that disambiguates copies.

    With the device number, attaching a snapshot temporarily would make every finding of its origin
    new. If there is no UUID, the key is the device number and the first mount point, because the
    number can refer to another filesystem after a reboot.
    """
    key = "" if filesystem_id is None else text_of(filesystem_id).partition("@")[0]
    if mount_points and _DEVICE_NUMBER.fullmatch(key):
        return f"{key} on {mount_points[0]}"
    return key


def key_of_filesystem(fs: Filesystem) -> str:
    """Return the superblock key of a filesystem."""
    return superblock_key(fs.id, fs.mount_points)


def keys_in_document(document: Mapping[str, Any]) -> dict[str | None, str]:
    """Return the superblock keys of a report by filesystem id; raises as `check_document`."""
    keys: dict[str | None, str] = {None: ""}
    for fs in document["filesystems"]:
        subject = original_text(fs, "id")
        keys[subject] = superblock_key(subject, _mount_points(fs))
    return keys


def _mount_points(filesystem: Mapping[str, Any]) -> list[str]:
    """Return the mount points of a filesystem; raises TypeError."""
    points: Sequence[object] = filesystem["mount_points"]
    encoded = filesystem.get("mount_points_b64") or [None] * len(points)
    return [_original(*each) for each in zip(points, encoded, strict=True)]


def text_of(value: object) -> str:
    """Return a string of a report unchanged; raises TypeError for another type."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a string")
    return value


def original_text(members: Mapping[str, Any], key: str) -> str:
    """Return a string member of an object, from its original bytes if they are not UTF-8.

    Raises KeyError, TypeError or ValueError.
    """
    return _original(members[key], members.get(f"{key}_b64"))


def _original(text: object, encoded: object) -> str:
    """Return a string, decoded from the base64 of its original bytes if that is given."""
    if encoded is None:
        return text_of(text)
    return a2b_base64(text_of(encoded)).decode("utf-8", "surrogateescape")


class HostIdentity(NamedTuple):
    """The key of a report's host, and its host name; reports before 1.1 have no key."""

    key: str | None
    name: str

    def is_same(self, key: str, name: str) -> bool:
        """Return whether the key is the same, or the name if this host has no key."""
        return self.name == name if self.key is None else self.key == key


def identity_of(document: Mapping[str, Any]) -> HostIdentity:
    """Return the identity of the host of one report in JSON; raises as `check_document`."""
    source = document.get("source", {})
    key = original_text(source, "key") if "key" in source else None
    return HostIdentity(key, original_text(document["host"], "name"))


class KnownHost(NamedTuple):
    """One report of a baseline: the host, its superblock keys and its findings."""

    identity: HostIdentity
    superblocks: frozenset[str]
    findings: tuple[KnownFinding, ...]


def check_document(document: Mapping[str, Any]) -> None:
    """Check that a JSON report has everything that a baseline or a comparison needs.

    Raises KeyError, TypeError, ValueError or AttributeError if it is not a valid report.
    """
    known_host(document)
    _judged_in_document(document)


def known_host(document: Mapping[str, Any]) -> KnownHost:
    """Return the host of a JSON report, version 1; raises as `check_document`."""
    superblocks = frozenset(filter(None, keys_in_document(document).values()))
    return KnownHost(identity_of(document), superblocks, known_findings(document))


def known_findings(document: Mapping[str, Any]) -> tuple[KnownFinding, ...]:
    """Return the findings of a JSON report, version 1; raises as `check_document`."""
    subjects = {original_text(fs, "id"): _subject(fs) for fs in document["filesystems"]}
    keys = keys_in_document(document)
    return tuple(
        KnownFinding(
            rule=text_of(verdict["rule"]),
            superblock=_key_in(keys, subject_of(verdict)),
            fact=original_text(finding, "fact") if "fact" in finding else None,
            severity=Severity(finding["severity"]),
            subject=subjects.get(subject_of(verdict) or "", "the host"),
            message=original_text(finding, "message"),
            suppressed=finding.get("suppression") is not None,
        )
        for verdict in document["verdicts"]
        for finding in verdict["findings"]
    )


def subject_of(verdict: Mapping[str, Any]) -> str | None:
    """Return the id of a verdict's filesystem, None for a verdict on the host."""
    return None if verdict["filesystem"] is None else original_text(verdict, "filesystem")


def _key_in(keys: Mapping[str | None, str], subject: str | None) -> str:
    """Return the superblock key of a subject, even if its filesystem is not listed."""
    return keys[subject] if subject in keys else superblock_key(subject)


def apply_baseline(report: Report, baseline: Sequence[KnownFinding]) -> Report:
    """Return the report with known findings marked, and with the fixed findings.

    A finding is also new if its severity has increased or its suppression has ended. A finding
    that could not be checked again is not fixed.
    """
    earlier = FindingIndex(baseline)
    keys: dict[str | None, str] = {fs.id: key_of_filesystem(fs) for fs in report.host.filesystems}

    def pair_of(verdict: Verdict) -> Pair:
        return verdict.rule.code, _key_in(keys, verdict.filesystem_id)

    def mark(verdict: Verdict, finding: Finding) -> Finding:
        accepted, fact = finding.suppression is not None, finding.numbered_fact
        if earlier.has((*pair_of(verdict), fact), finding.severity, accepted=accepted):
            return finding._replace(known=True)
        return finding

    verdicts = [v._replace(findings=tuple(mark(v, f) for f in v.findings)) for v in report.verdicts]
    still = ((*pair_of(v), f.numbered_fact) for v in report.verdicts for f in v.findings)
    judged = fully_judged((pair_of(v), v.outcome, bool(v.unknowns)) for v in report.verdicts)
    gone = tuple(_fixed(earlier.without(still), judged))
    return report._replace(verdicts=tuple(verdicts), fixed=gone)


def fully_judged(verdicts: Iterable[tuple[Pair, Outcome, bool]]) -> frozenset[Pair]:
    """Return the pairs that were checked with all evidence, from outcomes and "has unknowns".

    Copies of a filesystem count as one superblock, and all of them must have been checked.
    """
    every = list(verdicts)
    unchecked = {pair for pair, outcome, unknown in every if unknown or outcome not in CHECKED}
    return frozenset(pair for pair, _, _ in every) - unchecked


def _fixed(findings: Iterable[KnownFinding], seen: frozenset[Pair]) -> Iterator[FixedFinding]:
    for each in findings:
        if each.pair in seen:
            yield FixedFinding(
                each.rule, each.subject, each.fact or "", each.message, each.superblock
            )


def _subject(filesystem: Mapping[str, Any]) -> str:
    points = _mount_points(filesystem)
    device = original_text(filesystem, "device")
    return f"{device} on {points[0]}" if points else device


class Difference(NamedTuple):
    """The findings of two reports; a finding whose severity has increased is new.

    `unchecked` are findings of the older report that the newer one did not check, because the
    rule was not selected or its evidence is missing.
    """

    new: tuple[KnownFinding, ...]
    fixed: tuple[KnownFinding, ...]
    unchanged: tuple[KnownFinding, ...]
    unchecked: tuple[KnownFinding, ...]


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    """Compare two JSON reports, version 1; raises as `check_document`."""
    before, after = known_findings(old), known_findings(new)
    earlier = FindingIndex(before)
    same = [each for each in after if _is_known(each, earlier)]
    gone = list(earlier.without(each.key for each in after))
    seen = _judged_in_document(new)
    return Difference(
        new=tuple(each for each in after if not _is_known(each, earlier)),
        fixed=tuple(each for each in gone if each.pair in seen),
        unchanged=tuple(same),
        unchecked=tuple(each for each in gone if each.pair not in seen),
    )


def lacks_verdicts(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether an incomplete report lacks earlier verdicts, and so may hide new findings.

    Rules that are no longer selected do not count, nor do filesystems that are gone if the report
    has no gaps in which they could be missed. Raises as `check_document`.
    """
    if new.get("complete", True) and "error" not in new:
        return False
    had = _checked_in_document(old)
    lost = had - _checked_in_document(new)
    lost |= _judged_in_document(old) - _judged_in_document(new)
    if "error" in new or not lost:
        return bool(lost)
    selected = {verdict["rule"] for verdict in new["verdicts"]}
    there = {*keys_in_document(new).values(), *(key for _, key in had if new.get("gaps"))}
    return any(rule in selected and superblock in there for rule, superblock in lost)


def _is_known(finding: KnownFinding, earlier: FindingIndex) -> bool:
    return earlier.has(finding.key, finding.severity, accepted=finding.suppressed)


def _judged_in_document(document: Mapping[str, Any]) -> frozenset[Pair]:
    """Return the rules and superblocks that a report has checked with all evidence."""
    return fully_judged(_verdicts(document))


def _checked_in_document(document: Mapping[str, Any]) -> frozenset[Pair]:
    """Return the rules and superblocks with a verdict in a report, even one with unknowns."""
    return frozenset(pair for pair, outcome, _ in _verdicts(document) if outcome in CHECKED)


def _verdicts(document: Mapping[str, Any]) -> Iterator[tuple[Pair, Outcome, bool]]:
    keys = keys_in_document(document)
    for verdict in document["verdicts"]:
        pair = text_of(verdict["rule"]), _key_in(keys, subject_of(verdict))
        yield pair, Outcome(verdict["outcome"]), bool(verdict["unknowns"])

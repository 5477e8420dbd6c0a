"""The findings and gaps of hosts as rows, for formats that have one entry for each of them.

Code-checker formats also get the file and line of a finding, and its fingerprint, from here.

Their readers need a path and a line for every entry. A finding that cites a line of fstab is
located there. Any other is located at its filesystem in the mount table; that path does not
depend on the device name, which may change with every boot. `hosts/<host>/` is the folder in
which an inventory keeps the files of a host.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from ext4audit.evidence import MOUNT_TABLE, Unknown, for_wording
from ext4audit.facts import cached_by_identity
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.finding import Finding, Severity, listed
from ext4audit.policy.baseline import key_of_filesystem
from ext4audit.renderers import Audited, visible
from ext4audit.renderers.shared import severities_from, why_text
from ext4audit.renderers.shared.subjects import key_of_cause, traceback_lines
from ext4audit.report import (
    FixedFinding,
    Outcome,
    Report,
    Verdict,
    filesystems_by_fact,
    subject_of,
)
from ext4audit.rule import Rule

ACTIVE, SUPPRESSED, KNOWN = "active", "suppressed", "known"
"""States of a finding: it counts, the policy accepts it, or it is in the baseline."""
THE_HOST = "the host"
_SHORTEST = 3
"""Minimum length of a name to recognize in a text: "/" and "/s" also occur in "/sys"."""


class Row(NamedTuple):
    """One finding of one host; `filesystem` is None if the subject is the host.

    `about` is the filesystem that a finding of the host is about, such as that of an fstab line.
    """

    host: str
    rule: Rule
    filesystem: Filesystem | None
    finding: Finding
    about: Filesystem | None = None

    @property
    def where(self) -> str:
        """The name of the subject; for a finding of the host, the device or fact it is about."""
        named = self.finding.device or (self.finding.fact if self.filesystem is None else "")
        return named or where(self.filesystem)

    @property
    def state(self) -> str:
        """The state of the finding; `suppressed` takes precedence over `known`."""
        if self.finding.suppression is not None:
            return SUPPRESSED
        return KNOWN if self.finding.known else ACTIVE


class Gap(NamedTuple):
    """An undetermined rule on a subject, or missing evidence of the host if `rule` is None.

    `error` is the last line of the traceback of a rule that raised an exception.
    """

    host: str
    rule: Rule | None
    filesystem: Filesystem | None
    unknowns: tuple[Unknown, ...]
    error: str | None = None

    @property
    def where(self) -> str:
        """The name of the subject."""
        return where(self.filesystem)

    @property
    def text(self) -> str:
        """What is unknown, and why."""
        unknowns = [f"{unknown.what} ({why_text(unknown)})" for unknown in self.unknowns]
        raised = [] if self.error is None else [f"stopped with an error: {self.error}"]
        return "; ".join((*unknowns, *raised)) or "not determined"

    @property
    def cause(self) -> str:
        """The text with "..." for the filesystem's names, to match the same gap on other disks."""
        text, fs = self.text, self.filesystem
        named = (fs.device, fs.uuid, *fs.mount_points, fs.name, str(fs.device_number)) if fs else ()
        for name in named:
            text = text.replace(name, "...") if name and len(name) >= _SHORTEST else text
        return text

    @property
    def hint(self) -> str:
        """How to obtain the missing evidence; empty if nothing can be done."""
        return "; ".join(dict.fromkeys(each.hint for each in self.unknowns if each.hint))


def where(fs: Filesystem | None) -> str:
    """Return the name of a subject: device and first mount point, or the host."""
    if fs is None:
        return THE_HOST
    return f"{fs.device} on {fs.mount_points[0]}" if fs.mount_points else fs.device


def first_mount_point(fs: Filesystem | None) -> str:
    """Return the first mount point of a filesystem, or "" if it has none."""
    return fs.mount_points[0] if fs and fs.mount_points else ""


def rows(name: str, report: Report) -> list[Row]:
    """Return all findings of a host, worst first, then by code."""
    by_fact = filesystems_by_fact(report.host)
    found = [
        Row(name, verdict.rule, fs, finding, subject_of(finding, fs, by_fact))
        for verdict, fs in report.judged
        for finding in verdict.findings
    ]
    return sorted(found, key=rank)


def rank(row: Row) -> tuple[int, str]:
    """Return a sort key: the worst severity first, then by code."""
    return row.finding.severity.rank, row.rule.code


def by_urgency(found: Iterable[Row]) -> list[Row]:
    """Sort rows for a list that may be truncated: worst first, each rule once before any repeats.

    Otherwise forty disks without barriers would hide the one that refuses all writes.
    """
    times: Counter[tuple[int, str]] = Counter()
    placed = []
    for row in sorted(found, key=rank):
        severity, code = rank(row)
        placed.append(((severity, times[severity, code], code), row))
        times[severity, code] += 1
    return [row for _, row in sorted(placed, key=lambda each: each[0])]


def by_cause(
    found: Sequence[Row], most: int, *, across_hosts: bool = False
) -> list[tuple[Row, ...]]:
    """Return rows in order, but group those of one host and cause if they are more than `most`.

    A group takes the place of its first row; with `across_hosts` it can have rows of all hosts.
    """
    keyed = [
        (("" if across_hosts else row.host, key_of_cause(row.rule, row.finding)), row)
        for row in found
    ]
    times = Counter(key for key, _ in keyed)
    groups: dict[object, list[Row]] = {}
    for place, (key, row) in enumerate(keyed):
        groups.setdefault(key if times[key] > most else place, []).append(row)
    return [tuple(group) for group in groups.values()]


def message_of(group: Sequence[Row]) -> str:
    """Return the message that all rows of a cause share, or their short text if it differs."""
    first = group[0].finding
    messages = {row.finding.message for row in group}
    return first.message if len(messages) == 1 else first.short


def count_text(group: Sequence[Row], total: int) -> str:
    """Return how many of `total` filesystems these rows concern, or "" for one subject."""
    unique = {(row.where, row.filesystem and row.filesystem.id) for row in group}
    if len(unique) == 1:
        return ""
    of_host = any(row.filesystem is None for row in group)
    return f"{len(unique)} places" if of_host else f"{len(unique)} of {total} filesystems"


def severity_counts(found: Iterable[Row]) -> str:
    """Return the number of rows of each severity ("2 high, 1 low"), or "" without rows."""
    numbers = Counter(row.finding.severity for row in found)
    return ", ".join(f"{numbers[each]} {each.value}" for each in Severity if numbers[each])


INCOMPLETE = "incomplete"


def completeness(report: Report, threshold: Severity | None) -> str:
    """Return "complete", "complete for medium and worse" or INCOMPLETE, like the exit code.

    Missing evidence that could not lead to a finding at the threshold is disregarded.
    """
    if report.complete:
        return "complete"
    if threshold is not None and report.complete_for(threshold):
        return f"complete for {severities_from(threshold)}"
    return INCOMPLETE


def gaps(name: str, report: Report) -> list[Gap]:
    """Return what is partly or wholly undetermined on a host, with the host's own gaps first.

    The list is empty if and only if the report is complete.
    """
    of_host = [Gap(name, None, None, (gap,)) for gap in report.host.gaps]
    return of_host + [
        Gap(name, verdict.rule, fs, verdict.unknowns, _error(verdict))
        for verdict, fs in report.judged
        if verdict.is_undetermined
    ]


def _error(verdict: Verdict) -> str | None:
    return traceback_lines(verdict)[-1] if verdict.outcome is Outcome.ERROR else None


class GapGroup(NamedTuple):
    """Gaps of one host that have the same cause, as one sentence.

    `key` identifies the group on its host. `is_error` is true if a rule raised an exception or
    the host could not be read.
    """

    host: str
    key: str
    sentence: str
    is_error: bool


def text_of(same: Sequence[Gap], cause: str) -> str:
    """Return the text that all gaps of a cause share, or the cause if their texts differ."""
    texts = {gap.text for gap in same}
    return texts.pop() if len(texts) == 1 else cause


def gap_groups(host: Audited, most: int | None = None) -> tuple[GapGroup, ...]:
    """Return the gaps of a host grouped by cause, or the error of a host without a report.

    A scan without privileges has the same gap in twenty rules, and twenty alerts for each of a
    thousand hosts are too many to be useful. `most` limits the rules and subjects that a
    sentence names.
    """
    name = host.name
    if host.report is None:
        sentence = visible(f"{name} could not be read: {host.error or 'no reason is known'}")
        return (GapGroup(name, "unread", sentence, is_error=True),)
    found = gaps(name, host.report)
    causes = {gap.text: gap.cause for gap in found if gap.filesystem}  # also for the host's gaps
    groups: dict[tuple[str, str], list[Gap]] = {}
    for gap in found:
        groups.setdefault((causes.get(gap.text, gap.text), gap.hint), []).append(gap)
    return tuple(_group(name, key, same, most) for key, same in groups.items())


def _group(name: str, key: tuple[str, str], same: Sequence[Gap], most: int | None) -> GapGroup:
    cause, hint = key
    rules = dict.fromkeys(gap.rule.code for gap in same if gap.rule)
    subjects = dict.fromkeys(gap.where for gap in same if gap.rule)
    affects = f", for {listed([*rules], most)} on {listed([*subjects], most)}" if rules else ""
    advice = f" ({hint})" if hint else ""
    is_error = any(gap.error is not None for gap in same)
    sentence = visible(f"{name}: not determined{affects}: {text_of(same, cause)}{advice}")
    return GapGroup(name, f"{cause}\n{hint}", sentence, is_error)


_FSTAB = "/etc/fstab"
_FINGERPRINT_DIGITS = 32


class Location(NamedTuple):
    """A relative path that is not URL-encoded, and a line of that file, counted from 1."""

    path: str
    line: int


def location_of(row: Row, report: Report) -> Location:
    """Return the location of a finding: the cited fstab line, or the mount table."""
    for cited in row.finding.citations:
        if cited.fstab_line:
            return Location(_path(row.host, _FSTAB), cited.fstab_line)
    return location_of_subject(row.host, row.filesystem, report)


def location_of_subject(host: str, fs: Filesystem | None, report: Report | None) -> Location:
    """Return the first line of a filesystem in the mount table, or line 1 if it has none."""
    table = () if report is None else for_wording(report.host.mounts, ())
    points = fs.mount_points if fs else ()
    number = _line_numbers(table).get((points[0], fs.device_number), 1) if fs and points else 1
    return Location(_path(host, MOUNT_TABLE), number)


@cached_by_identity
def _line_numbers(table: tuple[Mount, ...]) -> Mapping[tuple[str, DeviceNumber], int]:
    """Return the first line of each mount point and device, counted from 1."""
    numbered = reversed(list(enumerate(table, start=1)))
    return {(mount.mount_point, mount.device_number): number for number, mount in numbered}


def _path(host: str, file: str) -> str:
    return f"hosts/{folder(host)}{file}"


def folder(name: str) -> str:
    """Return a name as one path segment that cannot leave its parent folder."""
    if not name.strip("."):
        return f"_{name}"
    return visible(name).replace("/", "_")


def fingerprints(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return a unique identifier of each finding, stable between runs: 32 hexadecimal digits.

    A fingerprint depends on the host, the rule, the superblock and the fact that failed, like
    the key of a baseline. The host is part of it because machines created from one image share
    the UUIDs of their filesystems. Copies of a filesystem on one host get a number. A filesystem
    without a UUID is identified by its mount point.
    """
    met: Counter[tuple[str, ...]] = Counter()
    made = []
    for row in rows:
        key = (row.host, row.rule.code, superblock(row.filesystem), row.finding.numbered_fact)
        met[key] += 1
        made.append(digest(*key) if met[key] == 1 else digest(*key, str(met[key])))
    return tuple(made)


def superblock(fs: Filesystem | None) -> str:
    """Return the UUID of a filesystem, else its first mount point or device; "" for the host."""
    if fs is None:
        return ""
    return fs.uuid or (fs.mount_points[0] if fs.mount_points else fs.device)


def fixed_findings(report: Report) -> Iterator[tuple[FixedFinding, Filesystem | None]]:
    """Yield each fixed finding with its filesystem, or None for the host or if it is gone.

    The superblock identifies it, because another filesystem may have the old device by now.
    """
    present = {key_of_filesystem(fs): fs for fs in reversed(report.host.filesystems)}
    for gone in report.fixed or ():
        yield gone, present.get(gone.superblock)


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits of the hash of texts, which may contain any byte."""
    text = json.dumps(parts, ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT_DIGITS]

"""The findings and gaps of hosts as rows: what the formats with one entry each are made of.

Also the file and line of a finding, and its fingerprint, for formats of code checkers.

Their readers need a path and a line for everything. A finding that cites a line of fstab is
located there. Any other is located at its filesystem in the mount table; that path does not
depend on the device name, which may change with every boot. `hosts/<host>/` is the folder in
which an inventory keeps the files of a host.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from ext4audit.evidence import Unknown, for_wording
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
"""State of a finding: it counts, the policy accepts it, or the baseline has it."""
THE_HOST = "the host"
_SHORTEST = 3
"""Letters of a name that is recognized in a text; "/" and "/s" are in "/sys" as well."""


class Row(NamedTuple):
    """One finding of one host; `filesystem` is None where the host is the subject.

    `about` is the filesystem that a finding of the host is about, such as that of a line of fstab.
    """

    host: str
    rule: Rule
    filesystem: Filesystem | None
    finding: Finding
    about: Filesystem | None = None

    @property
    def where(self) -> str:
        """The name of the subject; of a host's finding, the line of fstab that it is about."""
        named = self.finding.device or (self.finding.fact if self.filesystem is None else "")
        return named or where(self.filesystem)

    @property
    def state(self) -> str:
        """Whether the finding counts, and if not, why: `suppressed` precedes `known`."""
        if self.finding.suppression is not None:
            return SUPPRESSED
        return KNOWN if self.finding.known else ACTIVE


class Gap(NamedTuple):
    """What could not be determined: a rule on a subject, or without a rule a gap of the host.

    `error` is the last line of the traceback of a rule that raised.
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
        """The text with dots for the names of the filesystem: disks can lack the same evidence."""
        text, fs = self.text, self.filesystem
        named = (fs.device, fs.uuid, *fs.mount_points, fs.name, str(fs.device_number)) if fs else ()
        for name in named:
            text = text.replace(name, "...") if name and len(name) >= _SHORTEST else text
        return text

    @property
    def hint(self) -> str:
        """How to determine it; empty where nothing can be done."""
        return "; ".join(dict.fromkeys(each.hint for each in self.unknowns if each.hint))


def where(fs: Filesystem | None) -> str:
    """Return the name of a subject: device and first mount point, or the host."""
    if fs is None:
        return THE_HOST
    return f"{fs.device} on {fs.mount_points[0]}" if fs.mount_points else fs.device


def first_mount_point(fs: Filesystem | None) -> str:
    """Return the first mount point of a filesystem, "" where there is none."""
    return fs.mount_points[0] if fs and fs.mount_points else ""


def rows(name: str, report: Report) -> list[Row]:
    """Return all findings of a host, the worst first, then by code."""
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
    """Return rows for a list that is cut: worst first, and each rule once before any repeats.

    Forty disks without barriers would else hide the one that refuses all writes.
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
    """Return rows in order, those of one host with one cause together where more than `most` are.

    A group stands in the place of its first row; `across_hosts` it is of all hosts.
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
    """Return the message if all rows of a cause have the same, else their summary."""
    first = group[0].finding
    messages = {row.finding.message for row in group}
    return first.message if len(messages) == 1 else first.short


def count_text(group: Sequence[Row], total: int) -> str:
    """Return how many of `total` filesystems these rows have; empty for one subject."""
    unique = {(row.where, row.filesystem and row.filesystem.id) for row in group}
    if len(unique) == 1:
        return ""
    of_host = any(row.filesystem is None for row in group)
    return f"{len(unique)} places" if of_host else f"{len(unique)} of {total} filesystems"


def severity_counts(found: Iterable[Row]) -> str:
    """Return how many rows have each severity, "2 high, 1 low"; empty without rows."""
    numbers = Counter(row.finding.severity for row in found)
    return ", ".join(f"{numbers[each]} {each.value}" for each in Severity if numbers[each])


INCOMPLETE = "incomplete"


def completeness(report: Report, threshold: Severity | None) -> str:
    """Return "complete", "complete for medium and worse" or INCOMPLETE, as the exit code counts.

    What is missing and could not show a finding at the threshold makes no audit incomplete.
    """
    if report.complete:
        return "complete"
    if threshold is not None and report.complete_for(threshold):
        return f"complete for {severities_from(threshold)}"
    return INCOMPLETE


def gaps(name: str, report: Report) -> list[Gap]:
    """Return what could not be determined on a host, wholly or in part; its own gaps first.

    The list is empty exactly where the report is complete.
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

    `key` identifies the group on its host. `is_error` is true where a rule raised or the host
    could not be read.
    """

    host: str
    key: str
    sentence: str
    is_error: bool


def text_of(same: Sequence[Gap], cause: str) -> str:
    """Return the text if all gaps of a cause have the same, else the cause."""
    texts = {gap.text for gap in same}
    return texts.pop() if len(texts) == 1 else cause


def gap_groups(host: Audited, most: int | None = None) -> tuple[GapGroup, ...]:
    """Return the gaps of a host by cause; for a host without a report, why there is none.

    A scan without privileges has the same gap in twenty rules: twenty entries for each of a
    thousand hosts are more than a reader of alerts can use. `most` limits the rules and subjects
    that a sentence names.
    """
    name = host.name
    if host.report is None:
        sentence = visible(f"{name} could not be read: {host.error or 'no reason is known'}")
        return (GapGroup(name, "unread", sentence, is_error=True),)
    found = gaps(name, host.report)
    causes = {gap.text: gap.cause for gap in found if gap.filesystem}  # the host lacks it, too
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
_MOUNT_TABLE = "/proc/self/mountinfo"
_FSTAB_LINE = re.compile(r"\bfstab line ([1-9][0-9]{0,6})\b", re.ASCII)
"""How rules cite a line of fstab: in the label where the file is the origin, or in the origin."""
_FINGERPRINT_DIGITS = 32


class Location(NamedTuple):
    """A path, relative and not encoded, and a line of that file, counted from 1."""

    path: str
    line: int


def location_of(row: Row, report: Report) -> Location:
    """Return the location of a finding: the cited line of fstab, else the mount table."""
    line = _cited_line(row.finding)
    if line is None:
        return location_of_subject(row.host, row.filesystem, report)
    return Location(_path(row.host, _FSTAB), line)


def _cited_line(finding: Finding) -> int | None:
    for cited in finding.citations:
        found = _FSTAB_LINE.search(cited.label if cited.origin == _FSTAB else cited.origin)
        if found and cited.origin.startswith(_FSTAB):
            return int(found[1])
    return None


def location_of_subject(host: str, fs: Filesystem | None, report: Report | None) -> Location:
    """Return the first line of a filesystem in the mount table; line 1 where it has none."""
    table = () if report is None else for_wording(report.host.mounts, ())
    points = fs.mount_points if fs else ()
    number = _line_numbers(table).get((points[0], fs.device_number), 1) if fs and points else 1
    return Location(_path(host, _MOUNT_TABLE), number)


@cached_by_identity
def _line_numbers(table: tuple[Mount, ...]) -> Mapping[tuple[str, DeviceNumber], int]:
    """Return the first line of each mount point and device, counted from 1."""
    numbered = reversed(list(enumerate(table, start=1)))
    return {(mount.mount_point, mount.device_number): number for number, mount in numbered}


def _path(host: str, file: str) -> str:
    return f"hosts/{folder(host)}{file}"


def folder(name: str) -> str:
    """Return a name as one segment of a relative path that cannot leave it."""
    if not name.strip("."):
        return f"_{name}"
    return visible(name).replace("/", "_")


def fingerprints(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what identifies each finding in every run: 32 hexadecimal digits, all different.

    A fingerprint depends on the host, the rule, the superblock and the fact that failed, like
    the key of a baseline. The host is part of it because machines made of one image share the
    UUIDs of their filesystems. Copies of a filesystem on one host get a number. A filesystem
    without a UUID is identified by its mount point.
    """
    met: Counter[tuple[str, ...]] = Counter()
    made = []
    for row in rows:
        key = (row.host, row.rule.code, superblock(row.filesystem), row.finding.fact)
        met[key] += 1
        made.append(digest(*key) if met[key] == 1 else digest(*key, str(met[key])))
    return tuple(made)


def superblock(fs: Filesystem | None) -> str:
    """Return what identifies a superblock when its device is renamed; "" for the host."""
    if fs is None:
        return ""
    return fs.uuid or (fs.mount_points[0] if fs.mount_points else fs.device)


def fixed_findings(report: Report) -> Iterator[tuple[FixedFinding, Filesystem | None]]:
    """Yield the fixed findings with their filesystems; None for the host, and for one that is gone.

    By the superblock: the device of that time can be that of another filesystem by now.
    """
    present = {key_of_filesystem(fs): fs for fs in reversed(report.host.filesystems)}
    for gone in report.fixed or ():
        yield gone, present.get(gone.superblock)


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits of some texts, which may hold any byte."""
    text = json.dumps(parts, ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT_DIGITS]

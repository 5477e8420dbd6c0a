"""Where in a file a finding is said to be, and what it is known by, for formats of code checkers.

Their readers want a path and a line for everything. A finding that cites a line of fstab is
there. Any other is where the mount table shows its filesystem; that path does not follow the
device's name, which may change with every boot. `hosts/<host>/` is the tree in which an
inventory would keep the files of its hosts.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from ext4audit.evidence import value_or
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding
from ext4audit.renderers.shared.escape import visible
from ext4audit.renderers.shared.rows import Row
from ext4audit.report import Report

_FSTAB = "/etc/fstab"
_MOUNT_TABLE = "/proc/self/mountinfo"
_FSTAB_LINE = re.compile(r"\bfstab line ([1-9][0-9]{0,6})\b", re.ASCII)
"""How the rules call a line of fstab: in the label where the file is the origin, or there."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_FINGERPRINT_DIGITS = 32


class Place(NamedTuple):
    """A path, relative and percent-encoded, and a line of that file, counted from 1."""

    path: str
    line: int


def place_of(row: Row, report: Report) -> Place:
    """Return where a finding is: in the fstab that it cites, else in the mount table."""
    line = _cited_line(row.finding)
    if line is None:
        return place_of_subject(row.host, row.filesystem, report)
    return Place(_path(row.host, _FSTAB), line)


def place_of_subject(host: str, fs: Filesystem | None, report: Report | None) -> Place:
    """Return the first line of a filesystem in the mount table; 1 where it has none."""
    table = () if report is None else value_or(report.host.mounts, ())
    point = fs.mount_points[0] if fs and fs.mount_points else None
    lines = (
        number
        for number, mount in enumerate(table, start=1)
        if fs and mount.mount_point == point and mount.device_number == fs.device_number
    )
    return Place(_path(host, _MOUNT_TABLE), next(lines, 1))


def segment(name: str) -> str:
    """Return a name as one segment of a relative URI: it leads nowhere else (RFC 3986, 2.3)."""
    if not name.strip("."):
        return f"_{name}"
    raw = visible(name).encode("utf-8")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)


def fingerprints(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what each finding is known by in every run: 32 hexadecimal digits, all different.

    They are of the host, the rule, the superblock and the fact that failed, as in a baseline.
    The host is among them because machines made of one image share the UUIDs of their
    filesystems; a copy of a filesystem on one host follows its origin. Without a UUID a
    filesystem is known by its mount point.
    """
    met: Counter[tuple[str, ...]] = Counter()
    known_by = []
    for row in rows:
        key = (row.host, row.rule.code, superblock(row.filesystem), row.finding.fact)
        met[key] += 1
        known_by.append(digest(*key) if met[key] == 1 else digest(*key, str(met[key])))
    return tuple(known_by)


def superblock(fs: Filesystem | None) -> str:
    """Return what a superblock is known by where its device may be renamed; "" for the host."""
    if fs is None:
        return ""
    return fs.uuid or (fs.mount_points[0] if fs.mount_points else fs.device)


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits of some texts, which may hold any byte."""
    text = json.dumps(parts, ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT_DIGITS]


def _cited_line(finding: Finding) -> int | None:
    for cited in finding.citations:
        found = _FSTAB_LINE.search(cited.label if cited.origin == _FSTAB else cited.origin)
        if found and cited.origin.startswith(_FSTAB):
            return int(found[1])
    return None


def _path(host: str, file: str) -> str:
    return f"hosts/{segment(host)}{file}"

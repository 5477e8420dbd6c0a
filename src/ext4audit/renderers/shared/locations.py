"""The file and line of a finding, and its fingerprint, for formats of code checkers.

Their readers need a path and a line for everything. A finding that cites a line of fstab is
located there. Any other is located at its filesystem in the mount table; that path does not
depend on the device name, which may change with every boot. `hosts/<host>/` is the folder in
which an inventory keeps the files of a host.
"""

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
"""How rules cite a line of fstab: in the label where the file is the origin, or in the origin."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_FINGERPRINT_DIGITS = 32


class Location(NamedTuple):
    """A path, relative and percent-encoded, and a line of that file, counted from 1."""

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
    table = () if report is None else value_or(report.host.mounts, ())
    point = fs.mount_points[0] if fs and fs.mount_points else None
    lines = (
        number
        for number, mount in enumerate(table, start=1)
        if fs and mount.mount_point == point and mount.device_number == fs.device_number
    )
    return Location(_path(host, _MOUNT_TABLE), next(lines, 1))


def _path(host: str, file: str) -> str:
    return f"hosts/{segment(host)}{file}"


def segment(name: str) -> str:
    """Return a name as one segment of a relative URI that cannot leave it (RFC 3986, 2.3)."""
    if not name.strip("."):
        return f"_{name}"
    raw = visible(name).encode("utf-8")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)


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


def digest(*parts: str) -> str:
    """Return 32 hexadecimal digits of some texts, which may hold any byte."""
    text = json.dumps(parts, ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()[:_FINGERPRINT_DIGITS]

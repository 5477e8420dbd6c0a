"""What the many forms of lsblk print, brought into one: pairs, tree, topology.

sos runs `lsblk`, `lsblk -t` and, since 4.3, `lsblk -O -P`; Insights runs -P with columns;
supportconfig a table of its own. A tree's columns shift where a value is empty, so that only the
leading ones are read there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ext4audit.sources.foreign_capture import Capture
from ext4audit.sources.text import decode

_BRANCH = r"(?:[|│ ] )*(?:[|`├└][-─])?"
_TREE = re.compile(
    _BRANCH + r"(?P<name>\S+)(?: \((?P<kernel_name>\S+)\))?\s+(?P<number>\d+:\d+)\s+[01]\s+\S+"
    r"\s+(?P<ro>[01])\s+(?P<type>\S+)(?:\s.*)?"
)
_LIMITS = (
    r"\s+-?\d+\s+(?P<minimum>\d{1,19})\s+(?P<optimal>\d+)\s+(?P<physical>\d+)\s+(?P<logical>\d+)"
    r"\s+(?P<rotational>[01])(?:\s.*)?"
)
_TOPOLOGY = re.compile(_BRANCH + r"(?P<name>\S+)" + _LIMITS)
_SUSE = re.compile(
    _BRANCH + r"(?P<name>\S+)\s+(?P<kernel_name>\S+)\s+(?P<number>\d+:\d+)\s.*"
    r"\s[b-][rwxsStT-]{9}" + _LIMITS
)
_PAIR = re.compile(r'(?<![A-Z0-9:_%-])([A-Z][A-Z0-9:_%-]*)="([^"]*)"')
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_ATTRIBUTES = {
    "minimum": "queue/minimum_io_size",
    "optimal": "queue/optimal_io_size",
    "physical": "queue/physical_block_size",
    "logical": "queue/logical_block_size",
    "rotational": "queue/rotational",
    "ro": "ro",
}
_COLUMNS = {
    "MIN-IO": "queue/minimum_io_size",
    "OPT-IO": "queue/optimal_io_size",
    "PHY-SEC": "queue/physical_block_size",
    "LOG-SEC": "queue/logical_block_size",
    "ROTA": "queue/rotational",
    "RQ-SIZE": "queue/nr_requests",
    "RO": "ro",
    "START": "start",
    "MODEL": "device/model",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One device of lsblk; `attributes` are values under their names in sysfs.

    `pairs` is the line of -P as it was printed, where there is one with device numbers.
    """

    name: str
    origin: str
    kernel_name: str = ""
    number: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    pairs: str = ""

    def merged(self, other: Row) -> Row:
        """Return this row with what another one adds to it."""
        values = {**dict(other.attributes), **dict(self.attributes)}
        return replace(
            self, attributes=tuple(sorted(values.items())), pairs=self.pairs or other.pairs
        )


def lsblk_rows(capture: Capture) -> tuple[Row, ...]:
    """Return the rows of all forms, those with device numbers first."""
    rows = [
        row
        for output in capture.outputs("lsblk")
        if not output.status
        for row in _rows(output.text, output.origin)
    ]
    return tuple(sorted(rows, key=lambda row: (not row.pairs, row.number is None)))


def _rows(text: str, origin: str) -> Iterator[Row]:
    for line in text.split("\n"):
        pairs = dict(_PAIR.findall(line))
        if pairs:
            yield _of_pairs(line, pairs, origin)
            continue
        for pattern in (_TREE, _SUSE, _TOPOLOGY):
            found = pattern.fullmatch(line)
            if found:
                yield _of_table(found.groupdict(), origin)
                break


def _of_pairs(line: str, pairs: dict[str, str], origin: str) -> Row:
    """Make a row of -P; later versions spell MAJ_MIN and MIN_IO."""
    values = {key.replace("_", "-"): _unescaped(value).strip() for key, value in pairs.items()}
    number = pairs.get("MAJ:MIN") or pairs.get("MAJ_MIN") or ""
    attributes = {_COLUMNS[key]: values[key] for key in _COLUMNS if values.get(key)}
    numbered = re.fullmatch(r"\d+:\d+", number.strip()) is not None
    whole = numbered and bool(values.get("KNAME"))
    return Row(
        name=pairs.get("NAME", ""),
        origin=origin,
        kernel_name=values.get("KNAME", ""),
        number=number.strip() if numbered else None,
        attributes=tuple(sorted(attributes.items())),
        pairs=line if whole else "",
    )


def _unescaped(value: str) -> str:
    r"""Undo the \xHH of -P, which stand for bytes."""
    if "\\x" not in value:
        return value
    raw = value.encode("utf-8", "surrogateescape")
    return decode(_HEX.sub(lambda found: bytes([int(found[1], 16)]), raw))


def _of_table(groups: dict[str, str | None], origin: str) -> Row:
    name = groups["name"] or ""
    values = {_ATTRIBUTES[key]: value for key, value in groups.items() if key in _ATTRIBUTES}
    known = {key: value for key, value in values.items() if value is not None}
    mapped = groups.get("type") in {"lvm", "crypt", "mpath", "dm"}
    return Row(
        name=name,
        origin=origin,
        kernel_name=groups.get("kernel_name") or ("" if mapped else name),
        number=groups.get("number"),
        attributes=tuple(sorted(known.items())),
    )

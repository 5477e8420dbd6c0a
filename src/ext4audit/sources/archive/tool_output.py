"""Outputs of lsblk and dumpe2fs in an archive, in their many forms.

sos runs `lsblk`, `lsblk -t` and, since 4.3, `lsblk -O -P`; Insights runs -P with columns;
supportconfig a table of its own. A tree's columns shift where a value is empty, so that only the
leading ones are parsed there.

sos and Insights run `dumpe2fs -h` on the sources of the mount table, which are often other names
than a person uses (/dev/root, /dev/disk/by-uuid/…). The file name that a command got is lossy,
and the text does not name its device: its UUID must agree with blkid's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources import decode
from ext4audit.sources.archive.capture import Capture, Output, judge

_BRANCH = r"(?:[|│ ] )*(?:[|`├└][-─])?"
_TREE = re.compile(
    _BRANCH + r"(?P<name>\S+)(?: \((?P<kernel_name>\S+)\))?\s+(?P<number>\d+:\d+)\s+[01]\s+\S+"
    r"\s+(?P<ro>[01])\s+(?P<type>\S+)(?:\s.*)?"
)
_LIMITS = (
    r"\s+(?P<alignment>-?\d{1,19})\s+(?P<minimum>\d{1,19})\s+(?P<optimal>\d+)\s+(?P<physical>\d+)"
    r"\s+(?P<logical>\d+)\s+(?P<rotational>[01])(?:\s.*)?"
)
_TOPOLOGY = re.compile(_BRANCH + r"(?P<name>\S+)" + _LIMITS)
_SUSE = re.compile(
    _BRANCH + r"(?P<name>\S+)\s+(?P<kernel_name>\S+)\s+(?P<number>\d+:\d+)\s.*"
    r"\s[b-][rwxsStT-]{9}" + _LIMITS
)
_LSBLK_PAIR = re.compile(r'(?<![A-Z0-9:_%-])([A-Z][A-Z0-9:_%-]*)="([^"]*)"')
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_ATTRIBUTES = {
    "alignment": "alignment_offset",
    "minimum": "queue/minimum_io_size",
    "optimal": "queue/optimal_io_size",
    "physical": "queue/physical_block_size",
    "logical": "queue/logical_block_size",
    "rotational": "queue/rotational",
    "ro": "ro",
}
_LSBLK_COLUMNS = {
    "ALIGNMENT": "alignment_offset",
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
_MAPPED = frozenset({"lvm", "crypt", "mpath", "dm", "dmraid", "stratis", "vdo"})
HEADER = re.compile(r"^Filesystem UUID: {10}(\S+)$", re.MULTILINE)
GROUPS = re.compile(r"^Group \d+: \(Blocks \d+-\d+\)", re.MULTILINE)
_HINT = "capture again with ext4audit collect"
Blkid: TypeAlias = Mapping[str, Mapping[str, str]]
"""The keys and values of blkid(8) by path."""


class Row(NamedTuple):
    """One device of lsblk; `attributes` are values under their names in sysfs.

    `pairs` is the line of -P as it was printed, where there is one with device numbers.
    """

    name: str
    origin: str
    kernel_name: str = ""
    number: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    pairs: str = ""

    def merged(self, other: "Row") -> "Row":
        """Return this row with what another one adds to it."""
        values = {**dict(other.attributes), **dict(self.attributes)}
        return self._replace(
            attributes=tuple(sorted(values.items())), pairs=self.pairs or other.pairs
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


def find_header(
    capture: Capture, paths: Sequence[str], blkid: Blkid, what: str
) -> Evidence[str] | None:
    """Return the superblock's text of the device that has these paths, None without any.

    A full dump (`-k filesys.dumpe2fs=on`) begins with the header, and serves as well.
    """
    outputs = [
        output
        for path in paths
        for line in (f"dumpe2fs -h {path}", f"dumpe2fs {path}")
        for output in capture.run(line)
    ]
    return _only_match(outputs, HEADER, _uuid_of(paths, blkid), what)


def find_groups(
    capture: Capture, paths: Sequence[str], blkid: Blkid, what: str
) -> Evidence[str] | None:
    """Return the full dump of the device that has these paths, None without any."""
    outputs = [output for path in paths for output in capture.run(f"dumpe2fs {path}")]
    return _only_match(outputs, GROUPS, _uuid_of(paths, blkid), what)


def _rows(text: str, origin: str) -> Iterator[Row]:
    for line in text.split("\n"):
        pairs = dict(_LSBLK_PAIR.findall(line))
        if pairs:
            yield _row_of_pairs(line, pairs, origin)
            continue
        for pattern in (_TREE, _SUSE, _TOPOLOGY):
            found = pattern.fullmatch(line)
            if found:
                yield _row_of_table(found.groupdict(), origin)
                break


def _row_of_pairs(line: str, pairs: dict[str, str], origin: str) -> Row:
    """Make a row of -P; later versions spell MAJ_MIN and MIN_IO."""
    values = {key.replace("_", "-"): _unescaped(value).strip() for key, value in pairs.items()}
    number = pairs.get("MAJ:MIN") or pairs.get("MAJ_MIN") or ""
    attributes = {_LSBLK_COLUMNS[key]: values[key] for key in _LSBLK_COLUMNS if values.get(key)}
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
    r"""Decode the \xHH of -P, which are bytes."""
    if "\\x" not in value:
        return value
    raw = value.encode("utf-8", "surrogateescape")
    return decode(_HEX.sub(lambda found: bytes([int(found[1], 16)]), raw))


def _row_of_table(groups: dict[str, str | None], origin: str) -> Row:
    name = groups["name"] or ""
    values = {_ATTRIBUTES[key]: value for key, value in groups.items() if key in _ATTRIBUTES}
    known = {key: value for key, value in values.items() if value is not None}
    number = groups.get("number")
    return Row(
        name=name,
        origin=origin,
        kernel_name=groups.get("kernel_name") or _kernel_name(name, number, groups.get("type")),
        number=number,
        attributes=tuple(sorted(known.items())),
    )


def _kernel_name(name: str, number: str | None, kind: str | None) -> str:
    """Return the name in sysfs: of a mapped device it is always dm- and its minor number.

    Source: alloc_dev() of drivers/md/dm.c. lsblk prints the type that the device's UUID names.
    """
    return f"dm-{number.partition(':')[2]}" if number and kind in _MAPPED else name


def _only_match(
    outputs: Sequence[Output], proof: re.Pattern[str], known_uuid: str, what: str
) -> Evidence[str] | None:
    """Return the only good output, or the one whose UUID is the device's."""
    judged = [judge(output, proof, what) for output in outputs]
    good = [each for each in judged if isinstance(each, Known)]
    if not good:
        return judged[0] if judged else None
    own = [each for each in good if not known_uuid or _uuid(each.value) == known_uuid]
    if len({_uuid(each.value) for each in own}) == 1:
        return own[0]
    detail = f"{good[0].origin}: {'not this device by its UUID' if not own else 'ambiguous name'}"
    return Unknown(what, Why.FAILED, f"{detail}; two devices may have one file name", _HINT)


def _uuid_of(paths: Sequence[str], blkid: Blkid) -> str:
    """Return the UUID that blkid saw on a device, "" where it saw none."""
    return next((blkid[path].get("UUID", "").lower() for path in paths if path in blkid), "")


def _uuid(text: str) -> str:
    found = HEADER.search(text)
    return found[1].lower() if found else ""

"""Parse the various outputs of lsblk, dumpe2fs and df in an archive.

sos runs `lsblk`, `lsblk -t` and, since 4.3, `lsblk -O -P`; Insights runs -P with columns;
supportconfig has a different table. In a tree, an empty value shifts the columns, so only the
leading columns are parsed.

sos and Insights run `dumpe2fs -h` on the sources in the mount table, which often differ from the
names that people use (/dev/root, /dev/disk/by-uuid/…). The mangled file name of a command is
lossy, and the text does not name its device, so its UUID must match that of blkid. Until sos 4.0,
the mount point was a second argument (`dumpe2fs -h /dev/sda1 /boot`), which dumpe2fs ignored
before 1.43, and since rejects with a usage message.

sos runs `df -al` and `df -ali`, which print KiB, not blocks. The counts of free blocks and inodes
in the superblock are no substitute: the kernel updates them only occasionally, so a filesystem
could look emptier than it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ext4audit.evidence import CAPTURE_AGAIN, Evidence, Known, Unknown, Why
from ext4audit.sources import decode
from ext4audit.sources.archive.capture import Capture, Output, judge

_BRANCH = r"(?:[|│ ] )*(?:[|`├└][-─])?"
_TREE = re.compile(
    _BRANCH + r"(?P<name>\S+)(?: \((?P<kernel_name>\S+)\))?\s+(?P<number>\d+:\d+)\s+[01]\s+\S+"
    r"\s+(?P<RO>[01])\s+(?P<type>\S+)(?:\s.*)?"
)
_LIMITS = (
    r"\s+(?P<ALIGNMENT>-?\d{1,19})\s+(?P<MIN_IO>\d{1,19})\s+(?P<OPT_IO>\d+)\s+(?P<PHY_SEC>\d+)"
    r"\s+(?P<LOG_SEC>\d+)\s+(?P<ROTA>[01])(?:\s.*)?"
)
_TOPOLOGY = re.compile(_BRANCH + r"(?P<name>\S+)" + _LIMITS)
_SUSE = re.compile(
    _BRANCH + r"(?P<name>\S+)\s+(?P<kernel_name>\S+)\s+(?P<number>\d+:\d+)\s.*"
    r"\s[b-][rwxsStT-]{9}" + _LIMITS
)
_LSBLK_PAIR = re.compile(r'(?<![A-Z0-9:_%-])([A-Z][A-Z0-9:_%-]*)="([^"]*)"')
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")
_ATTRIBUTES = {
    "ALIGNMENT": "alignment_offset",
    "MIN_IO": "queue/minimum_io_size",
    "OPT_IO": "queue/optimal_io_size",
    "PHY_SEC": "queue/physical_block_size",
    "LOG_SEC": "queue/logical_block_size",
    "ROTA": "queue/rotational",
    "RQ_SIZE": "queue/nr_requests",
    "RO": "ro",
    "START": "start",
    "MODEL": "device/model",
}
"""The columns of lsblk, and the sysfs attributes they show."""
_MAPPED = frozenset({"lvm", "crypt", "mpath", "dm", "dmraid", "stratis", "vdo"})
HEADER = re.compile(r"^Filesystem UUID: {10}(\S+)$", re.MULTILINE)
_BLOCK_SIZE = re.compile(r"^Block size: {15}(\d+)$", re.MULTILINE)
_POSSIBLE_BLOCKS = {str(1 << bits): 1 << bits for bits in range(10, 17)}
GROUPS = re.compile(r"^Group \d+: \(Blocks \d+-\d+\)", re.MULTILINE)
Blkid: TypeAlias = Mapping[str, Mapping[str, str]]
"""The keys and values of blkid(8) by path."""
_HEADER = re.compile(r"Filesystem\s+(?P<unit>1K-blocks|1024-blocks|Inodes)\s.*")
_ROW = re.compile(
    r"(?<=\s)(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(?:-|\d{1,3}%)\s(?P<mount_point>/.*)"
)
_INODES = "Inodes"
KIB = 1 << 10


class Row(NamedTuple):
    """One device in the output of lsblk; `attributes` are values with their sysfs names.

    `pairs` is the original line of `lsblk -P` if it has a device number and a kernel name.
    """

    name: str
    origin: str
    kernel_name: str = ""
    number: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()
    pairs: str = ""

    def merged(self, other: Row) -> Row:
        """Return this row, completed with the values that only the other row has."""
        values = {**dict(other.attributes), **dict(self.attributes)}
        return self._replace(
            attributes=tuple(sorted(values.items())), pairs=self.pairs or other.pairs
        )


def lsblk_rows(capture: Capture) -> tuple[Row, ...]:
    """Return the rows of all outputs of lsblk: those of -P first, then those with numbers."""
    rows = [
        row
        for output in capture.outputs("lsblk")
        if not output.status
        for row in _rows(output.text, output.origin)
    ]
    return tuple(sorted(rows, key=lambda row: (not row.pairs, row.number is None)))


class Names(NamedTuple):
    """The paths of one device, and its mount points as spelt in the mount table."""

    paths: tuple[str, ...]
    mount_points: tuple[str, ...] = ()

    def outputs(self, capture: Capture, program: str) -> list[Output]:
        """Return the outputs of a program that was run on this device."""
        lines = (
            f"{program} {path}{place}"
            for path in self.paths
            for place in ("", *(f" {mount_point}" for mount_point in self.mount_points))
        )
        return [output for line in lines for output in capture.run(line)]


def find_header(capture: Capture, names: Names, blkid: Blkid, what: str) -> Evidence[str] | None:
    """Return the `dumpe2fs -h` output for the device with these names, or None if not captured.

    A full dump (`-k filesys.dumpe2fs=on`) begins with the same header and is used too.
    """
    outputs = [*names.outputs(capture, "dumpe2fs -h"), *names.outputs(capture, "dumpe2fs")]
    return _only_match(outputs, HEADER, _uuid_of(names.paths, blkid), what)


def find_groups(capture: Capture, names: Names, blkid: Blkid, what: str) -> Evidence[str] | None:
    """Return the full dumpe2fs output for the device with these names, or None if not captured."""
    outputs = names.outputs(capture, "dumpe2fs")
    return _only_match(outputs, GROUPS, _uuid_of(names.paths, blkid), what)


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
    """Return the row of a -P line; newer versions print MAJ_MIN and MIN_IO, without ":" and "-"."""
    values = {re.sub("[:-]", "_", key): _unescaped(value).strip() for key, value in pairs.items()}
    number, kernel_name = values.get("MAJ_MIN", ""), values.get("KNAME", "")
    is_numbered = re.fullmatch(r"\d+:\d+", number) is not None
    return Row(
        name=pairs.get("NAME", ""),
        origin=origin,
        kernel_name=kernel_name,
        number=number if is_numbered else None,
        attributes=_attributes(values),
        pairs=line if is_numbered and kernel_name else "",
    )


def _attributes(values: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    """Return the sysfs attributes that the non-empty columns of a row show."""
    columns = ((_ATTRIBUTES.get(column), value) for column, value in values.items())
    return tuple(sorted((name, value) for name, value in columns if name and value))


def _unescaped(value: str) -> str:
    r"""Decode the \xHH escapes of -P, which represent bytes."""
    if "\\x" not in value:
        return value
    raw = value.encode("utf-8", "surrogateescape")
    return decode(_HEX.sub(lambda found: bytes([int(found[1], 16)]), raw))


def _row_of_table(groups: dict[str, str | None], origin: str) -> Row:
    name, number = groups["name"] or "", groups.get("number")
    return Row(
        name=name,
        origin=origin,
        kernel_name=groups.get("kernel_name") or _kernel_name(name, number, groups.get("type")),
        number=number,
        attributes=_attributes(groups),
    )


def _kernel_name(name: str, number: str | None, kind: str | None) -> str:
    """Return the name in sysfs, which for a mapped device is always "dm-" and its minor number.

    Source: alloc_dev() in drivers/md/dm.c. lsblk derives the type from the UUID of the device.
    """
    return f"dm-{number.partition(':')[2]}" if number and kind in _MAPPED else name


def _only_match(
    outputs: Sequence[Output], proof: re.Pattern[str], known_uuid: str, what: str
) -> Evidence[str] | None:
    """Return the successful output with the UUID of the device, or an unknown if ambiguous."""
    results = [judge(output, proof, "dumpe2fs", what) for output in outputs]
    good = [each for each in results if isinstance(each, Known)]
    failed = [each for each in results if isinstance(each, Unknown)]
    if not good:
        return replace(failed[0], hint=failed[0].hint or CAPTURE_AGAIN) if failed else None
    own = [each for each in good if not known_uuid or _uuid(each.value) == known_uuid]
    if len({_uuid(each.value) for each in own}) == 1:
        return own[0]
    detail = f"{good[0].origin}: {'not this device by its UUID' if not own else 'ambiguous name'}"
    return Unknown(what, Why.FAILED, f"{detail}; two devices may have one file name", CAPTURE_AGAIN)


def _uuid_of(paths: Sequence[str], blkid: Blkid) -> str:
    """Return the UUID that blkid printed for one of the paths of a device, or ""."""
    return next((blkid[path].get("UUID", "").lower() for path in paths if path in blkid), "")


def _uuid(text: str) -> str:
    found = HEADER.search(text)
    return found[1].lower() if found else ""


def find_block_bytes(
    header: Evidence[str] | None, paths: Sequence[str], blkid: Blkid
) -> int | None:
    """Return the block size in bytes, from dumpe2fs or else from a recent blkid, or None.

    A label can contain a forged line, so the size is unknown if two values differ.
    """
    text = header.value if isinstance(header, Known) else ""
    printed = _BLOCK_SIZE.findall(text) or [
        blkid[path]["BLOCK_SIZE"] for path in paths if "BLOCK_SIZE" in blkid.get(path, {})
    ]
    return _POSSIBLE_BLOCKS.get(printed[0]) if len(set(printed)) == 1 else None


class Counts(NamedTuple):
    """The line of one filesystem in the output of df, in KiB or in inodes."""

    source: str
    mount_point: str
    total: int
    used: int
    free: int


class DiskFree:
    """The lines of df by mount point, for blocks and for inodes."""

    def __init__(self, capture: Capture) -> None:
        self._rows: dict[tuple[str, str], list[Counts]] = {}
        self._origins: dict[str, str] = {}
        for output in capture.outputs("df"):
            for unit, counts in _df_rows(output.text):
                # Only the first output of each kind is used; another may be from a second run.
                if self._origins.setdefault(unit, output.origin) == output.origin:
                    self._rows.setdefault((unit, counts.mount_point), []).append(counts)

    def statfs(
        self,
        mount_point: str,
        number: str,
        number_of: Callable[[str], str | None],
        block_bytes: int | None,
    ) -> Evidence[str] | None:
        """Return the answer to `StatFilesystem`, or None unless df printed blocks and inodes.

        `number` is the device number of the filesystem at `mount_point`; `number_of` returns that
        of a source. Lines of other devices are ignored, because df also lists overmounted
        filesystems. df prints KiB for any block size.
        """
        found = []
        for unit in ("", _INODES):
            rows = self._rows.get((unit, mount_point), ())
            own = [row for row in rows if number_of(row.source) in {None, number}]
            if not own:
                return None
            found.append(own[-1])
        blocks, inodes = found
        origin = f"{self._origins['']}, {self._origins[_INODES]}"
        if block_bytes is None:
            detail = f"{origin}: in KiB, and the size of a block is not in the archive"
            return Unknown(f"statfs {mount_point}", Why.NOT_CAPTURED, detail, CAPTURE_AGAIN)
        free = max(blocks.total - blocks.used, blocks.free)
        counts = (count * KIB // block_bytes for count in (blocks.total, free, blocks.free))
        values = (block_bytes, *counts, inodes.total, inodes.free)
        return Known(" ".join((number, *map(str, values))), origin)


def _df_rows(text: str) -> Iterator[tuple[str, Counts]]:
    """Yield unit and counts of each line; lines with "-" for unavailable counts are skipped."""
    unit: str | None = None
    for line in _joined(text):
        header = _HEADER.fullmatch(line)
        if header:
            unit = _INODES if header["unit"] == _INODES else ""
        row = _ROW.search(line) if unit is not None else None
        if row and unit is not None:
            total, used, free = (int(row[index]) for index in (1, 2, 3))
            source = line[: row.start()].strip()
            yield unit, Counts(source, row["mount_point"], total, used, free)


def _joined(text: str) -> Iterator[str]:
    """Yield the lines of df, rejoined: coreutils before 8.9 splits a line after a long source."""
    before = ""
    for line in text.split("\n"):
        if before and line[:1].isspace():
            yield before + line
        else:
            yield line
        before = "" if " " in line else line

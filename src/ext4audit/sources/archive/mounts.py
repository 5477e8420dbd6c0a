"""The mount table of an archive, composed from other texts if no mountinfo was captured.

A mountinfo that is composed from /proc/mounts has less information: a bind mount of a directory
looks like a mount of the whole filesystem, and the mount ids are line numbers.

Archives do not record resolved links, so paths are resolved with the mount table alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ext4audit.evidence import MOUNT_TABLE, UNKNOWN_NUMBER, Evidence, Known, Unknown, Why
from ext4audit.sources.archive.capture import Capture, output_of, text_of
from ext4audit.sources.archive.devices import MOUNT_TABLES, DeviceTable
from ext4audit.sources.containers import LONGEST_PATH

UTAB = "/run/mount/utab"
_HOST = "/host"
_SYSROOT = re.compile(r'"sysroot": "(/[^"\\]*)"')
FIXED_FIELDS = 6
"""The number of fields before the optional fields of a line (proc_pid_mountinfo(5))."""
_AUTOMOUNT = "autofs"
_EXT = frozenset({"ext2", "ext3", "ext4"})
_OF_A_MOUNT = frozenset(
    ("nosuid nodev noexec noatime nodiratime relatime strictatime nosymfollow idmapped").split()
)
"""Per-mount flags; all other options belong to the superblock (fs/proc_namespace.c)."""
_MOUNT_LINE = re.compile(r"(.*) type (\S+) \(([^()]*)\)(?: \[.*\])?")
_TABLE_LINE = re.compile(r"(\S*) (/\S*) (\S+) (\S.*) [0-9]+ [0-9]+")
_NUMBERED = re.compile(r"\d+ \d+ (\d+:\d+) \S+ (\S+) .* - (\S+) (\S*) \S+")
_NUMBER = re.compile("[0-9]{1,19}")  # int() rejects numbers with thousands of digits
_BLANKS = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
Line = tuple[str, str, str, str]
"""Source, mount point, type and options; names are escaped as in the kernel's tables."""


def read_mountinfo(
    capture: Capture, devices: DeviceTable, sysroot: str = "/"
) -> Evidence[str] | None:
    """Return a captured or composed mountinfo, or None if no mount table was captured.

    In a container, sos captures the container's own table; it reads host files below `sysroot`, and
    only commands run in that directory. Truncated tables are skipped; if there is no other table,
    the result is the Unknown of the first one.
    """
    truncated: Unknown | None = None
    for path in MOUNT_TABLES if sysroot == "/" else reversed(MOUNT_TABLES):
        found = capture.read(path)
        if isinstance(found, Known) and found.value.strip():
            return Known(without_sysroot(found.value, sysroot), path)
        truncated = truncated or _truncated(found)
    for path in ("/proc/mounts", "/proc/self/mounts", "/etc/mtab") if sysroot == "/" else ():
        table = capture.read(path)
        if isinstance(table, Known) and table.value.strip() and table.value.endswith("\n"):
            lines, others = _parse_mount_table(table.value)
            if lines:
                return _mountinfo_of(lines, devices, path, others)
            table = Unknown(path, Why.UNPARSABLE, "no line of it is a mount")
        truncated = truncated or _truncated(table)
    output = output_of(capture, "mount -l", "mount")
    lines = _parse_mount_output(output.text)
    return _mountinfo_of(lines, devices, output.origin) if lines else truncated


def read_utab(capture: Capture, sysroot: str) -> Evidence[str] | None:
    """Return the table of options that mount(8) keeps, composed from the output of `mount`.

    Return None without output, and for a container, because its mount(8) keeps a separate table.
    """
    output = output_of(capture, "mount -l", "mount")
    lines = _parse_mount_output(output.text) if sysroot == "/" else []
    if not lines:
        return None
    rows = (f"SRC={line[0]} TARGET={line[1]} OPTS={_escaped(line[3])}\n" for line in lines)
    return Known("".join(rows), output.origin)


def _truncated(table: Evidence[str] | None) -> Unknown | None:
    """Return the Unknown of a truncated table; None otherwise, even for a link that leads out."""
    return table if isinstance(table, Unknown) and table.why is Why.UNPARSABLE else None


def sysroot_of(capture: Capture) -> str:
    """Return the directory where sos saw the host's "/", such as "/host" in a toolbox.

    The manifest contains it since sos 4.0. Without a manifest, it is "/host" if that is a mount
    point and "/" itself is an overlay.
    """
    sysroot = _SYSROOT.search(text_of(capture, "/sos_reports/manifest.json"))
    if sysroot:
        return sysroot[1].rstrip("/") or "/"
    rows = [line.split(" ") for line in text_of(capture, MOUNT_TABLE).split("\n")]
    mounted = {row[4]: row[2] for row in rows if len(row) > FIXED_FIELDS}
    return _HOST if _HOST in mounted and mounted.get("/", "").startswith("0:") else "/"


def without_sysroot(table: str, sysroot: str) -> str:
    """Return the host's part of a container's mountinfo, with mount points as on the host.

    A table without a mount at `sysroot` is not a container's, and is returned unchanged. Lines
    that are too short to have a mount point are kept, so that they remain gaps.
    """
    rows = [line.split(" ") for line in table.split("\n") if line]
    if sysroot == "/" or not any(row[4:5] == [sysroot] for row in rows):
        return table
    return "".join(f"{' '.join(row)}\n" for row in map(partial(_on_host, sysroot), rows) if row)


def _on_host(sysroot: str, row: list[str]) -> list[str]:
    """Return the fields of a mountinfo line as on the host, or [] for a mount of the container."""
    if len(row) < FIXED_FIELDS:
        return row
    place = row[4]
    if place != sysroot and not place.startswith(f"{sysroot}/"):
        return []
    return [*row[:4], place.removeprefix(sysroot) or "/", *row[5:]]


class MountPoint(NamedTuple):
    """A mount: its id, the device number of its filesystem, and its mount point."""

    mount_id: int
    device_number: str
    place: str


class MountTable:
    """Devices and paths in a mount table; `sysroot` is the directory where sos saw the host's "/".

    `at` maps each mount point to the last mount on it, which is on top. `sources` and `places` map
    device numbers of ext2, ext3 and ext4 mounts to their sources and mount points; the latter are
    spelt as sos saw them.
    """

    def __init__(self, mountinfo: str, sysroot: str = "/") -> None:
        lines = [line for line in mountinfo.split("\n") if line]
        rows = [
            row
            for row in (line.split(" ") for line in lines)
            if len(row) >= FIXED_FIELDS and _NUMBER.fullmatch(row[0])
        ]
        mounts = [MountPoint(int(row[0]), row[2], _unescaped(row[4])) for row in rows]
        self.at = {mount.place: mount for mount in mounts}
        self._is_whole = len(mounts) == len(lines)
        self.sources: dict[str, dict[str, None]] = {}
        self.places: dict[str, list[str]] = {}
        for match in map(_NUMBERED.fullmatch, lines):
            if match and match[3] in _EXT:
                self.sources.setdefault(match[1], {})[_unescaped(match[4])] = None
                self.places.setdefault(match[1], []).append(sysroot.rstrip("/") + match[2])
        numbered = reversed(self.sources.items())  # the first number of a source counts
        self._numbers = {source: number for number, sources in numbered for source in sources}

    def number_of(self, source: str) -> str | None:
        """Return the device number of the mount with this source path, or None."""
        return self._numbers.get(source)

    def resolve(self, path: str) -> Known[str] | None:
        """Return the KEY=value lines of `ResolvePath`, or None if they are unknown.

        If a line of the table could not be parsed, only mount points are resolved: that line could
        be a mount between the path and the mount found above it. The kernel resolves no path of
        more than PATH_MAX; the tables of an archive can have one of many MiB.
        """
        if len(path) > LONGEST_PATH:
            return None
        ends = [index for index, character in enumerate(path) if character == "/"]
        above = (path, *(path[:end] or "/" for end in reversed(ends)))
        mount = next((self.at[place] for place in above if place in self.at), None)
        if mount is None or mount.device_number == UNKNOWN_NUMBER:
            return None
        is_point = mount.place == path
        if not is_point and not self._is_whole:
            return None
        kind = "directory" if is_point else "file"
        lines = (mount.mount_id, mount.device_number, kind)
        return Known("mount_id={}\ndevice_number={}\ntype={}".format(*lines), MOUNT_TABLE)


def mounted_files(capture: Capture) -> dict[str, Known[str]]:
    """Return the image files behind mounted loop devices, by device number.

    mount(8) prints the image file as the source; mountinfo has the number of the device. Both list
    the mounts on one directory in the same order. If their counts differ, the pairs are unknown:
    mount(8) can omit automounts.
    """
    numbers, sources = dict[str, list[str]](), dict[str, list[str]]()
    for match in map(_NUMBERED.fullmatch, text_of(capture, MOUNT_TABLE).split("\n")):
        if match and match[3] != _AUTOMOUNT:
            numbers.setdefault(match[2], []).append(match[1])
    output = output_of(capture, "mount -l", "mount")
    for source, mount_point, fstype, _ in _parse_mount_output(output.text):
        if fstype != _AUTOMOUNT:
            sources.setdefault(mount_point, []).append(source)
    pairs = (
        pair
        for place, here in sources.items()
        if len(here) == len(numbers.get(place, ()))
        for pair in zip(numbers[place], here, strict=True)
    )
    return {
        number: Known(_unescaped(source), output.origin)
        for number, source in pairs
        if source.startswith("/") and not source.startswith("/dev/")
    }


def _parse_mount_table(text: str) -> tuple[list[Line], list[str]]:
    """Parse /proc/mounts or an mtab; also return the lines that are no mounts.

    Options can contain blanks ("path=C:/Program Files" of 9p), names cannot.
    """
    rows = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    found = [(row, _TABLE_LINE.fullmatch(row)) for row in rows]
    lines = [(each[1], each[2], each[3], each[4]) for _, each in found if each]
    return lines, [row for row, each in found if each is None]


def _parse_mount_output(text: str) -> list[Line]:
    """Parse `mount -l`, whose names are not escaped: "/dev/vda1 on /srv type ext4 (rw) [label]"."""
    lines = []
    for match in map(_MOUNT_LINE.fullmatch, text.split("\n")):
        source, on, mount_point = match[1].rpartition(" on /") if match else ("", "", "")
        if match and on:
            lines.append((_escaped(source), _escaped(f"/{mount_point}"), match[2], match[3]))
    return lines


def _mountinfo_of(
    lines: Sequence[Line], devices: DeviceTable, origin: str, others: Sequence[str] = ()
) -> Evidence[str]:
    """Return a mountinfo; the number of an ext4 filesystem on an unlisted device is "?:?".

    This makes its line unparsable, and thereby a known gap, without affecting other lines. So are
    `others`, the lines of the table that are no mounts.
    """
    rows, places = [], dict[str, int]()
    for index, (source, mount_point, fstype, options) in enumerate(lines, 1):
        unknown = UNKNOWN_NUMBER if fstype in _EXT else f"0:{index}"
        number = devices.number_of(_unescaped(source)) or unknown
        own, shared = _split_options(options)
        parent = _parent(mount_point, places)
        places[mount_point] = index
        rows.append(f"{index} {parent} {number} / {mount_point} {own} - {fstype} {source} {shared}")
    return Known("\n".join((*rows, *others)) + "\n", origin)


def _split_options(options: str) -> tuple[str, str]:
    """Split the options of /proc/mounts into per-mount and superblock options."""
    every = options.split(",")
    own = [option for option in every if option in _OF_A_MOUNT or option in {"ro", "rw"}]
    shared = [option for option in every if option not in _OF_A_MOUNT]
    return ",".join(own) or "rw", ",".join(shared) or "rw"


def _parent(mount_point: str, before: Mapping[str, int]) -> int:
    """Return the line number of the parent mount: the last one whose mount point contains it."""
    place = mount_point if len(mount_point) <= LONGEST_PATH else "/"
    while place not in before and place.strip("/"):
        place = place.rpartition("/")[0]
    return before.get(place or "/", 0)


def _escaped(name: str) -> str:
    return "".join(_BLANKS.get(character, character) for character in name)


def _unescaped(name: str) -> str:
    for character, escape in _BLANKS.items():
        name = name.replace(escape, character)
    return name

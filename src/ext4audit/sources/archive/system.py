"""The system that an archive is of: kernel, memory, name, time, and its mount table.

A mountinfo that is composed from /proc/mounts lacks what that lacks: a bind mount of a directory
looks like one of the whole filesystem, and the mount ids are line numbers.

No archive holds device nodes or resolves links. A device path is known from the listings of
devices, a mount point and a path of the kernel from the mount table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TypeAlias

from ext4audit.evidence import UNDATED, Evidence, Known, Unknown, Why
from ext4audit.sources.archive.capture import Capture, output_of, text_of
from ext4audit.sources.archive.devices import MOUNT_TABLES, DeviceTable

LONGEST_UNAME = 1024
"""Six fields of at most 64 bytes each (uname(2)); a longer text is an attack on the pattern."""

_UNAME = re.compile(r"Linux (?P<node>.*?) (?P<release>\d+\.\d+\S*) (?P<version>#.*) \S+\s*")
_PROC_VERSION = re.compile(r"Linux version (?P<release>\S+) .*?(?P<version>#\d.*)\s*")
_MEMINFO = re.compile(r"^(\w+):\s+(\d{1,15}) kB$", re.MULTILINE)
_FREE = re.compile(r"^Mem:\s+(\d{1,19})(?:\s+\d+){4}\s+(\d{1,19})\s*$", re.MULTILINE)
_CLOCK = re.compile(
    r"\w{3} (?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?:UTC|GMT) "
    r"(?P<year>\d{4})"
)
_UNIVERSAL = re.compile(r"Universal time: \w{3} (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC")
_STARTED = re.compile(r'"start_time": "(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)')
_IN_NAME = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?:([0-2]\d)([0-5]\d)([0-5]\d))?(?!\d)")
_SHORT = re.compile(r"_(\d\d)([01]\d)([0-3]\d)_([0-2]\d)([0-5]\d)(?!\d)")


def uname(capture: Capture) -> Known[str] | None:
    """Return release, version, machine and node name, one a line, as the ask has them."""
    output = output_of(capture, "uname -a")
    found = _UNAME.fullmatch(output.text[:LONGEST_UNAME])
    if found:
        *words, machine = _without_repeats(found["version"].split(" "))
        name = host_name(capture)
        return Known("\n".join((found["release"], " ".join(words), machine, name)), output.origin)
    version = _PROC_VERSION.fullmatch(text_of(capture, "/proc/version")[:LONGEST_UNAME])
    if version is None:
        return None
    lines = (version["release"], version["version"].strip(), "", host_name(capture))
    return Known("\n".join(lines), "/proc/version")


def _without_repeats(words: list[str]) -> list[str]:
    """Drop the processor and platform, which RHEL's uname prints behind the same machine."""
    while len(words) > 1 and words[-1] == words[-2]:
        words = words[:-1]
    return words


def host_name(capture: Capture) -> str:
    """Return the host's name, "" where it is not known.

    `hostname -f` comes last: it queries the resolver, which may return "localhost.localdomain".
    """
    texts = (
        printed_name(capture),
        node_name(capture),
        output_of(capture, "hostname -f").text,
        text_of(capture, "/proc/sys/kernel/hostname"),
    )
    names = (text.strip("\n") for text in texts)
    return next((name for name in names if name and "\n" not in name), "")


def printed_name(capture: Capture) -> str:
    """Return what `hostname` printed, "" where it did not run: the node name of uname(2)."""
    name = output_of(capture, "hostname").text.strip("\n")
    return "" if "\n" in name or " " in name else name


def node_name(capture: Capture) -> str:
    """Return the node name that `uname -a` printed, "" where it did not run."""
    found = _UNAME.fullmatch(output_of(capture, "uname -a").text[:LONGEST_UNAME])
    return found["node"] if found else ""


def memory(capture: Capture) -> Known[str] | None:
    """Return total and available memory in bytes, one a line."""
    fields = dict(_MEMINFO.findall(text_of(capture, "/proc/meminfo")))
    if {"MemTotal", "MemAvailable"} <= fields.keys():
        sizes = [int(fields[key]) * 1024 for key in ("MemTotal", "MemAvailable")]
        return Known(f"{sizes[0]}\n{sizes[1]}", "/proc/meminfo")
    output = output_of(capture, "free", "free -k")
    found = _FREE.search(output.text) if "available" in output.text else None
    if found is None:
        return None
    return Known(f"{int(found[1]) * 1024}\n{int(found[2]) * 1024}", output.origin)


def setting(capture: Capture, path: str) -> Known[str] | None:
    """Return a value of /proc/sys, as `sysctl -a` printed it."""
    name = path.removeprefix("/proc/sys/").replace("/", ".")
    for output in capture.run("sysctl -a"):
        found = re.search(rf"^{re.escape(name)} = (.*)$", output.text, re.MULTILINE)
        if found:
            return Known(f"{found[1]}\n", output.origin)
    return None


def taken_at(capture: Capture, label: str) -> str:
    """Return when an archive was made, in RFC 3339, UTC.

    The clocks that name their zone count first. The times of sos's manifest and of a file name
    are local ones without a zone, and stand for UTC where nothing better is there.
    """
    for text in _clocks(capture):
        found = _CLOCK.search(text)
        if found:
            clock = "{day} {month} {year} {clock}".format(**found.groupdict())
            return _rfc3339(clock, "%d %b %Y %H:%M:%S")
    local = _UNIVERSAL.search(output_of(capture, "timedatectl").text) or _STARTED.search(
        text_of(capture, "/sos_reports/manifest.json")
    )
    return (
        _rfc3339(f"{local[1]} {local[2]}", "%Y-%m-%d %H:%M:%S") if local else _time_in_name(label)
    )


def _clocks(capture: Capture) -> tuple[str, ...]:
    return tuple(output_of(capture, line).text for line in ("date --utc", "date"))


def _rfc3339(text: str, form: str) -> str:
    try:
        parsed = datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except ValueError:
        return UNDATED
    return parsed.strftime("%Y-%m-%dT%H:%M:%SZ")


def _time_in_name(label: str) -> str:
    """Return the time in the name of an archive: sosreport-h-2026-11-21-…, scc_h_261121_0557."""
    long = _IN_NAME.search(label)
    if long:
        return _rfc3339("".join(part or "" for part in long.groups("00")), "%Y%m%d%H%M%S")
    short = _SHORT.search(label)
    return _rfc3339(f"20{''.join(short.groups())}", "%Y%m%d%H%M") if short else UNDATED


MOUNTINFO = "/proc/self/mountinfo"
UTAB = "/run/mount/utab"
_HOST = "/host"
_SYSROOT = re.compile(r'"sysroot": "(/[^"\\]*)"')
UNKNOWN_NUMBER = "?:?"
"""The device number of a mount that no listing of devices has, as the parser knows it."""
FIXED_FIELDS = 6
"""Before the optional fields of a line (proc_pid_mountinfo(5))."""
_EXT = frozenset({"ext2", "ext3", "ext4"})
_OF_A_MOUNT = frozenset(
    ("nosuid nodev noexec noatime nodiratime relatime strictatime nosymfollow idmapped").split()
)
"""Flags of one mount; all other options are of the superblock (fs/proc_namespace.c)."""
_MOUNT_LINE = re.compile(r"(.*) type (\S+) \(([^()]*)\)(?: \[.*\])?")
_NUMBERED = re.compile(r"\d+ \d+ (\d+:\d+) \S+ (\S+) .* - (\S+) (\S*) \S+")
_NUMBER = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits
_DEVICES = "0:5"
"""The device number of devtmpfs; the ask needs one that is no ext4 filesystem's."""
_BLANKS = {" ": "\\040", "\t": "\\011", "\n": "\\012", "\\": "\\134"}
Line = tuple[str, str, str, str]
"""Source, mount point, type and options; names escaped as the kernel writes them."""
MountPoint: TypeAlias = tuple[int, str, str]
"""The id, device number and mount point of a mount."""


def read_mountinfo(
    capture: Capture, devices: DeviceTable, sysroot: str = "/"
) -> Evidence[str] | None:
    """Return the text of mountinfo, or one composed; None where no mount table was captured.

    From a container, sos reads its own table, and the files of the host below `sysroot`. Only
    commands run in that directory. A table that is cut off counts as none, and is the reason
    where no other one is there.
    """
    cut: Unknown | None = None
    for path in MOUNT_TABLES if sysroot == "/" else reversed(MOUNT_TABLES):
        found = capture.read(path)
        if isinstance(found, Known) and found.value.strip():
            return Known(without_sysroot(found.value, sysroot), path)
        cut = cut or _cut(found)
    for path in ("/proc/mounts", "/proc/self/mounts", "/etc/mtab") if sysroot == "/" else ():
        table = capture.read(path)
        if isinstance(table, Known) and table.value.strip() and table.value.endswith("\n"):
            return _mountinfo_of(_parse_mount_table(table.value), devices, path)
        cut = cut or _cut(table)
    output = output_of(capture, "mount -l", "mount")
    lines = _parse_mount_output(output.text)
    return _mountinfo_of(lines, devices, output.origin) if lines else cut


def read_utab(capture: Capture, sysroot: str) -> Evidence[str] | None:
    """Return a table of the options that mount(8) keeps, composed of what it prints.

    None without its output, and from a container, whose mount(8) has a table of its own.
    """
    output = output_of(capture, "mount -l", "mount")
    lines = _parse_mount_output(output.text) if sysroot == "/" else []
    if not lines:
        return None
    rows = (f"SRC={line[0]} TARGET={line[1]} OPTS={_escaped(line[3])}\n" for line in lines)
    return Known("".join(rows), output.origin)


def _cut(table: Evidence[str] | None) -> Unknown | None:
    """Return a table that is cut off; one behind a link out of the archive is as good as none."""
    return table if isinstance(table, Unknown) and table.why is Why.UNPARSABLE else None


def sysroot_of(capture: Capture) -> str:
    """Return where sos saw the host's "/": "/host" in a toolbox.

    The manifest tells since sos 4.0. Without one it is the usual place, if there is a mount and
    "/" itself is an overlay.
    """
    sysroot = _SYSROOT.search(text_of(capture, "/sos_reports/manifest.json"))
    if sysroot:
        return sysroot[1].rstrip("/") or "/"
    rows = [line.split(" ") for line in text_of(capture, MOUNTINFO).split("\n")]
    mounted = {row[4]: row[2] for row in rows if len(row) > FIXED_FIELDS}
    return _HOST if _HOST in mounted and mounted.get("/", "").startswith("0:") else "/"


def without_sysroot(table: str, sysroot: str) -> str:
    """Return the host's part of a container's mountinfo, with the mount points of the host.

    A table without a mount at `sysroot` is not a container's, and is returned unchanged. So is a
    line that is too short for a mount point: it is a gap in either.
    """
    rows = [line.split(" ") for line in table.split("\n") if line]
    if sysroot == "/" or not any(row[4:5] == [sysroot] for row in rows):
        return table
    return "".join(f"{' '.join(row)}\n" for row in map(partial(_on_host, sysroot), rows) if row)


def _on_host(sysroot: str, row: list[str]) -> list[str]:
    """Return a line of mountinfo as the host has it, nothing for a mount of the container's."""
    if len(row) < FIXED_FIELDS:
        return row
    place = row[4]
    if place != sysroot and not place.startswith(f"{sysroot}/"):
        return []
    return [*row[:4], place.removeprefix(sysroot) or "/", *row[5:]]


def mounted_sources(mountinfo: str) -> dict[str, tuple[str, ...]]:
    """Return the sources of the ext2, ext3 and ext4 mounts by device number."""
    found: dict[str, list[str]] = {}
    for line in mountinfo.split("\n"):
        match = _NUMBERED.fullmatch(line)
        if match and match[3] in _EXT:
            found.setdefault(match[1], []).append(_unescaped(match[4]))
    return {number: tuple(dict.fromkeys(sources)) for number, sources in found.items()}


def mounted_places(mountinfo: str, sysroot: str = "/") -> dict[str, tuple[str, ...]]:
    """Return the ext2, ext3 and ext4 mount points by number, as sos saw and spelt them."""
    found: dict[str, list[str]] = {}
    for line in mountinfo.split("\n"):
        match = _NUMBERED.fullmatch(line)
        if match and match[3] in _EXT:
            found.setdefault(match[1], []).append(sysroot.rstrip("/") + match[2])
    return {number: tuple(places) for number, places in found.items()}


def mounted_files(capture: Capture) -> dict[str, Known[str]]:
    """Return the image files behind loop devices by number, as mount(8) names them.

    mountinfo names the devices.
    """
    numbers: dict[str, set[str]] = {}
    for match in map(_NUMBERED.fullmatch, text_of(capture, MOUNTINFO).split("\n")):
        if match:
            numbers.setdefault(match[2], set()).add(match[1])
    output = output_of(capture, "mount -l", "mount")
    found: dict[str, Known[str]] = {}
    for source, mount_point, _, _ in _parse_mount_output(output.text):
        if source.startswith("/") and not source.startswith("/dev/"):
            for number in numbers.get(mount_point, ()):
                found.setdefault(number, Known(_unescaped(source), output.origin))
    return found


def mount_points_of(mountinfo: str) -> tuple[MountPoint, ...]:
    """Return id, device number and mount point of each line of a mount table."""
    rows = (line.split(" ") for line in mountinfo.split("\n"))
    return tuple(
        (int(row[0]), row[2], _unescaped(row[4]))
        for row in rows
        if len(row) >= FIXED_FIELDS and _NUMBER.fullmatch(row[0])
    )


def resolve_path(
    path: str,
    devices: DeviceTable,
    sources: Mapping[str, tuple[str, ...]],
    mount_points: Mapping[str, MountPoint],
    *,
    whole: bool = True,
) -> Evidence[str] | None:
    """Return the KEY=value lines of a path, None where it is not known what it led to.

    A line of the table that could not be read may be of a mount between a path and the mount
    above it: `whole` is whether all of them could.
    """
    if path.startswith("/dev/"):
        number = devices.number_of(path) or next(
            (number for number, names in sources.items() if path in names), None
        )
        return (
            Known(_lines(0, _DEVICES, "block", number), "listings of devices") if number else None
        )
    found = mount_of(path, mount_points)
    if found is None:
        return None
    mount_id, number, mount_point = found
    kind = "directory" if mount_point == path else "file"
    if number == UNKNOWN_NUMBER or (kind == "file" and not whole):
        return None
    return Known(_lines(mount_id, number, kind, None), "/proc/self/mountinfo")


def _parse_mount_table(text: str) -> list[Line]:
    rows = (line.split(" ") for line in text.split("\n"))
    return [(row[0], row[1], row[2], row[3]) for row in rows if len(row) >= 4]  # noqa: PLR2004 - the four fields


def _parse_mount_output(text: str) -> list[Line]:
    """Parse `mount -l`: "/dev/vda1 on /srv type ext4 (rw,relatime) [label]", names unescaped."""
    lines = []
    for match in map(_MOUNT_LINE.fullmatch, text.split("\n")):
        source, on, mount_point = match[1].rpartition(" on /") if match else ("", "", "")
        if match and on:
            lines.append((_escaped(source), _escaped(f"/{mount_point}"), match[2], match[3]))
    return lines


def _mountinfo_of(lines: Sequence[Line], devices: DeviceTable, origin: str) -> Evidence[str]:
    """Return the table; an ext4 filesystem on a device without a number has "?:?" for it.

    Its line is then known not to be readable, and costs no other one.
    """
    made, places = [], dict[str, int]()
    for index, (source, mount_point, fstype, options) in enumerate(lines, 1):
        unknown = UNKNOWN_NUMBER if fstype in _EXT else f"0:{index}"
        number = devices.number_of(_unescaped(source)) or unknown
        own, shared = _split_options(options)
        parent = _parent(mount_point, places)
        places[mount_point] = index
        made.append(f"{index} {parent} {number} / {mount_point} {own} - {fstype} {source} {shared}")
    return Known("\n".join(made) + "\n", origin)


def _split_options(options: str) -> tuple[str, str]:
    """Split the options of /proc/mounts into a mount's own and its superblock's."""
    every = options.split(",")
    own = [option for option in every if option in _OF_A_MOUNT or option in {"ro", "rw"}]
    shared = [option for option in every if option not in _OF_A_MOUNT]
    return ",".join(own) or "rw", ",".join(shared) or "rw"


def _parent(mount_point: str, before: Mapping[str, int]) -> int:
    """Return the line number of the parent mount: the last one whose mount point contains it."""
    place = mount_point
    while place not in before and place.strip("/"):
        place = place.rpartition("/")[0]
    return before.get(place or "/", 0)


def _escaped(name: str) -> str:
    return "".join(_BLANKS.get(character, character) for character in name)


def _lines(mount_id: int, number: str, kind: str, represents: str | None) -> str:
    lines = [f"mount_id={mount_id}", f"device_number={number}", f"type={kind}"]
    return "\n".join([*lines, f"represents={represents}"] if represents else lines)


def mount_of(path: str, mount_points: Mapping[str, MountPoint]) -> MountPoint | None:
    """Return the mount that holds a path: the last of the longest mount points."""
    ends = [index for index, character in enumerate(path) if character == "/"]
    above = (path, *(path[:end] or "/" for end in reversed(ends)))
    return next((mount_points[place] for place in above if place in mount_points), None)


def _unescaped(name: str) -> str:
    for character, escape in _BLANKS.items():
        name = name.replace(escape, character)
    return name

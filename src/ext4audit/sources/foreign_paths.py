"""What a path of the archive's host led to, as far as its tables tell.

No archive holds device nodes, and none can say what a link in a path leads to; a device path is
known by the listings of devices, a mount point and a kernel's own path by the mount table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ext4audit.evidence import Evidence, Known
from ext4audit.sources.foreign_devices import DeviceTable

Holder: TypeAlias = tuple[int, str, str]
"""The id, device number and mount point of a mount."""

FIXED_FIELDS = 6
"""Before the optional fields of a line (proc_pid_mountinfo(5))."""

_NUMBER = re.compile("[0-9]{1,19}")  # int() refuses numbers of thousands of digits

_DEVICES = "0:5"
"""The number of devtmpfs here is of no interest; the asks want one that is no filesystem's."""


def resolve_path(
    path: str,
    devices: DeviceTable,
    sources: Mapping[str, tuple[str, ...]],
    holders: Sequence[Holder],
) -> Evidence[str] | None:
    """Return the KEY=value lines of a path, None where nothing tells what it led to."""
    if path.startswith("/dev/"):
        number = devices.number_of(path) or next(
            (number for number, names in sources.items() if path in names), None
        )
        return (
            Known(_lines(0, _DEVICES, "block", number), "listings of devices") if number else None
        )
    found = _holder(path, holders)
    if found is None:
        return None
    mount_id, number, mount_point = found
    kind = "directory" if mount_point == path else "file"
    return Known(_lines(mount_id, number, kind, None), "/proc/self/mountinfo")


def _lines(mount_id: int, number: str, kind: str, represents: str | None) -> str:
    lines = [f"mount_id={mount_id}", f"device_number={number}", f"type={kind}"]
    return "\n".join([*lines, f"represents={represents}"] if represents else lines)


def holders_of(mountinfo: str) -> tuple[Holder, ...]:
    """Return id, device number and mount point of each line of a mount table."""
    rows = (line.split(" ") for line in mountinfo.split("\n"))
    return tuple(
        (int(row[0]), row[2], _decoded(row[4]))
        for row in rows
        if len(row) >= FIXED_FIELDS and _NUMBER.fullmatch(row[0])
    )


def _holder(path: str, holders: Sequence[Holder]) -> Holder | None:
    """Return the mount that holds a path: the last of the longest mount points."""
    best: Holder | None = None
    for holder in holders:
        mount_point = holder[2]
        inside = path == mount_point or path.startswith(mount_point.rstrip("/") + "/")
        if inside and (best is None or len(mount_point) >= len(best[2])):
            best = holder
    return best


def _decoded(name: str) -> str:
    if "\\" not in name:
        return name
    for escape, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(escape, character)
    return name

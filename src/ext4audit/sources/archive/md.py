"""Compose the sysfs attributes of md arrays from `mdadm -D`, `mdadm -E` and /proc/mdstat.

Source: mdadm(8) 4.2, Detail.c, Documentation/admin-guide/md.rst, drivers/md/md.c (md_seq_show).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property

from ext4audit.sources.archive.capture import Capture, text_of

_FIELD = re.compile(r"\s*([A-Z][A-Za-z ]*?) : (.*)")
_MEMBER = re.compile(r"\s+\d+\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,9}|-)\s+(?:\S.*?)?(/dev/\S+)\s*")
_MDSTAT = re.compile(r"(\S+) : \S+ (?:\(\S+\) )?(linear|raid\d+|multipath|faulty) (\S.*)")
_MDSTAT_MEMBER = re.compile(r"(?<!\S)(\S+?)\[(\d{1,19})\]((?:\(\w\))*)")
_PARITY_LAYOUTS = ("left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric")
"""`md/layout` of raid4, 5 and 6, by index (drivers/md/raid5.h, ALGORITHM_*)."""
_RAID0_LAYOUTS = {"original": 1, "alternate": 2}
_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20}
_REDUNDANT = frozenset({"raid1", "raid4", "raid5", "raid6", "raid10"})
"""The levels with `degraded` and `sync_action` in sysfs."""
_STATES = {
    "recovering": "recover",
    "resyncing": "resync",
    "reshaping": "reshape",
    "checking": "check",
}
"""The states that `mdadm -D` prints, and the equivalent values of `sync_action`."""
_SLOTS = re.compile(r"\[(\d{1,9})/(\d{1,9})\]")
_PROGRESS = re.compile(r"\b(recover|resync|reshape|check|repair)y?\s*=(?!PENDING)")
"""Excludes pending actions, which wait for the first write to an array that is still read-only."""
_CHUNK = re.compile(r"(\d{1,9})[kK] (?:chunks?|rounding)\b")
"""The chunk size in KiB; drivers/md/raid10.c prints a capital K."""


class Arrays:
    """The md arrays of a host, as shown in the texts of an archive.

    The texts are parsed only once, because a host can have a thousand arrays.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def attributes(self, name: str, name_of: Callable[[str], str | None]) -> dict[str, str]:
        """Return the known attributes of an array by path below `md/`, empty if there are none.

        `name_of` returns the sysfs name for a device number.
        """
        shown = dict(self._shown.get(name, {}))
        body = self._details.get(f"/dev/{name}")
        detail = _from_mdadm(self._capture, body, name_of) if body is not None else {}
        return detail | _worst(detail, shown) if detail else shown

    @cached_property
    def _shown(self) -> dict[str, dict[str, str]]:
        """The attributes in /proc/mdstat, by array name."""
        return _mdstat_arrays(text_of(self._capture, "/proc/mdstat"))

    @cached_property
    def _details(self) -> dict[str, str]:
        """The first output of `mdadm -D` for each array, by path."""
        found: dict[str, str] = {}
        for output in self._capture.outputs("mdadm"):
            for path, body in _arrays(output.text):
                found.setdefault(path, body)
        return found


def _worst(*seen: Mapping[str, str]) -> dict[str, str]:
    """Return the worst state in several texts: most missing members, and any running action.

    The texts were captured at different moments; a member missing in one of them was missing then.
    """
    missing = [each["degraded"] for each in seen if each.get("degraded")]
    actions = [each["sync_action"] for each in seen if each.get("sync_action")]
    worst = {"degraded": max(missing, key=int)} if missing else {}
    if actions:
        worst["sync_action"] = next((each for each in actions if each != "idle"), "idle")
    return worst


def _arrays(text: str) -> list[tuple[str, str]]:
    """Return path and body of each array in the output of `mdadm -D /dev/md*`."""
    parts = re.split(r"^(/dev/\S+):$", text, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def _fields(body: str) -> dict[str, str]:
    found = (_FIELD.fullmatch(line) for line in body.split("\n"))
    return {match[1]: match[2].strip() for match in found if match}


def _from_mdadm(
    capture: Capture, body: str, name_of: Callable[[str], str | None]
) -> dict[str, str]:
    fields = _fields(body)
    if "Raid Level" not in fields:
        return {}
    attributes = {
        "level": fields["Raid Level"],
        "chunk_size": str(_chunk_bytes(fields.get("Chunk Size", "0K"))),
        "raid_disks": fields.get("Raid Devices", ""),
        "layout": _layout(fields),
        "reshape_position": fields.get("Reshape Status", "none"),
        **_state(fields),
    }
    for line in body.split("\n"):
        member = _MEMBER.fullmatch(line)
        kernel_name = name_of(f"{member[1]}:{member[2]}") if member else None
        if member and kernel_name:
            slot = "none" if member[3] == "-" else member[3]
            attributes |= _member(capture, kernel_name, member[4], slot, fields)
    return {key: value for key, value in attributes.items() if value}


def _state(fields: Mapping[str, str]) -> dict[str, str]:
    """Return `degraded` and `sync_action` of an array with redundancy; empty for other levels.

    `mdadm -D` counts only members with complete data as active. Like `md/degraded`, this excludes a
    spare that is being rebuilt.
    """
    if fields["Raid Level"] not in _REDUNDANT:
        return {}
    state = fields.get("State", "")
    counts = [fields.get(f"{kind} Devices", "") for kind in ("Raid", "Active")]
    disks, active = (int(text) if re.fullmatch(r"\d{1,9}", text) else None for text in counts)
    pending = "(PENDING)" in state
    running = [action for word, action in _STATES.items() if word in state and not pending]
    return {
        "degraded": "" if disks is None or active is None else str(max(disks - active, 0)),
        "sync_action": next(iter(running), "idle") if state else "",
    }


def _member(
    capture: Capture, name: str, path: str, slot: str, fields: Mapping[str, str]
) -> dict[str, str]:
    """Return the attributes of a member; offset and size are from its superblock (`mdadm -E`)."""
    own = next(
        (_fields(each.text) for each in capture.run(f"mdadm -E {path}") if not each.status), {}
    )
    offset = re.match(r"(\d{1,19}) sectors", own.get("Data Offset", ""))
    sectors = re.match(r"\d{1,19}", own.get("Avail Dev Size", ""))
    used_kib = re.match(r"\d{1,19}", fields.get("Used Dev Size", ""))
    size = str(int(sectors[0]) // 2) if sectors else used_kib[0] if used_kib else ""
    prefix = f"dev-{name}"
    return {
        f"{prefix}/slot": slot,
        f"{prefix}/offset": offset[1] if offset else "",
        f"{prefix}/size": size,
    }


def _chunk_bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,9})([KMG])", text)
    return int(found[1]) * _KIB[found[2]] * 1024 if found else 0


def _layout(fields: Mapping[str, str]) -> str:
    """Return the number of the layout, as in `md/layout`, or "" if it is unknown."""
    layout = fields.get("Layout", "")
    raid10 = re.fullmatch(r"(near|far|offset)=(\d)", layout)
    if raid10:
        return str(_raid10(raid10[1], int(raid10[2])))
    if layout in _PARITY_LAYOUTS:
        return str(_PARITY_LAYOUTS.index(layout))
    return str(_RAID0_LAYOUTS[layout]) if layout in _RAID0_LAYOUTS else ""


def _raid10(kind: str, copies: int) -> int:
    """Return near copies | far copies << 8 | offset bit (drivers/md/raid10.c)."""
    if kind == "near":
        return copies | 1 << 8
    return 1 | copies << 8 | (1 << 16 if kind == "offset" else 0)


def _mdstat_arrays(mdstat: str) -> dict[str, dict[str, str]]:
    """Return level, slots, chunk size and state of each array in /proc/mdstat.

    The layout stays unknown without offsets and sizes, but the device is known to be an array.
    """
    found: dict[str, dict[str, str]] = {}
    array: re.Match[str] | None = None
    following: list[str] = []
    for line in [*mdstat.split("\n"), ""]:
        began = _MDSTAT.fullmatch(line)
        if array and (began or not line.strip()):
            attributes = _mdstat_attributes(array[2], array[3], "\n".join(following))
            found.setdefault(array[1], attributes)
            array = None
        if began:
            array, following = began, []
        else:
            following.append(line)
    return found


def _mdstat_attributes(level: str, members: str, following: str) -> dict[str, str]:
    attributes = {"level": level}
    chunk = _CHUNK.search(following)
    if chunk:
        attributes["chunk_size"] = str(int(chunk[1]) * 1024)
    slots = _SLOTS.search(following)
    if slots and level in _REDUNDANT:
        running = _PROGRESS.search(following)
        attributes |= {
            "raid_disks": slots[1],
            "degraded": str(max(int(slots[1]) - int(slots[2]), 0)),
            "sync_action": running[1] if running else "idle",
        }
    for member in _MDSTAT_MEMBER.finditer(members):
        # The number in brackets is the slot until a member is replaced; mdadm -D shows the slot.
        in_array = member[3] in {"", "(W)"}  # (S) is a spare, (F) has failed, (W) is write-mostly
        attributes[f"dev-{member[1].replace('/', '!')}/slot"] = member[2] if in_array else "none"
    return attributes

"""An md array from sysfs (Documentation/admin-guide/md.rst)."""

from __future__ import annotations

from ext4audit.assemble.reading import integer, names, read, word
from ext4audit.evidence import Evidence, Known, Unknown, derive, value_or
from ext4audit.facts.block import MdArray, MdMember
from ext4audit.parsers.sysfs import parse_integer
from ext4audit.sources.ask import ReadFile, Source

MEMBER_PREFIX = "dev-"
SLOTLESS = frozenset({"none", "journal"})
"""What the slot of a spare reads, and that of the disk that holds a RAID5's write journal."""
SECTORS_PER_KIB = 2


def read_md(source: Source, directory: str) -> Evidence[MdArray] | None:
    """Read the array below a device's sysfs directory; None where the device is no md array."""
    level = source.fetch(ReadFile(f"{directory}/md/level"))
    if isinstance(level, Unknown):
        return None
    layout = read(source, f"{directory}/md/layout", _new_value)
    reshape = read(source, f"{directory}/md/reshape_position", str.strip)
    degraded = value_or(integer(source, f"{directory}/md/degraded"), None)
    action = word(source, f"{directory}/md/sync_action")
    component = _component(source, directory, derive("md level", str.strip, level))

    def build(level: str, chunk: int, disks: int, members: tuple[MdMember, ...]) -> MdArray:
        position = value_or(reshape, "none")
        return MdArray(
            level=level.strip() or "inactive",
            chunk_bytes=chunk,
            raid_disks=disks,
            layout=value_or(layout, None),
            reshape_position=None if position == "none" else position,
            members=members,
            component_sectors=component,
            degraded=degraded,
            sync_action=action,
        )

    return derive(
        f"md array {directory}/md",
        build,
        level,
        read(source, f"{directory}/md/chunk_size", _new_value),
        read(source, f"{directory}/md/raid_disks", _new_value),
        _members(source, f"{directory}/md"),
        origin=f"{directory}/md",
    )


def _component(source: Source, directory: str, level: Evidence[str]) -> int | None:
    """Read how much is used of each member; only the far copies of a RAID10 depend on it."""
    if value_or(level, "") != "raid10":
        return None
    kib = value_or(integer(source, f"{directory}/md/component_size"), None)
    return None if kib is None else kib * SECTORS_PER_KIB


def _new_value(text: str) -> int:
    """Read "6 (5)": during a reshape md prints the new value and the old one in parentheses."""
    return parse_integer(text.partition("(")[0])


def _members(source: Source, directory: str) -> Evidence[tuple[MdMember, ...]]:
    entries = names(source, directory)
    if isinstance(entries, Unknown):
        return entries
    members = []
    for entry in entries.value:
        if entry.startswith(MEMBER_PREFIX):
            member = _member(source, directory, entry)
            if isinstance(member, Unknown):
                return member
            members.append(member.value)
    in_array = sorted((m for m in members if m.slot >= 0), key=lambda member: member.slot)
    return Known(tuple(in_array), entries.origin)


def _member(source: Source, directory: str, entry: str) -> Evidence[MdMember]:
    def build(slot: str, offset: int, size_kib: int) -> MdMember:
        number = -1 if slot.strip() in SLOTLESS else parse_integer(slot)
        name = entry.removeprefix(MEMBER_PREFIX)
        return MdMember(number, name, offset, size_kib * SECTORS_PER_KIB)

    return derive(
        f"md member {directory}/{entry}",
        build,
        source.fetch(ReadFile(f"{directory}/{entry}/slot")),
        integer(source, f"{directory}/{entry}/offset"),
        integer(source, f"{directory}/{entry}/size"),
    )

"""md arrays from `md/` below the sysfs directory of a device: geometry, and state.

Source: Documentation/admin-guide/md.rst.
"""

import re

from ext4audit.assemble import integer, names, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, absent_means, derive, for_wording
from ext4audit.facts.devices import MdArray, MdMember, MdState
from ext4audit.parsers.kernel_files import parse_integer
from ext4audit.sources import ReadFile, Source

MEMBER_PREFIX = "dev-"
MD_PREFIX = "md"
"""How the kernel names every array: another name excludes one without any file."""
SLOTLESS = frozenset({"none", "journal"})
"""The content of `slot` for a spare, and for the write journal of a RAID5."""
SECTORS_PER_KIB = 2


def read_md(source: Source, directory: str, kernel_name: str) -> Evidence[MdArray] | None:
    """Read the array below the sysfs directory of a device, None where it is no md array.

    Every array is named md by the kernel, so that no other device becomes an unknown array where
    `md/level` could not be read.
    """
    level = read(source, f"{directory}/md/level", _level)
    if isinstance(level, Unknown):
        return level if kernel_name.startswith(MD_PREFIX) else None
    reshape = absent_means(read(source, f"{directory}/md/reshape_position", _position), None)
    layout = for_wording(read(source, f"{directory}/md/layout", _new_value), None)
    component = _component(source, directory, level.value)

    def build(
        chunk: int, disks: int, members: tuple[MdMember, ...], position: str | None
    ) -> MdArray:
        return MdArray(
            level=level.value,
            chunk_bytes=chunk,
            raid_disks=disks,
            layout=layout,
            reshape_position=position,
            members=members,
            component_sectors=component,
        )

    return derive(
        f"md array {directory}/md",
        build,
        read(source, f"{directory}/md/chunk_size", _new_value),
        read(source, f"{directory}/md/raid_disks", _new_value),
        _members(source, f"{directory}/md"),
        reshape,
        origin=f"{directory}/md",
    )


def read_md_state(source: Source, directory: str, kernel_name: str) -> Evidence[MdState] | None:
    """Read what an array lacks and does, None where it is no md array.

    Apart from its geometry: /proc/mdstat tells that a member is missing, and no offset of any.
    """
    level = read(source, f"{directory}/md/level", _level)
    if isinstance(level, Unknown):
        return level if kernel_name.startswith(MD_PREFIX) else None
    state = MdState(
        level=level.value,
        raid_disks=read(source, f"{directory}/md/raid_disks", _new_value),
        degraded=integer(source, f"{directory}/md/degraded"),
        sync_action=read(source, f"{directory}/md/sync_action", _action),
    )
    return Known(state, f"{directory}/md")


def _component(source: Source, directory: str, level: str) -> int | None:
    """Read the used size of each member; only the far copies of a RAID10 depend on it."""
    if level != "raid10":
        return None
    kib = for_wording(integer(source, f"{directory}/md/component_size"), None)
    return None if kib is None else kib * SECTORS_PER_KIB


def _level(text: str) -> str:
    """Parse "raid10", "linear", "container"; an array that does not run has an empty level."""
    level = text.strip()
    if not re.fullmatch("[a-z0-9]*", level):
        raise ValueError(f"{level!r} is no level")
    return level or "inactive"


def _action(text: str) -> str:
    """Parse "idle", "resync", "recover"; an empty text names no action."""
    action = text.strip()
    if not re.fullmatch("[a-z]+", action):
        raise ValueError(f"{action!r} is no action of an array")
    return action


def _position(text: str) -> str | None:
    """Parse "none" or the place that a reshape has reached ("12288", in mdadm "23% complete")."""
    position = text.strip()
    if not re.fullmatch("none|[0-9].*", position):
        raise ValueError(f"{position!r} is not a position in an array")
    return None if position == "none" else position


def _new_value(text: str) -> int:
    """Parse "6 (5)": during a reshape md prints the old value in parentheses."""
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
    if not members:
        return Unknown(directory, Why.UNPARSABLE, "an array without a member")
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

"""Maps of stacks, compared with where patterns written through the stack are found.

Each stack of the tables is built of real disks. Blocks all over it, and on both sides of each
change of member, are written; each must change on exactly the predicted members and sectors,
including parity, and be read back there.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab.conftest import Guest
from lab.support.scenario import JsonObject

K64, K128, K512, K520 = 64 << 10, 128 << 10, 512 << 10, 520 << 10
MIB = 1 << 20
FIVE = ("raid04", "raid02", "raid00", "raid03", "raid01")
"""The disks in slot order, which differs from the order of their names."""

Described = tuple[tuple[str, ...], int, int, int | None, list[Any] | None]
"""Members, copies, parities, period, and the geometry: device, level, chunk, layout, offset and
number of members."""


def md_stack(
    level: str,
    members: int,
    copies: int = 1,
    parities: int = 0,
    *,
    chunks: int,
    layout: int | None = None,
    chunk_bytes: int = K512,
    device: str = "md",
) -> Described:
    """Describe an array of the first disks, whose members repeat after so many chunks."""
    geometry = [device, level, chunk_bytes, layout, 0, members]
    return FIVE[:members], copies, parities, chunks * chunk_bytes, geometry


ARRAYS: dict[str, Described] = {
    "raid0 of 4": md_stack("raid0", 4, chunks=4),
    "raid0 of 3, 64K": md_stack("raid0", 3, chunks=3, chunk_bytes=K64),
    "raid0 of 3, 520K": md_stack("raid0", 3, chunks=3, chunk_bytes=K520),
    "raid0 of 1": (FIVE[:1], 1, 0, K512, None),
    "linear of 3": (FIVE[:3], 1, 0, None, None),
    "raid1 of 3": (FIVE[:3], 3, 0, K64, None),
    "raid4 of 4": md_stack("raid4", 4, parities=1, chunks=3),
    "raid10 n2 of 4": md_stack("raid10", 4, 2, chunks=2, layout=0x102),
    "raid10 n2 of 5": md_stack("raid10", 5, 2, chunks=5, layout=0x102),
    "raid10 f2 of 4": md_stack("raid10", 4, 2, chunks=4, layout=0x201),
    "raid10 f2 of 5": md_stack("raid10", 5, 2, chunks=5, layout=0x201),
    "raid10 o2 of 4": md_stack("raid10", 4, 2, chunks=4, layout=0x10201),
    "raid10 o2 of 5": md_stack("raid10", 5, 2, chunks=5, layout=0x10201),
    "raid10 n3 of 4": md_stack("raid10", 4, 3, chunks=4, layout=0x103),
    "raid10 n3 of 5": md_stack("raid10", 5, 3, chunks=5, layout=0x103),
    "raid10 f3 of 4": md_stack("raid10", 4, 3, chunks=4, layout=0x301),
    "raid10 f3 of 5": md_stack("raid10", 5, 3, chunks=5, layout=0x301),
    "raid10 o3 of 4": md_stack("raid10", 4, 3, chunks=4, layout=0x10301),
    "raid10 o3 of 5": md_stack("raid10", 5, 3, chunks=5, layout=0x10301),
    "raid5 la": md_stack("raid5", 4, parities=1, chunks=12, layout=0),
    "raid5 ra": md_stack("raid5", 4, parities=1, chunks=12, layout=1),
    "raid5 ls": md_stack("raid5", 4, parities=1, chunks=12, layout=2),
    "raid5 rs": md_stack("raid5", 4, parities=1, chunks=12, layout=3),
    "raid5 parity-first": md_stack("raid5", 4, parities=1, chunks=3, layout=4),
    "raid5 parity-last": md_stack("raid5", 4, parities=1, chunks=3, layout=5),
    "raid6 la": md_stack("raid6", 5, parities=2, chunks=15, layout=0),
    "raid6 ra": md_stack("raid6", 5, parities=2, chunks=15, layout=1),
    "raid6 ls": md_stack("raid6", 5, parities=2, chunks=15, layout=2),
    "raid6 rs": md_stack("raid6", 5, parities=2, chunks=15, layout=3),
    "raid6 parity-first": md_stack("raid6", 5, parities=2, chunks=3, layout=4),
    "raid6 parity-last": md_stack("raid6", 5, parities=2, chunks=3, layout=5),
    "raid6 ddf-zero-restart": md_stack("raid6", 5, parities=2, chunks=15, layout=8),
    "raid6 ddf-N-restart": md_stack("raid6", 5, parities=2, chunks=15, layout=9),
    "raid6 ddf-N-continue": md_stack("raid6", 5, parities=2, chunks=15, layout=10),
    "raid6 left-asymmetric-6": md_stack("raid6", 5, parities=2, chunks=12, layout=16),
    "raid6 right-asymmetric-6": md_stack("raid6", 5, parities=2, chunks=12, layout=17),
    "raid6 left-symmetric-6": md_stack("raid6", 5, parities=2, chunks=12, layout=18),
    "raid6 right-symmetric-6": md_stack("raid6", 5, parities=2, chunks=12, layout=19),
    "raid6 parity-first-6": md_stack("raid6", 5, parities=2, chunks=3, layout=20),
}
THREE = ("raid02", "raid00", "raid03")
ZONES: dict[str, Described] = {
    "original": (THREE, 1, 0, None, ["md", "raid0", K64, 1, 0, 3]),
    "alternate": (THREE, 1, 0, None, ["md", "raid0", K64, 2, 0, 3]),
    "linear": (THREE, 1, 0, None, None),
}


def far_sets(layout: int, members: int) -> Described:
    """Describe a RAID10 whose copies rotate within sets."""
    return md_stack(
        "raid10",
        members,
        2,
        chunks=members,
        layout=layout,
        chunk_bytes=K64,
        device="md_sets",
    )


FAR_SETS = {
    "f2 in sets of 4": far_sets(0x40201, 4),
    "f2 in sets of 5": far_sets(0x40201, 5),
    "o2 in sets of 4": far_sets(0x50201, 4),
    "o2 in sets of 5": far_sets(0x50201, 5),
}
NESTED: dict[str, Described] = {
    "raid0 of raid1": (
        ("raid02", "raid03", "raid00", "raid01"),
        2,
        0,
        2 * K64,
        ["md", "raid0", K64, None, 0, 4],
    ),
    # The geometry is that of the first copy: it starts after the mirror's own 129 MiB.
    "raid1 of raid0": (
        ("raid00", "raid01", "raid02", "raid03"),
        2,
        0,
        2 * K64,
        ["md", "raid0", K64, None, 129 * MIB, 2],
    ),
    "partition of raid0 of partitions": (
        ("raid00", "raid01"),
        1,
        0,
        3 * K64,
        ["md", "raid0", K64, None, 1536 << 10, 2],
    ),
}


def lvm(level: str, *described: Any, layout: int | None = None) -> Described:
    """Describe a volume: members, copies, parities, chunks of 64 KiB until the members repeat."""
    members, copies, parities, chunks = described
    geometry = ["dm-", level, K64, layout, 0, members]
    return FIVE[:members], copies, parities, chunks * K64, geometry


VOLUMES: dict[str, Described] = {
    "striped over 3": lvm("dm-striped", 3, 1, 0, 3),
    "raid0 over 3": lvm("dm-striped", 3, 1, 0, 3),
    "raid1": (FIVE[:2], 2, 0, K64, None),
    "raid10": lvm("raid10", 4, 2, 0, 2, layout=0x102),
    "raid4": lvm("raid5", 4, 1, 1, 3, layout=4),
    "raid5": lvm("raid5", 4, 1, 1, 12, layout=2),
    "raid6": lvm("raid6", 5, 1, 2, 15, layout=8),
}
SEGMENTS: dict[str, Described] = {
    "linear, one disk": (("raid00",), 1, 0, None, None),
    "linear, two disks": (("raid00", "raid01"), 1, 0, None, None),
    "striped, two pairs": (
        ("raid00", "raid01", "raid02"),
        1,
        0,
        None,
        ["dm-", "dm-striped", K64, None, 0, 2],
    ),
}
ON_MD = ("raid02", "raid00", "raid01")
DM_ON_MD: dict[str, Described] = {
    # cryptsetup aligns its header of 2 or 16 MiB to whole stripes of 192 KiB.
    "luks1": (ON_MD, 1, 0, 3 * K64, ["md", "raid0", K64, None, 33 * K64, 3]),
    "luks2": (ON_MD, 1, 0, 3 * K64, ["md", "raid0", K64, None, 258 * K64, 3]),
    "luks on lvm on a partition": (
        ON_MD,
        1,
        0,
        3 * K64,
        ["md", "raid0", K64, None, 293 * K64, 3],
    ),
    "lvm stripes over raid0": (
        ("raid00", "raid01", "raid02", "raid03"),
        1,
        0,
        4 * K64,
        ["dm-", "dm-striped", K128, None, 0, 4],
    ),
    "raid0 over raid5": (
        ("raid00", "raid01", "raid02", "raid03", "raid04", "raid05"),
        1,
        1,
        12 * K64,
        ["md", "raid0", K64, None, 0, 6],
    ),
}
PAIR = ("raid00", "raid01")
MD_ON_DM: dict[str, Described] = {
    "raid0 on luks": (PAIR, 1, 0, 2 * K64, ["md", "raid0", K64, None, 0, 2]),
    "raid0 on a window": (PAIR, 1, 0, None, ["md", "raid0", K64, 1, 0, 2]),
}
STACKS: dict[str, dict[str, Described]] = {
    "maps_md": ARRAYS,
    "maps_md_zones": ZONES,
    "maps_md_far_sets": FAR_SETS,
    "maps_md_nested": NESTED,
    "maps_lvm": VOLUMES,
    "maps_lvm_segments": SEGMENTS,
    "maps_dm_on_md": DM_ON_MD,
    "maps_md_on_dm": MD_ON_DM,
    "maps_snapshot": {"origin": (("wide",), 1, 0, K64, None)},
}
every_stack = pytest.mark.parametrize(
    ("scenario", "name"), [(scenario, name) for scenario in STACKS for name in STACKS[scenario]]
)


@every_stack
def test_patterns_are_found_where_the_map_says(guest: Guest, scenario: str, name: str) -> None:
    """All copies and all parity change with each block, and nothing else at those places."""
    followed: JsonObject = guest[scenario][name]
    assert followed.get("wrong") == [], followed
    assert followed["blocks"] >= 30


@every_stack
def test_a_map_describes_its_stack(guest: Guest, scenario: str, name: str) -> None:
    """It has the disks in slot order, copies and parities of a byte, the period, the geometry."""
    result: JsonObject = guest[scenario][name]
    words = ("copies", "parities", "period_bytes", "geometry")
    found = (tuple(result["members"]), *(result[word] for word in words))
    assert found == STACKS[scenario][name]


@pytest.mark.parametrize(
    ("scenario", "name", "detail", "hint"),
    [
        (
            "maps_md_unknown",
            "missing",
            "md127: 2 of 3 members are seen, in slots [0, 1]",
            "see /proc/mdstat",
        ),
        ("maps_md_unknown", "reshape", "md127 is being reshaped", "scan again after the reshape"),
        (
            "maps_snapshot",
            "snapshot",
            "dm-3: where the target 'snapshot' maps a byte is not known",
            "count the blocks that dumpe2fs -g prints",
        ),
    ],
)
def test_a_stack_that_cannot_be_followed_says_so(
    guest: Guest, scenario: str, name: str, detail: str, hint: str
) -> None:
    """An array without a member, one in the middle of a reshape, and a snapshot have no map."""
    result: JsonObject = guest[scenario][name]
    assert (result.get("why"), result.get("detail"), result.get("hint")) == (
        "unsupported",
        detail,
        hint,
    )


def test_the_reshape_was_asked_for_in_its_middle(guest: Guest) -> None:
    """The map was requested while the array grew from three members to four."""
    assert guest["maps_md_unknown"]["reshape"]["position"].strip().isdigit()

"""Properties of every map, tested byte by byte on random arrays and stacks of them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.devices import BlockDevice, DmSegment, MdArray, MdMember
from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.byte_map import Place, StackMap
from ext4audit.layout.levels import layer_of, map_of
from ext4audit.layout.stack import map_stack
from support.builders import known
from support.examples import examples
from support.hosts.stacks import dm, md, part, sd

C = 4096
SOME = examples(80)
PARITY = {"raid4": 1, "raid5": 1, "raid6": 2}
LAYOUTS: dict[str, list[int | None]] = {
    "raid0": [None],
    "raid1": [None],
    "linear": [None],
    "raid4": [None],
    "raid5": [0, 1, 2, 3, 4, 5],
    "raid6": [0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20],
    "raid10": [
        *(0x100 | copies for copies in (1, 2, 3)),
        *(copies << 8 | 1 | bits for copies in (2, 3) for bits in (0, 0x10000, 0x40000, 0x50000)),
    ],
}


@st.composite
def arrays(draw: st.DrawFn) -> tuple[StripeGeometry, int]:
    """Draw an array and the number of chunks per member."""
    level = draw(st.sampled_from(sorted(LAYOUTS)))
    layout = draw(st.sampled_from(LAYOUTS[level]))
    least = 1 + PARITY.get(level, 0)
    if level == "raid10" and layout is not None:
        least = (layout & 255) * (layout >> 8 & 255)
    members = draw(st.integers(least, least + 6))
    names = tuple(f"disk {number}" for number in range(members))
    return StripeGeometry("md0", level, C, 0, names, layout), draw(st.integers(6, 20))


def capacity_chunks(geometry: StripeGeometry, member_chunks: int) -> int:
    """Return how many chunks of data an array holds (raid0.c, raid10.c, raid5.c, *_size)."""
    members = len(geometry.members)
    if geometry.level == "raid1":
        return member_chunks
    if geometry.level == "raid10" and geometry.layout is not None:
        near, far = geometry.layout & 255, geometry.layout >> 8 & 255
        return member_chunks // far * members // near
    return member_chunks * (members - PARITY.get(geometry.level, 0))


@SOME
@given(arrays())
def test_every_chunk_has_its_own_places_inside_its_members(
    array: tuple[StripeGeometry, int],
) -> None:
    """Copies are on distinct members, distinct chunks at distinct places, and all of them fit."""
    geometry, member_chunks = array
    found = map_of(geometry, member_chunks * C)
    seen: set[Place] = set()
    parity: set[Place] = set()
    for chunk in range(capacity_chunks(geometry, member_chunks)):
        data = found.data(chunk * C)
        beside = found.parity(chunk * C)
        assert len({place.member for place in (*data, *beside)}) == len(data) + len(beside)
        assert not seen & set(data)
        seen.update(data)
        parity.update(beside)
        assert found.data(chunk * C + C - 1) == tuple(
            Place(place.member, place.byte + C - 1) for place in data
        )
    assert not seen & parity
    assert all(0 <= place.byte <= (member_chunks - 1) * C for place in seen | parity)


@SOME
@given(arrays(), st.integers(0, 1 << 50), st.integers(0, 1 << 40))
def test_members_repeat_after_a_period(
    array: tuple[StripeGeometry, int], byte: int, offset_bytes: int
) -> None:
    """This holds for data and parity, wherever the filesystem starts."""
    geometry, _ = array
    if geometry.level == "linear":
        geometry = geometry._replace(level="raid0")
    found = map_of(geometry._replace(offset_bytes=offset_bytes))
    assert found.period_bytes is not None
    assert members_of(found, byte) == members_of(found, byte + found.period_bytes)


def members_of(found: StackMap, byte: int) -> list[int]:
    """Return the members of a byte: its copies, then its parity."""
    return [place.member for place in (*found.data(byte), *found.parity(byte))]


@SOME
@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.sampled_from([1, 2]))
def test_zones_fill_every_member_to_its_last_chunk(sizes: list[int], layout: int) -> None:
    """Each chunk of each member holds exactly one chunk of the array."""
    if not any(sizes):
        sizes = [1]
    layer = layer_of("raid0", C, layout, [size * C for size in sizes])
    found = sorted(placed for chunk in range(sum(sizes)) for placed in layer.data(chunk * C))
    assert found == [
        (component, at * C) for component, size in enumerate(sizes) for at in range(size)
    ]


def stacks(depth: int) -> st.SearchStrategy[BlockDevice]:
    """Draw stacks of partitions, arrays and volumes over distinct disks."""
    return st.recursive(
        st.just(0), lambda below: st.lists(below, min_size=1, max_size=3), max_leaves=depth
    ).flatmap(lambda tree: st.builds(_built, st.just(tree), st.randoms(use_true_random=False)))


def _built(tree: Any, chance: Any) -> BlockDevice:
    """Build a stack of the shape of a tree; its numbers count up."""
    numbers = iter(range(1, 1000))

    def build(node: Any) -> BlockDevice:
        number = next(numbers)
        if node == 0:
            letter = chr(ord("a") + number % 26) + str(number)
            return replace(
                sd("a"),
                name=f"sd{letter}",
                device_number=sd("a").device_number._replace(minor=number),
            )
        below = [build(each) for each in node]
        if len(below) == 1:
            return replace(
                part(below[0]),
                device_number=sd("a").device_number._replace(major=259, minor=number),
            )
        kind = chance.choice(["raid0", "raid1", "raid10", "raid5", "striped", "linear"])
        if kind == "striped":
            components = " ".join(
                f"{each.device_number} {8 * chance.randrange(9)}" for each in below
            )
            return dm(f"0 {1 << 28} striped {len(below)} 16 {components}", *below, minor=number)
        if kind == "linear":
            last = len(below) - 1
            lines = (
                f"{n * 800} {1 << 28 if n == last else 800} linear {each.device_number} 16"
                for n, each in enumerate(below)
            )
            return dm("\n".join(lines), *below, minor=number)
        layout = {"raid10": 258, "raid5": 2}.get(kind, -1)
        return md(*below, level=kind, layout=layout, number=number, chunk_bytes=2 * C)

    return build(tree)


@SOME
@given(stacks(9), st.data())
def test_distinct_blocks_of_a_stack_are_at_distinct_places(
    stack: BlockDevice, data: st.DataObject
) -> None:
    """This holds for any nesting; the period of the whole is a period of every layer."""
    found = map_stack(stack)
    assert isinstance(found, Known), found
    blocks = data.draw(st.lists(st.integers(0, 90), min_size=2, max_size=20, unique=True))
    places = [place for block in blocks for place in found.value.data(block * C)]
    assert len(set(places)) == len(places)
    period_bytes = found.value.period_bytes
    if period_bytes is not None:
        assert members_of(found.value, 0) == members_of(found.value, period_bytes)
    run_bytes = found.value.run_bytes or C
    for byte in (block * C for block in blocks):
        assert members_of(found.value, byte) == members_of(
            found.value, byte // run_bytes * run_bytes
        )
    described = found.value.geometry
    all_members = set(described.members) == set(found.value.members) if described else False
    if period_bytes and described and described.is_described and all_members:
        again = map_of(described)
        assert all(named(again, block * C) == named(found.value, block * C) for block in blocks)


def named(found: StackMap, byte: int) -> list[str]:
    """Return the names of the members of a byte, in any order."""
    return sorted(found.members[member] for member in members_of(found, byte))


NUMBERS = st.one_of(st.integers(-2, 9), st.integers(-(1 << 65), 1 << 65))
MEMBERS = st.builds(
    MdMember, NUMBERS, st.sampled_from(["sda", "sdb", "sdc", "x\n\x1b[31m"]), NUMBERS, NUMBERS
)
HOSTILE_ARRAYS = st.builds(
    MdArray,
    st.sampled_from([*LAYOUTS, "", "inactive", "\udcff"]),
    st.one_of(NUMBERS, st.just(65536)),
    NUMBERS,
    st.one_of(st.none(), NUMBERS),
    st.sampled_from([None, "none", "8"]),
    st.lists(MEMBERS, max_size=4).map(tuple),
    st.one_of(st.none(), NUMBERS),
)
WORDS = st.one_of(
    st.sampled_from("8:0 8:16 8:32 0 1 2 3 128 - raid0 raid1 raid5_ls raid10 nosync 2048".split()),
    st.text(max_size=8),
    NUMBERS.map(str),
)
HOSTILE_SEGMENTS = st.builds(
    DmSegment,
    NUMBERS,
    NUMBERS,
    st.sampled_from("linear striped crypt raid thin multipath snapshot-origin".split()),
    st.lists(WORDS, max_size=9).map(tuple),
)
DISKS = (sd("a"), sd("b"), sd("c"))


def end(found: Any) -> None:
    """Look up a few bytes, which must give a place or a ValueError."""
    assert isinstance(found, (Known, Unknown))
    if isinstance(found, Known):
        for byte in (0, 65536, 1 << 40, 1 << 70):
            with contextlib.suppress(ValueError):
                found.value.data(byte)
                found.value.parity(byte)


@SOME
@given(HOSTILE_ARRAYS)
def test_an_array_of_any_numbers_has_a_map_or_is_unknown(array: MdArray) -> None:
    """Numbers may be huge or negative, slots out of range, members missing."""
    end(map_stack(replace(md(*DISKS), md=known(array))))


@SOME
@given(st.lists(HOSTILE_SEGMENTS, min_size=1, max_size=3).map(tuple))
def test_a_table_of_any_words_has_a_map_or_is_unknown(segments: tuple[DmSegment, ...]) -> None:
    """Words may be of other targets, numbers invalid, parts overlapping."""
    device = dm("0 1 error", *DISKS)
    assert device.dm is not None
    end(map_stack(replace(device, dm=device.dm._replace(table=known(segments)))))


def test_a_long_table_is_mapped_quickly() -> None:
    """Years of moving extents can leave four thousand parts on one array."""
    lines = "\n".join(f"{8 * n} 8 linear 9:127 {8 * (4000 - n)}" for n in range(4000))
    found = map_stack(dm(lines, md(*DISKS)))
    assert isinstance(found, Known)
    assert found.value.data(3999 * 8 * 512) == (Place(0, (1 << 20) + 8 * 512),)
    with pytest.raises(ValueError, match="beyond"):
        found.value.data(4000 * 8 * 512)

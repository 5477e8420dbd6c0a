"""map_stack: the map of a filesystem's bytes through its device stack to the disks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.layout import StripeGeometry
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.byte_map import Place, StackMap
from ext4audit.layout.stack import map_stack
from support.builders import known, loop, unknown
from support.hosts.stacks import K64, dm, md, part, sd

A, B, C, D = (sd(letter) for letter in "abcd")
STRIPE = md(A, B, C)
START = 1 << 20
"""The start of data on an array's members, and the usual start of a partition on its disk."""


def mapped(stack: BlockDevice) -> StackMap:
    """Return the map of a stack that can be mapped."""
    found = map_stack(stack)
    assert isinstance(found, Known), found
    return found.value


STACKS: list[Any] = [
    pytest.param(A, ("sda",), (Place(0, K64),), id="a disk"),
    pytest.param(part(A), ("sda",), (Place(0, START + K64),), id="a partition"),
    pytest.param(STRIPE, ("sda", "sdb", "sdc"), (Place(1, START),), id="an array of whole disks"),
    pytest.param(
        md(part(B), part(A)), ("sdb", "sda"), (Place(1, 2 * START),), id="an array of partitions"
    ),
    pytest.param(
        part(STRIPE), ("sda", "sdb", "sdc"), (Place(2, START + 5 * K64),), id="a partition of it"
    ),
    pytest.param(
        md(part(A), part(A, 2, 4096), B),
        ("sda", "sdb"),
        (Place(0, 3 * START),),
        id="two partitions of one disk",
    ),
    pytest.param(
        md(A, B, level="raid1"),
        ("sda", "sdb"),
        (Place(0, START + K64), Place(1, START + K64)),
        id="a mirror",
    ),
    pytest.param(
        md(md(A, B, level="raid1", number=1), md(C, D, level="raid1", number=2)),
        ("sda", "sdb", "sdc", "sdd"),
        (Place(2, 2 * START), Place(3, 2 * START)),
        id="a stripe of mirrors",
    ),
    pytest.param(
        dm("0 4096 crypt aes 0 0 9:127 32768", STRIPE),
        ("sda", "sdb", "sdc"),
        (Place(2, START + 85 * K64),),
        id="LUKS on an array",
    ),
    pytest.param(
        md(
            *(
                dm(f"0 9999999 crypt aes 0 0 8:{16 * n} 32768", d, minor=n)
                for n, d in enumerate((A, B))
            )
        ),
        ("sda", "sdb"),
        (Place(1, 17 * START),),
        id="an array on LUKS",
    ),
    pytest.param(
        dm("0 4096 striped 2 128 8:16 2048 8:0 0", A, B),
        ("sdb", "sda"),
        (Place(1, 0),),
        id="a striped volume",
    ),
    pytest.param(
        dm("0 100 linear 8:0 0\n100 4096 linear 8:16 500", A, B),
        ("sda", "sdb"),
        (Place(1, (500 + 28) * 512),),
        id="a volume of two parts",
    ),
    pytest.param(loop(known((STRIPE,))), ("loop0",), (Place(0, K64),), id="a file on a stripe"),
    pytest.param(
        dm("0 4096 multipath 0 0 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1", A, B),
        ("dm-0",),
        (Place(0, K64),),
        id="ways to one disk",
    ),
    pytest.param(
        dm(None, A, B, uuid="mpath-3600"), ("dm-0",), (Place(0, K64),), id="the same, not root"
    ),
]


@pytest.mark.parametrize(("stack", "members", "places"), STACKS)
def test_the_second_chunk_is_followed_to_the_disks(
    stack: BlockDevice, members: tuple[str, ...], places: tuple[Place, ...]
) -> None:
    """For byte 65536 every start in the stack is added; disks are in slot order."""
    found = mapped(stack)
    assert (found.members, found.data(K64)) == (members, places)


def test_parity_is_followed_to_the_disks_like_data() -> None:
    """In a RAID5 of three partitions, chunk 0 is on the first and its parity on the last."""
    found = mapped(md(part(A), part(B), part(C), level="raid5", layout=2))
    assert (found.data(7), found.parity(7)) == (
        (Place(0, 2 * START + 7),),
        (Place(2, 2 * START + 7),),
    )


def test_parity_on_mirrors_is_written_to_each_copy() -> None:
    """The last member of this RAID5 is a mirror of two disks."""
    mirror = md(C, D, level="raid1", number=1)
    found = mapped(md(A, B, mirror, level="raid5", layout=2))
    assert found.parity(0) == (Place(2, 2 * START), Place(3, 2 * START))


def test_lower_arrays_store_parity_of_data_and_of_parity() -> None:
    """A RAID5 of three over two disks and another RAID5, which takes its parity."""
    inner = md(C, D, sd("e"), level="raid5", layout=2, number=1)
    found = mapped(md(A, B, inner, level="raid5", layout=2))
    assert found.data(0) == (Place(0, START),)
    assert found.parity(0) == (Place(3, START + 8 * K64), Place(2, START + 8 * K64))


def geometry(
    device: str, level: str, offset_bytes: int, members: str, layout: int | None = None
) -> StripeGeometry:
    """Return a stripe with chunks of 64 KiB."""
    names = tuple(f"sd{letter}" for letter in members)
    return StripeGeometry(device, level, K64, offset_bytes, names, layout)


GEOMETRIES: list[Any] = [
    pytest.param(A, None, id="a disk"),
    pytest.param(md(A, B, level="raid1"), None, id="a mirror"),
    pytest.param(md(A, B, level="linear"), None, id="a concatenation"),
    pytest.param(md(A), None, id="a RAID0 of one"),
    pytest.param(dm("0 9 striped 1 128 8:0 0", A), None, id="one stripe"),
    pytest.param(STRIPE, geometry("md127", "raid0", 0, "abc"), id="RAID0"),
    pytest.param(part(STRIPE), geometry("md127", "raid0", START, "abc"), id="partition"),
    pytest.param(
        dm("0 4096 crypt aes 0 0 259:128 4096", part(STRIPE)),
        geometry("md127", "raid0", 3 * START, "abc"),
        id="LUKS on a partition of RAID0",
    ),
    pytest.param(
        md(A, B, C, level="raid5", layout=2), geometry("md127", "raid5", 0, "abc", 2), id="RAID5"
    ),
    pytest.param(
        md(A, B, C, D, level="raid10", layout=258),
        geometry("md127", "raid10", 0, "abcd", 258),
        id="RAID10",
    ),
    pytest.param(
        dm("0 4096 striped 2 128 8:0 0 8:16 0", A, B),
        geometry("dm-0", "dm-striped", 0, "ab"),
        id="LVM",
    ),
    pytest.param(
        dm("0 4096 striped 2 128 9:1 2048 9:2 0", md(A, B, number=1), md(C, D, number=2)),
        geometry("dm-0", "dm-striped", 0, "abcd")._replace(
            components=(geometry("md1", "raid0", START, "ab"), geometry("md2", "raid0", 0, "cd"))
        ),
        id="LVM over two RAID0",
    ),
    pytest.param(
        md(md(A, B, level="raid1", number=1), md(C, D, level="raid1", number=2)),
        geometry("md127", "raid0", 0, "abcd")._replace(components=(("sda", "sdb"), ("sdc", "sdd"))),
        id="RAID0 of two mirrors",
    ),
    pytest.param(
        md(dm("0 64 linear 8:0 0\n64 4096 linear 8:16 0", A, B), C),
        geometry("md127", "raid0", 0, "abc")._replace(components=((), ("sdc",))),
        id="RAID0 of a concatenation and a disk",
    ),
    pytest.param(
        md(part(A), part(A, 2, 4096), B),
        geometry("md127", "raid0", 0, "ab")._replace(components=(("sda",), ("sda",), ("sdb",))),
        id="RAID0 with two partitions of one disk",
    ),
    pytest.param(
        dm("0 100 linear 8:0 0\n100 4096 linear 9:127 2148", D, STRIPE, A),
        geometry("md127", "raid0", START, "abc"),
        id="a volume whose second part is on RAID0",
    ),
    pytest.param(
        md(md(A, B, number=1), md(C, D, number=2), level="raid1"),
        geometry("md1", "raid0", START, "ab"),
        id="a mirror of RAID0s",
    ),
]


def test_members_of_different_sizes_make_zones() -> None:
    """An array without zones can grow by a member."""
    smaller = array_of(STRIPE, sizes=(1 << 20, 1 << 20, 1 << 19))
    found = mapped(smaller).geometry
    used_bytes = (1 << 29, 1 << 29, 1 << 28)
    zoned = geometry("md127", "raid0", 0, "abc")._replace(layout=2, member_bytes=used_bytes)
    assert found == zoned


def array_of(stack: BlockDevice, sizes: tuple[int, ...]) -> BlockDevice:
    """Return an array whose members have these sizes in sectors."""
    assert isinstance(stack.md, Known)
    built = stack.md.value
    pairs = zip(built.members, sizes, strict=True)
    members = tuple(each._replace(size_sectors=size) for each, size in pairs)
    return replace(stack, md=known(built._replace(members=members, layout=2)))


@pytest.mark.parametrize(("stack", "expected"), GEOMETRIES)
def test_the_geometry_is_the_first_layer_that_stripes(
    stack: BlockDevice, expected: StripeGeometry | None
) -> None:
    """Its members are the leaf devices, and it has the filesystem's start on it."""
    assert mapped(stack).geometry == expected


@pytest.mark.parametrize(
    ("stack", "period_bytes"),
    [
        (A, 65536),
        (md(A, B, level="raid1"), 65536),
        (STRIPE, 3 * K64),
        (part(STRIPE), 3 * K64),
        (md(A, B, C, level="raid5", layout=2), 6 * K64),
        (md(A, B, C, D, level="raid10", layout=258), 2 * K64),
        (md(A, B, level="linear"), None),
        (dm("0 64 linear 9:127 0\n64 64 linear 9:127 64", STRIPE), None),
    ],
)
def test_the_period_is_that_of_the_members(stack: BlockDevice, period_bytes: int | None) -> None:
    """An offset does not change it; if nothing stripes, every block is a period."""
    assert mapped(stack).period_bytes == period_bytes


def test_a_map_names_its_sources() -> None:
    """It lists each layer that splits, from the top down, or the number of a plain disk."""
    stack = dm("0 4096 striped 2 128 9:1 0 9:2 0", md(A, B, number=1), md(C, D, number=2))
    found = map_stack(stack)
    assert isinstance(found, Known)
    assert found.origin == "dmsetup table 253:0, /sys/block/md1/md, /sys/block/md2/md"
    plain = map_stack(A)
    assert isinstance(plain, Known)
    assert plain.origin == "/sys/dev/block/8:0"


@pytest.mark.parametrize(
    ("stack", "why", "detail"),
    [
        pytest.param(replace(STRIPE, md=unknown("md")), Why.DENIED, "permission denied", id="md"),
        pytest.param(dm(None, A), Why.DENIED, "permission denied", id="a table, not root"),
        pytest.param(
            replace(A, below=unknown("slaves")), Why.DENIED, "permission denied", id="slaves"
        ),
        pytest.param(
            md(A, B, reshape_position="12288"),
            Why.UNSUPPORTED,
            "md127 is being reshaped",
            id="reshape",
        ),
        pytest.param(
            dm("0 9 thin 253:4 1", STRIPE),
            Why.UNSUPPORTED,
            "dm-0: where the target 'thin' maps a byte is not known",
            id="a thin volume",
        ),
        pytest.param(
            dm("0 9 linear 8:99 0", A),
            Why.ABSENT,
            "dm-0: its component 8:99 is not seen",
            id="a component",
        ),
        pytest.param(
            dm("0 9 linear 8:0 0\n10 9 linear 8:0 9", A),
            Why.UNSUPPORTED,
            "dm-0: its table has a gap at sector 9",
            id="a gap",
        ),
        pytest.param(
            dm("0 9 linear 8:0 0\n0 9 linear 8:0 9", A),
            Why.UNSUPPORTED,
            "dm-0: its table has a gap at sector 9",
            id="two parts at one place",
        ),
        pytest.param(
            dm("0 0 linear 8:0 0\n0 9 linear 8:0 9", A),
            Why.UNSUPPORTED,
            "dm-0: parts of 0 bytes",
            id="an empty part",
        ),
        pytest.param(
            part(STRIPE, start_sectors=None),
            Why.UNSUPPORTED,
            "where the partition md1271 starts is not known",
            id="a partition without a start",
        ),
        pytest.param(
            part(STRIPE, start_sectors=-8),
            Why.UNSUPPORTED,
            "md1271: a component at byte -4096, a byte in 1 places",
            id="a partition before its disk",
        ),
        pytest.param(
            replace(A, below=known((B, C))),
            Why.UNSUPPORTED,
            "where sda (disk) maps a byte is not known",
            id="a cache of another kind",
        ),
    ],
)
def test_an_unmappable_stack_is_unknown(stack: BlockDevice, why: Why, detail: str) -> None:
    """The gap names the cause and the remedy."""
    found = map_stack(stack)
    assert isinstance(found, Unknown)
    assert (found.why, found.detail) == (why, detail)
    assert found.hint


def test_a_cyclic_stack_is_unknown() -> None:
    """A damaged sysfs may show forty partitions on each other."""
    stack = A
    for minor in range(40):
        below = replace(stack, name="x")
        stack = replace(part(below), device_number=DeviceNumber(260, minor))
    found = map_stack(stack)
    assert isinstance(found, Unknown)
    assert found.detail == "x lies 32 layers deep"


def test_a_device_of_unknown_size_is_limited_by_the_device_below() -> None:
    """The end of its disk limits it."""
    found = mapped(replace(part(A), size_sectors=unknown("size")))
    assert found.data((1 << 40) - START - 1) == (Place(0, (1 << 40) - 1),)
    with pytest.raises(ValueError, match="beyond"):
        found.data((1 << 40) - START)

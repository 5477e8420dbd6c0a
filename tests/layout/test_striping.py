from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout import guess_geometry, may_stripe
from support.builders import known, loop, queue, unknown
from support.hosts.stacks import dm, md, part, sd

A, B, C, D = (sd(letter) for letter in "abcd")
STRIPE = md(A, B)
MIRROR = md(A, B, level="raid1")

NO: list[Any] = [
    pytest.param(A, id="a disk"),
    pytest.param(part(A), id="a partition"),
    pytest.param(MIRROR, id="a mirror"),
    pytest.param(md(A, B, level="linear"), id="a concatenation"),
    pytest.param(md(A), id="a RAID0 of one member"),
    pytest.param(dm("0 9 striped 1 128 8:0 0", A), id="one stripe"),
    pytest.param(dm("0 9 raid raid1 1 0 2 - 8:0 - 8:16", A, B), id="a mirrored volume"),
    pytest.param(dm("0 9 thin 253:4 1", A), id="a thin volume on one disk"),
    pytest.param(dm("0 9 linear 8:0 0\n9 9 linear 8:16 0", A, B), id="two parts"),
    pytest.param(dm(None, A), id="LVM over one disk, not root"),
    pytest.param(dm(None, MIRROR), id="LVM over a mirror, not root"),
    pytest.param(dm(None, A, B, uuid="mpath-3600"), id="two ways to one disk, not root"),
    pytest.param(loop(known((STRIPE,))), id="a file on a stripe"),
    pytest.param(dm(None, loop(known((STRIPE,)))), id="LUKS in a file on a stripe, not root"),
]
YES: list[Any] = [
    *(
        pytest.param(md(A, B, C, D, level=level), id=level)
        for level in ("raid0", "raid4", "raid5", "raid6", "raid10")
    ),
    pytest.param(part(STRIPE), id="a partition of a stripe"),
    pytest.param(dm(None, STRIPE), id="LVM on a stripe, not root"),
    pytest.param(dm(None, A, B), id="LVM over two disks, not root"),
    pytest.param(dm("0 9 thin 253:4 1", STRIPE), id="a thin volume on a stripe"),
    pytest.param(dm("0 9 striped 2 128 8:0 0 8:16 0", A, B), id="a striped volume"),
    pytest.param(dm("0 9 raid raid0 1 128 2 - 8:0 - 8:16", A, B), id="a volume of type raid0"),
    pytest.param(md(STRIPE, md(C, D, number=1), level="raid1"), id="a mirror of stripes"),
    pytest.param(replace(MIRROR, md=unknown("md")), id="an array that is not read"),
    pytest.param(replace(A, below=unknown("slaves")), id="a device not looked below"),
    pytest.param(md(A, B, reshape_position="8"), id="a stripe that is being reshaped"),
]


@pytest.mark.parametrize("stack", NO)
def test_devices_that_cannot_stripe_have_no_stripe(stack: BlockDevice) -> None:
    """Rules about stripes do not apply, even if something else cannot be read."""
    assert not may_stripe(stack)


@pytest.mark.parametrize("stack", YES)
def test_devices_that_may_stripe_are_reported(stack: BlockDevice) -> None:
    """A stripe that cannot be mapped is never reported as "no stripe"."""
    assert may_stripe(stack)


K256 = 256 << 10


def with_io_sizes(
    stack: BlockDevice, chunk_bytes: int = K256, columns: int = 4, **more: Any
) -> BlockDevice:
    """Return a device with the I/O sizes of a stripe."""
    sizes = {"minimum_io_bytes": chunk_bytes, "optimal_io_bytes": columns * chunk_bytes, **more}
    return replace(stack, queue=queue(**sizes))


def test_a_controller_has_a_chunk_and_data_disks() -> None:
    """A hardware array is one disk to Linux; its columns have no names."""
    assert guess_geometry(with_io_sizes(A)) == StripeGeometry(
        "sda", "raid0", K256, 0, ("column 0", "column 1", "column 2", "column 3")
    )


def test_the_stripe_of_a_partition_begins_at_an_offset() -> None:
    """The stripe is below the partition, and starts 1 MiB before it."""
    found = guess_geometry(with_io_sizes(part(A)))
    assert found is not None
    assert found.offset_bytes == 1 << 20


@pytest.mark.parametrize(
    ("stack", "device", "level", "layout", "members"),
    [
        pytest.param(dm(None, A, B), "dm-0", "raid0", None, 4, id="LVM, not root"),
        pytest.param(md(A, B, layout=-1), "md127", "raid0", None, 4, id="zones in no set order"),
        pytest.param(
            md(A, B, C, level="raid5", layout=2), "md127", "raid5", 2, 5, id="RAID5, one more"
        ),
        pytest.param(md(A, B, C, level="raid6", layout=2), "md127", "raid6", 2, 6, id="RAID6, two"),
        pytest.param(
            md(A, B, level="raid10", layout=258, raid_disks=8),
            "md127",
            "raid10",
            258,
            8,
            id="RAID10 that tells half of its members",
        ),
        pytest.param(
            md(A, B, level="raid10", layout=513, raid_disks=4),
            "md127",
            "raid10",
            513,
            4,
            id="RAID10 of far copies, which tells all",
        ),
        pytest.param(
            md(A, B, level="raid10", layout=258, raid_disks=7),
            "md127",
            "raid0",
            None,
            4,
            id="RAID10 that tells neither",
        ),
        pytest.param(
            md(A, B, level="raid4", reshape_position="8"),
            "md127",
            "raid0",
            None,
            4,
            id="RAID0 that is being reshaped",
        ),
        pytest.param(
            md(
                md(A, B, level="raid5", layout=2, number=1),
                md(C, D, level="raid5", layout=2, number=2),
            ),
            "md127",
            "raid0",
            None,
            4,
            id="a stripe over two RAID5",
        ),
    ],
)
def test_the_level_of_an_array_decides_what_its_columns_are(
    stack: BlockDevice, device: str, level: str, layout: int | None, members: int
) -> None:
    """Four columns of data are five members of a RAID5, and four or eight of a RAID10."""
    found = guess_geometry(with_io_sizes(stack))
    assert found is not None
    assert (found.device, found.level, found.layout) == (device, level, layout)
    assert len(found.members) == members


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(A, id="a disk that tells nothing"),
        pytest.param(with_io_sizes(A, 512, 65535), id="a disk behind a USB bridge"),
        pytest.param(with_io_sizes(A, 4096, 8, physical_block_bytes=4096), id="blocks of 4 KiB"),
        pytest.param(with_io_sizes(A, columns=1), id="one column"),
        pytest.param(with_io_sizes(A, columns=257), id="more columns than anybody has"),
        pytest.param(
            with_io_sizes(A, optimal_io_bytes=K256 * 3 + 4096), id="no whole number of chunks"
        ),
        pytest.param(with_io_sizes(A, 0), id="chunk 0"),
        pytest.param(with_io_sizes(A, -4096), id="a negative chunk"),
        pytest.param(with_io_sizes(A, minimum_io_bytes=unknown("minimum_io_size")), id="not read"),
        pytest.param(with_io_sizes(A, optimal_io_bytes=unknown("optimal_io_size")), id="half read"),
    ],
)
def test_sizes_that_suggest_no_stripe_give_none(stack: BlockDevice) -> None:
    """A physical block is not a chunk, and 65535 sectors are not a stripe."""
    assert guess_geometry(stack) is None

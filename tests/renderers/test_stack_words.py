from __future__ import annotations

import pytest

from builders import UNREAD, disk, filesystem, known, layout, loop, raid
from ext4audit.facts.block import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.renderers.chunk import chunk_bytes
from ext4audit.renderers.stack_words import stack_words
from sample_reports import boot, md127, root

DISKS = tuple(disk(f"vd{letter}", DeviceNumber(253, 16 * n)) for n, letter in enumerate("bcdef", 1))
PARTITION = disk("vdb1", DeviceNumber(253, 17), kind="partition", below=known((DISKS[0],)))
ARRAY = raid(DISKS)
MIRROR = raid(DISKS[:2], level="raid1", chunk_bytes=0)


def dm(kind: str, uuid: str, *below: BlockDevice) -> BlockDevice:
    """Build a device-mapper device."""
    device = DmDevice("x", uuid, UNREAD)
    return disk("dm-0", DeviceNumber(254, 0), kind=kind, below=known(below), dm=device)


def on(device: BlockDevice) -> Filesystem:
    """Build a filesystem on a device."""
    return filesystem(stack=known(device))


@pytest.mark.parametrize(
    ("fs", "words"),
    [
        (on(disk()), "disk"),
        (on(disk(model="Samsung SSD 990")), "disk (Samsung SSD 990)"),
        (boot(), "partition of nvme0n1"),
        (on(disk(kind="partition", below=UNREAD)), "partition of a disk"),
        (
            on(disk("md127p1", kind="partition", below=known((ARRAY,)))),
            "partition on raid0 of 5 disks, 512 KiB chunk",
        ),
        (
            on(disk("loop0p1", kind="partition", below=known((loop(),)))),
            "partition on loop over /var/lib/image.img",
        ),
        (md127(), "raid0 of 2 disks, 512 KiB chunk"),
        (root(), "lvm (dm-linear) on nvme0n1p2"),
        (on(MIRROR), "raid1 of 2 disks"),
        (on(raid([PARTITION])), "raid0 of 1 partition, 512 KiB chunk"),
        (on(raid([PARTITION, DISKS[1]])), "raid0 of 2 devices, 512 KiB chunk"),
        (on(disk("md0", kind="raid5", md=UNREAD, below=known(DISKS))), "raid5 of 5 disks"),
        (on(loop()), "loop over /var/lib/image.img"),
        (on(dm("dm-crypt", "CRYPT-LUKS2-x", PARTITION)), "crypt (dm-crypt) on vdb1"),
        (on(dm("dm-multipath", "mpath-x", *DISKS[:2])), "multipath (dm-multipath) on vdb, vdc"),
        (on(dm("dm-linear", "LVM-x", *DISKS)), "lvm (dm-linear) on vdb, vdc, vdd and 2 more"),
        (on(dm("dm-delay", "", DISKS[0])), "dm-delay on vdb"),
        (on(dm("dm", "LVM-x")), "lvm (dm)"),
        (
            on(dm("dm-linear", "LVM-x", ARRAY)),
            "lvm (dm-linear) on raid0 of 5 disks, 512 KiB chunk",
        ),
        (filesystem(stack=UNREAD), "device stack not known"),
    ],
)
def test_a_stack_is_described_from_the_top_down(fs: Filesystem, words: str) -> None:
    """Each kind of stack is named, down to devices whose names suffice."""
    assert stack_words(fs) == words


def test_the_chunk_of_a_stripe_that_is_not_md_comes_from_the_layout() -> None:
    """An LVM stripe shows the chunk that its layout was computed with."""
    stripe = disk("md127", kind="dm-striped", below=known(DISKS[:2]))
    fs = filesystem(stack=known(stripe), layout=known(layout([1, 1], chunk_bytes=65536)))
    assert chunk_bytes(fs, stripe) == 65536
    assert stack_words(fs) == "dm-striped of 2 disks, 64 KiB chunk"


@pytest.mark.parametrize("device", [disk(), MIRROR], ids=["disk", "mirror"])
def test_a_device_without_chunks_has_none(device: BlockDevice) -> None:
    """Neither a disk nor a mirror (md says 0) has a chunk."""
    assert chunk_bytes(filesystem(), device) is None

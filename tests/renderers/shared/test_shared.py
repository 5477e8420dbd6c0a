"""Text for numbers, sizes, reasons, remedies and device stacks."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Disruption, Phase, Remedy
from ext4audit.renderers import chunk_bytes
from ext4audit.renderers.shared import (
    DISRUPTION_TEXT,
    PHASE_TEXT,
    WHY_TEXT,
    binary_size,
    counted,
    disruption_text,
    held_text,
    rounded_size,
    stack_text,
    type_text,
    why_text,
)
from support.builders import UNREAD, disk, filesystem, known, layout, loop, raid, unknown
from support.formats.sample_reports import boot, md127, root


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (25668000 << 10, "24.5 GiB"),
        ((1 << 30) - 1, "1 GiB"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_rounded_size(size_bytes: int, text: str) -> None:
    """A size has at most one decimal, and is never 1024 of a unit if a larger unit exists."""
    assert rounded_size(size_bytes) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (512, "512 bytes"),
        (4096, "4 KiB"),
        (524288, "512 KiB"),
        (1 << 20, "1 MiB"),
        (1536, "1536 bytes"),
        (1 << 60, "1024 PiB"),
    ],
)
def test_exact_size(size_bytes: int, text: str) -> None:
    """Sizes are exact, in the largest binary unit that gives a whole number."""
    assert binary_size(size_bytes) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 disks"), (1, "1 disk"), (12, "12 disks")])
def test_singular_and_plural(number: int, text: str) -> None:
    """Only one is singular."""
    assert counted(number, "disk") == text


@pytest.mark.parametrize(
    ("disruption", "destructive", "text"),
    [
        (Disruption.ONLINE, False, "online"),
        (Disruption.REMOUNT, False, "needs a remount"),
        (Disruption.UNMOUNT, False, "needs an unmount"),
        (Disruption.REBOOT, False, "needs a reboot"),
        (Disruption.RECREATE, True, "destroys and recreates the filesystem"),
        (Disruption.UNMOUNT, True, "needs an unmount, destroys data"),
    ],
)
def test_disruption_has_a_text(disruption: Disruption, destructive: bool, text: str) -> None:
    """The text of a remedy states what it interrupts and whether it destroys data."""
    assert disruption_text(Remedy("x", disruption, destructive=destructive)) == text


@pytest.mark.parametrize(
    ("why", "detail", "text"),
    [
        (Why.DENIED, "Permission denied", "Permission denied"),
        (Why.DENIED, "", "no permission"),
        (Why.TIMED_OUT, "after 10 s", "timed out: after 10 s"),
        (Why.NOT_CAPTURED, "", "not captured"),
        (Why.UNPARSABLE, "'abc' is odd", "not understood: 'abc' is odd"),
    ],
)
def test_reason_has_the_message_of_the_host(why: Why, detail: str, text: str) -> None:
    """The host's message is shown, preceded by the reason unless it already implies it."""
    assert why_text(Unknown("x", why, detail)) == text


def test_every_enumeration_member_has_a_text() -> None:
    """Every disruption, phase and reason has a text."""
    assert set(DISRUPTION_TEXT) == set(Disruption)
    assert set(PHASE_TEXT) == set(Phase)
    assert set(WHY_TEXT) == set(Why)


DISKS = tuple(disk(f"vd{letter}", DeviceNumber(253, 16 * n)) for n, letter in enumerate("bcdef", 1))
PARTITION = disk("vdb1", DeviceNumber(253, 17), kind="partition", below=known((DISKS[0],)))
ARRAY = raid(DISKS)
MIRROR = raid(DISKS[:2], level="raid1", chunk_bytes=0)


def dm(kind: str, uuid: str, *below: BlockDevice) -> BlockDevice:
    """Build a device-mapper device."""
    device = DmDevice("x", uuid, UNREAD)
    return disk("dm-0", DeviceNumber(254, 0), kind=kind, below=known(below), dm=device)


def filesystem_on(device: BlockDevice) -> Filesystem:
    """Build a filesystem on a device."""
    return filesystem(stack=known(device))


@pytest.mark.parametrize(
    ("fs", "text"),
    [
        (filesystem_on(disk()), "disk"),
        (filesystem_on(disk(model="Samsung SSD 990")), "disk (Samsung SSD 990)"),
        (boot(), "partition of nvme0n1"),
        (filesystem_on(disk(kind="partition", below=UNREAD)), "partition of a disk"),
        (
            filesystem_on(disk("md127p1", kind="partition", below=known((ARRAY,)))),
            "partition on raid0 of 5 disks, 512 KiB chunk",
        ),
        (
            filesystem_on(disk("loop0p1", kind="partition", below=known((loop(),)))),
            "partition on loop over /var/lib/image.img",
        ),
        (md127(), "raid0 of 2 disks, 512 KiB chunk"),
        (root(), "lvm (dm-linear) on nvme0n1p2"),
        (filesystem_on(MIRROR), "raid1 of 2 disks"),
        (filesystem_on(raid([PARTITION])), "raid0 of 1 partition, 512 KiB chunk"),
        (filesystem_on(raid([PARTITION, DISKS[1]])), "raid0 of 2 devices, 512 KiB chunk"),
        (
            filesystem_on(disk("md0", kind="raid5", md=UNREAD, below=known(DISKS))),
            "raid5 of 5 disks",
        ),
        (filesystem_on(loop()), "loop over /var/lib/image.img"),
        (filesystem_on(dm("dm-crypt", "CRYPT-LUKS2-x", PARTITION)), "crypt (dm-crypt) on vdb1"),
        (
            filesystem_on(dm("dm-multipath", "mpath-x", *DISKS[:2])),
            "multipath (dm-multipath) on vdb, vdc",
        ),
        (
            filesystem_on(dm("dm-linear", "LVM-x", *DISKS)),
            "lvm (dm-linear) on vdb, vdc, vdd and 2 more",
        ),
        (filesystem_on(dm("dm-delay", "", DISKS[0])), "dm-delay on vdb"),
        (filesystem_on(dm("dm", "LVM-x")), "lvm (dm)"),
        (
            filesystem_on(dm("dm-linear", "LVM-x", ARRAY)),
            "lvm (dm-linear) on raid0 of 5 disks, 512 KiB chunk",
        ),
        (filesystem(stack=UNREAD), "device stack not known"),
    ],
)
def test_stack_description(fs: Filesystem, text: str) -> None:
    """Each kind of stack is named, down to the devices whose names are enough."""
    assert stack_text(fs) == text


def test_chunk_of_an_lvm_stripe_is_from_the_layout() -> None:
    """An LVM stripe shows the chunk from which its layout was computed."""
    stripe = disk("md127", kind="dm-striped", below=known(DISKS[:2]))
    fs = filesystem(stack=known(stripe), layout=known(layout([1, 1], chunk_bytes=65536)))
    assert chunk_bytes(fs, stripe) == 65536
    assert stack_text(fs) == "dm-striped of 2 disks, 64 KiB chunk"


@pytest.mark.parametrize("device", [disk(), MIRROR], ids=["disk", "mirror"])
def test_device_without_chunks(device: BlockDevice) -> None:
    """Neither a disk nor a mirror (for which md reports 0) has a chunk."""
    assert chunk_bytes(filesystem(), device) is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "ext4"),
        ({"fstype": known("ext2")}, "ext2"),
        ({"fstype": unknown("type")}, "type not known"),
        ({"fstype": unknown("type"), "alive": False}, "ext4"),
        ({"fstype": unknown("t"), "alive": False, "superblock": unknown("s")}, "type not known"),
    ],
)
def test_type_text_of_mount_or_features(changes: dict[str, Any], text: str) -> None:
    """The type of a mounted filesystem can differ from what its features imply."""
    assert type_text(filesystem(**changes)) == text


def test_held_text_names_a_namespace_only_if_known() -> None:
    """Another mount namespace is named only if a process's mount table shows the mount."""
    assert held_text(filesystem(mounts=())) == "mounted in another mount namespace"
    assert "no readable mount table" in held_text(filesystem(fstype=unknown("type")))

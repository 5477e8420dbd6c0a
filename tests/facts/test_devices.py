"""Whether two devices show the same storage."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.facts.devices import BlockDevice, DmDevice, LsblkDevice, is_same_storage
from ext4audit.facts.mount import DeviceNumber
from support.builders import disk, known, loop, lsblk_row, raid, unknown

SDA, SDB = DeviceNumber(8, 0), DeviceNumber(8, 16)


def named(name: str, number: DeviceNumber, **udev: str) -> BlockDevice:
    """Return a disk with these udev properties."""
    return disk(name, number, udev=tuple(udev.items()))


def part(whole: BlockDevice, start: int | None, minor: int = 1) -> BlockDevice:
    """Return a partition."""
    number = DeviceNumber(whole.device_number.major, whole.device_number.minor + minor)
    return disk(
        f"{whole.name}{minor}", number, kind="partition", below=known((whole,)), start_sectors=start
    )


def over(file: str, minor: int, offset: int | None = 0) -> BlockDevice:
    """Return a loop device over a file."""
    built = loop()
    assert built.loop
    inner = built.loop._replace(backing_file=file, offset_bytes=offset)
    number = DeviceNumber(7, minor)
    return replace(built, name=f"loop{minor}", device_number=number, loop=inner)


def volume(minor: int, uuid: str, *below: BlockDevice, kind: str = "dm-linear") -> BlockDevice:
    """Return a mapped device."""
    dm = DmDevice(f"dm{minor}", uuid, unknown("table"))
    return disk(f"dm-{minor}", DeviceNumber(253, minor), kind=kind, below=known(below), dm=dm)


A, B = named("sda", SDA), named("sdb", SDB)
PATH_A, PATH_B = named("sda", SDA, ID_SERIAL="36001"), named("sdb", SDB, ID_SERIAL="36001")
OTHER_LUN = named("sdb", SDB, ID_SERIAL="36002")
VDB = named("vdb", DeviceNumber(254, 16))
SATA = (lsblk_row("sda"),)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (A, A, True),
        (A, B, None),
        (PATH_A, PATH_B, True),
        (PATH_A, B, None),
        (PATH_A, OTHER_LUN, False),
        (A, VDB, False),
        (named("sda", SDA, ID_BUS="usb", ID_SERIAL="x"), named("sdb", SDB, ID_SERIAL="x"), False),
        (part(A, 2048), part(A, 4096, 2), False),
        (part(A, 2048), part(A, None, 2), None),
        (part(A, 2048), A, None),
        (part(PATH_A, 2048), part(PATH_B, 2048), True),
        (part(PATH_A, 2048), part(PATH_B, 4096), None),
        (part(PATH_A, 2048), PATH_B, None),
        (part(PATH_A, 2048), part(OTHER_LUN, 2048), False),
        (over("/a", 0), over("/a", 1), True),
        (over("/a", 0), over("/b", 1), False),
        (over("/a", 0), over("/a", 1, 512), None),
        (over("/a", 0, 512), over("/a", 1, 512), True),
        (over("/a", 0, None), over("/a", 1), None),
        (over("/a", 0, None), over("/a", 1, None), None),
        (over("/a", 0, None), over("/b", 1, None), False),
        (over("", 0), over("", 1), None),
        (over("/a", 0), A, False),
        (A, over("/dev/sda", 0), True),
        (over("/dev/sda", 0, 512), A, None),
        (over("/dev/sda", 0, None), A, None),
        (over("/dev/sda", 0), B, None),
        (over("", 0), A, None),
        (volume(0, "LVM-1", A), volume(1, "LVM-2", A), False),
        (volume(0, "mpath-1", A), volume(1, "mpath-2", A), None),
        (volume(0, "mpath-1", PATH_A), PATH_B, None),
        (volume(0, "LVM-1", PATH_A), OTHER_LUN, False),
        (volume(0, "CRYPT-1", volume(2, "LVM-1", VDB)), A, False),
        (volume(0, "CRYPT-1"), A, None),
        (raid([A, VDB]), B, None),
        (raid([PATH_A, VDB]), OTHER_LUN, False),
    ],
)
def test_same_storage(one: BlockDevice, other: BlockDevice, same: bool | None) -> None:
    """Without a file or a serial number to compare, the answer is unknown."""
    assert is_same_storage(one, other) is same
    assert is_same_storage(other, one) is same


@pytest.mark.parametrize(("rows", "same"), [((), None), (SATA, False)])
def test_a_disk_that_has_one_path_only(rows: tuple[LsblkDevice, ...], *, same: bool | None) -> None:
    """The transport of the disk comes from lsblk."""
    assert is_same_storage(part(A, 2048), part(B, 2048), rows) is same

"""Storage stacks of the guest beyond md: LVM, LUKS, partitions, device mapper, SCSI, caches.

No udevd runs in the guest, so nothing may wait for one: LVM's configuration and, for
libdevmapper, DM_DISABLE_UDEV (libdm-common.c) say so, and both then make their nodes themselves.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.support.devices import run, wait_for

os.environ["DM_DISABLE_UDEV"] = "1"
LVM_CONFIG = (
    "activation { udev_sync=0 udev_rules=0 } backup { backup=0 archive=0 } "
    "devices { use_devicesfile=0 obtain_device_list_from_udev=0 }"
)


def lvm(*argv: str) -> None:
    """Run one LVM command."""
    run("lvm", *argv, "--config", LVM_CONFIG)


@contextlib.contextmanager
def logical_volume(
    members: Sequence[str], *options: str, more: Sequence[Sequence[str]] = ()
) -> Iterator[str]:
    """Create a volume group of the members and one logical volume in it, with lvcreate's options.

    `more` are further LVM commands, for example to extend the volume.
    """
    lvm("vgcreate", "-y", "lab", *members)
    try:
        lvm("lvcreate", "-y", "-W", "n", "-n", "data", *options, "lab")
        for command in more:
            lvm(*command)
        yield "/dev/mapper/lab-data"
    finally:
        lvm("vgremove", "-y", "lab")
        lvm("pvremove", "-y", *members)


@contextlib.contextmanager
def luks(device: str, *, version: str = "luks2", name: str = "secret") -> Iterator[str]:
    """Encrypt a device with LUKS and open it."""
    # PBKDF2 with the fewest rounds: argon2 takes a minute under TCG, and protects nothing here.
    cheap = ("--type", version, "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000")
    run("cryptsetup", "luksFormat", "-q", *cheap, "--key-file", "-", device, stdin="lab")
    run("cryptsetup", "open", "--key-file", "-", device, name, stdin="lab")
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("cryptsetup", "close", name)
        run("wipefs", "-a", device)


@contextlib.contextmanager
def partitions(device: str, *starts_sectors: int, sectors: int) -> Iterator[list[str]]:
    """Create partitions of equal size in a DOS partition table, and remove them again.

    The table is written by hand, because no tool for it is installed on every Debian.
    """
    entries = [struct.pack("<B3xB3xII", 0, 0x83, start, sectors) for start in starts_sectors]
    table = b"".join(entries).ljust(64, b"\0")
    _write_first_sector(device, b"\0" * 440 + b"LAB1\0\0" + table + b"\x55\xaa")
    separator = "p" if device[-1].isdigit() else ""
    nodes = [f"{device}{separator}{number + 1}" for number in range(len(entries))]
    try:
        for node in nodes:
            wait_for(node)
        yield nodes
    finally:
        _write_first_sector(device, b"\0" * 512)


def _write_first_sector(device: str, sector: bytes) -> None:
    with Path(device).open("r+b") as file:
        file.write(sector)
    run("blockdev", "--rereadpt", device)


@contextlib.contextmanager
def linear(device: str, start_sectors: int, sectors: int) -> Iterator[str]:
    """Map a range of sectors of a device with dm-linear."""
    table = f"0 {sectors} linear {device} {start_sectors}"
    run("dmsetup", "create", "--noudevsync", "window", "--table", table)
    try:
        yield "/dev/mapper/window"
    finally:
        run("dmsetup", "remove", "--noudevsync", "window")


@contextlib.contextmanager
def scsi_disk(size_mib: int) -> Iterator[str]:
    """Insert scsi_debug, which is a disk in the guest's memory, and remove it again."""
    run("insmod", "/modules/scsi_debug.ko", f"dev_size_mb={size_mib}", "delay=0")
    try:
        wait_for("/dev/sda")  # sd finds the disk asynchronously
        yield "/dev/sda"
    finally:
        run("rmmod", "scsi_debug")


@contextlib.contextmanager
def setting(path: str | Path, value: str) -> Iterator[None]:
    """Write a value into a sysfs file, and restore the former one."""
    file = Path(path)
    former = file.read_text().strip()
    file.write_text(value)
    try:
        yield
    finally:
        file.write_text(former)

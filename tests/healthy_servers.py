"""Servers as the installers of five distributions leave them, each on other hardware."""

from __future__ import annotations

import uuid

from evidence_host import HostEvidence
from healthy_devices import (
    HARD_DISK,
    NVME,
    SATA_SSD,
    Block,
    Mounted,
    disk,
    ext4,
    partition,
    volume,
)
from healthy_filesystems import Made
from healthy_systems import DEBIAN, EL8, EL9, JAMMY, NOBLE, System

MIB, GIB = 1 << 20, 1 << 30
BEHIND_A_CONTROLLER = {**HARD_DISK, "write_cache": "write through", "nr_requests": "256"}
"""What a RAID controller with a battery makes of its disks."""
LVM_START = 2048
"""Sectors before the first extent of a physical volume."""


def identifier(words: str) -> str:
    """Return a UUID that is always the same for the same words."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, words))


def efi(host: HostEvidence, block: Block) -> None:
    """Mount the partition of the firmware."""
    host.listed(block.name, block.number, fstype="vfat", uuid="7D2E-91AC")
    shown = "rw,fmask=0077,dmask=0077,codepage=437,iocharset=ascii,shortname=mixed,utf8"
    device = f"/dev/{block.name}"
    host.mount(40, block.number, "/boot/efi", device, fstype="vfat", super_options=shown)


def debian() -> HostEvidence:
    """Debian 12 with all in one partition, on a hard disk."""
    host = DEBIAN.host("files", 32)
    root_uuid, swap_uuid = identifier("debian-12 /"), identifier("debian-12 swap")
    disk(host, Block("sda", "8:0", 931 * GIB, HARD_DISK), model="ST1000NM0055-1V410C", tran="sata")
    firmware = Block("sda1", "8:1", 512 * MIB, HARD_DISK)
    root = Block("sda2", "8:2", 929 * GIB, HARD_DISK)
    swap = Block("sda3", "8:3", 976 * MIB, HARD_DISK)
    partition(host, firmware, "8:0", 2048)
    partition(host, root, "8:0", 1050624)
    partition(host, swap, "8:0", 1949296640, fstype="swap", uuid=swap_uuid)
    how = Mounted(25, "/dev/sda2", ("errors=remount-ro",), {"errors=continue": "errors=remount-ro"})
    ext4(host, DEBIAN, root, Made(DEBIAN.mke2fs, root_uuid, root.size_bytes, "/"), how)
    efi(host, firmware)
    host.file("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz root=UUID={root_uuid} ro quiet\n")
    return host.file(
        "/etc/fstab",
        "# /etc/fstab: static file system information.\n"
        "# <file system> <mount point>   <type>  <options>       <dump>  <pass>\n"
        "# / was on /dev/sda2 during installation\n"
        f"UUID={root_uuid} /               ext4    errors=remount-ro 0       1\n"
        "# /boot/efi was on /dev/sda1 during installation\n"
        "UUID=7D2E-91AC  /boot/efi       vfat    umask=0077      0       1\n"
        f"UUID={swap_uuid} none            swap    sw              0       0\n"
        "/dev/sr0        /media/cdrom0   udf,iso9660 user,noauto     0       0\n",
    )


def _ubuntu(system: System, whole: Block, prefix: str, number: str) -> HostEvidence:
    """Ubuntu's server installer: /boot beside a volume group, a part of which is the root."""
    host = system.host("web", 64)
    queue, major = whole.queue, number
    name = system.os[1]
    boot_uuid, root_uuid = identifier(f"ubuntu {name} /boot"), identifier(f"ubuntu {name} /")
    lvm_uuid = "Yq3mCk0vT1ZkP7dS5eXbAh2Rw9uNf6Lj" + "oG4iVtB8sKcE1xQyMz0aHp5rWd7nU3Fl"
    disk(host, whole)
    firmware = Block(f"{prefix}1", f"{major}:1", GIB, queue)
    boot = Block(f"{prefix}2", f"{major}:2", 2 * GIB, queue)
    physical = Block(f"{prefix}3", f"{major}:3", 443 * GIB, queue)
    partition(host, firmware, whole.number, 2048)
    partition(host, boot, whole.number, 2203648)
    partition(host, physical, whole.number, 6397952, fstype="LVM2_member", uuid=lvm_uuid[:32])
    root = Block("dm-0", "253:0", 100 * GIB, queue)
    title = "ubuntu--vg-ubuntu--lv"
    volume(host, root, title, lvm_uuid, on=physical, start=LVM_START)
    mapper = Mounted(25, f"/dev/mapper/{title}")
    ext4(host, system, root, Made(system.mke2fs, root_uuid, root.size_bytes, "/"), mapper)
    plain = Mounted(30, f"/dev/{boot.name}")
    ext4(host, system, boot, Made(system.mke2fs, boot_uuid, boot.size_bytes, "/boot"), plain)
    efi(host, firmware)
    host.file(
        "/proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{system.release} root=/dev/mapper/{title} ro\n"
    )
    return host.file(
        "/etc/fstab",
        "# / was on /dev/ubuntu-vg/ubuntu-lv during curtin installation\n"
        f"/dev/disk/by-id/dm-uuid-LVM-{lvm_uuid} / ext4 defaults 0 1\n"
        f"# /boot was on /dev/{boot.name} during curtin installation\n"
        f"/dev/disk/by-uuid/{boot_uuid} /boot ext4 defaults 0 1\n"
        f"# /boot/efi was on /dev/{firmware.name} during curtin installation\n"
        "/dev/disk/by-uuid/7D2E-91AC /boot/efi vfat defaults 0 1\n"
        "/swap.img\tnone\tswap\tsw\t0\t0\n",
    )


def jammy() -> HostEvidence:
    """Ubuntu 22.04 on a SATA SSD."""
    return _ubuntu(JAMMY, Block("sda", "8:0", 447 * GIB, SATA_SSD), "sda", "8")


def noble() -> HostEvidence:
    """Ubuntu 24.04 on an NVMe disk."""
    return _ubuntu(NOBLE, Block("nvme0n1", "259:0", 447 * GIB, NVME), "nvme0n1p", "259")


def _anaconda(system: System, whole: Block, prefix: str, major: str) -> HostEvidence:
    """Anaconda's automatic partitioning with ext4 chosen: /boot, and /, /home in LVM."""
    host = system.host("app", 128)
    queue, name = whole.queue, system.os[1]
    made = system.mke2fs
    boot_uuid = identifier(f"el {name} /boot")
    disk(host, whole)
    boot = Block(f"{prefix}1", f"{major}:1", GIB, queue)
    physical = Block(f"{prefix}2", f"{major}:2", 400 * GIB, queue)
    partition(host, boot, whole.number, 2048)
    partition(host, physical, whole.number, 2099200, fstype="LVM2_member")
    start = LVM_START
    volumes = ("root", 70, "/", 25), ("home", 300, "/home", 32)
    for index, (title, gib, point, mount_id) in enumerate(volumes):
        block = Block(f"dm-{index}", f"253:{index}", gib * GIB, queue)
        lvm_uuid = f"{title:x<64}"
        volume(host, block, f"rl-{title}", lvm_uuid, on=physical, start=start)
        start += block.size_bytes >> 9
        its_uuid = identifier(f"el {name} {point}")
        how = Mounted(mount_id, f"/dev/mapper/rl-{title}")
        ext4(host, system, block, Made(made, its_uuid, block.size_bytes, point), how)
    plain = Mounted(31, f"/dev/{boot.name}")
    ext4(host, system, boot, Made(made, boot_uuid, boot.size_bytes, "/boot"), plain)
    host.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=(hd0,msdos1)/vmlinuz-{system.release} root=/dev/mapper/rl-root ro "
        "crashkernel=auto rd.lvm.lv=rl/root rhgb quiet\n",
    )
    return host.file(
        "/etc/fstab",
        "\n#\n# /etc/fstab\n# Created by anaconda on Tue Jul  1 10:00:00 2025\n#\n"
        "/dev/mapper/rl-root     /                       ext4    defaults        1 1\n"
        f"UUID={boot_uuid} /boot                   ext4    defaults        1 2\n"
        "/dev/mapper/rl-home     /home                   ext4    defaults        1 2\n"
        "/dev/mapper/rl-swap     none                    swap    defaults        0 0\n",
    )


def el8() -> HostEvidence:
    """Rebuild of RHEL 8 behind a RAID controller."""
    whole = Block("sda", "8:0", 558 * GIB, BEHIND_A_CONTROLLER)
    return _anaconda(EL8, whole, "sda", "8")


def el9() -> HostEvidence:
    """Rebuild of RHEL 9 on an NVMe disk."""
    return _anaconda(EL9, Block("nvme0n1", "259:0", 476 * GIB, NVME), "nvme0n1p", "259")

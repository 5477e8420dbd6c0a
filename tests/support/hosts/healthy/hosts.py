"""Healthy hosts: servers and cloud instances as their installers leave them.

`python -m support.hosts.healthy.hosts` rewrites fixtures/hosts/healthy-<name>/snapshot. Their ext4
filesystems were really made, in the given sizes; everything else is modelled on such systems.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from support.hosts.evidence_host import HostEvidence
from support.hosts.fixtures import write
from support.hosts.healthy.devices import (
    EBS,
    HARD_DISK,
    NVME,
    SATA_SSD,
    VIRTIO,
    Block,
    FilesystemSpec,
    MountSpec,
    disk,
    ext4,
    partition,
    volume,
)
from support.hosts.healthy.systems import DEBIAN, EL8, EL9, JAMMY, NOBLE, UPSTREAM_1_47, System

MIB, GIB = 1 << 20, 1 << 30
RAID_CONTROLLER = {**HARD_DISK, "write_cache": "write through", "nr_requests": "256"}
"""The queue of a disk behind a RAID controller with a battery."""
LVM_START = 2048
"""The number of sectors before the first extent of a physical volume."""


def identifier(words: str) -> str:
    """Return a UUID that is the same for equal `words`."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, words))


def efi(host: HostEvidence, block: Block) -> None:
    """Mount the EFI system partition."""
    host.listed(block.name, block.number, fstype="vfat", uuid="7D2E-91AC")
    shown = "rw,fmask=0077,dmask=0077,codepage=437,iocharset=ascii,shortname=mixed,utf8"
    device = f"/dev/{block.name}"
    host.mount(40, block.number, "/boot/efi", device, fstype="vfat", super_options=shown)


def server_debian() -> HostEvidence:
    """Return Debian 12 with everything in one partition, on a hard disk."""
    host = DEBIAN.host("files", 32)
    root_uuid, swap_uuid = identifier("debian-12 /"), identifier("debian-12 swap")
    disk(host, Block("sda", "8:0", 931 * GIB, HARD_DISK), model="ST1000NM0055-1V410C", tran="sata")
    firmware = Block("sda1", "8:1", 512 * MIB, HARD_DISK)
    root = Block("sda2", "8:2", 929 * GIB, HARD_DISK)
    swap = Block("sda3", "8:3", 976 * MIB, HARD_DISK)
    partition(host, firmware, "8:0", 2048)
    partition(host, root, "8:0", 1050624)
    partition(host, swap, "8:0", 1949296640, fstype="swap", uuid=swap_uuid)
    how = MountSpec(
        25, "/dev/sda2", ("errors=remount-ro",), {"errors=continue": "errors=remount-ro"}
    )
    ext4(host, DEBIAN, root, FilesystemSpec(DEBIAN.mke2fs, root_uuid, root.size_bytes, "/"), how)
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
    """Return Ubuntu Server: a /boot partition, and / on a part of a volume group."""
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
    mapper = MountSpec(25, f"/dev/mapper/{title}")
    ext4(host, system, root, FilesystemSpec(system.mke2fs, root_uuid, root.size_bytes, "/"), mapper)
    plain = MountSpec(30, f"/dev/{boot.name}")
    ext4(
        host,
        system,
        boot,
        FilesystemSpec(system.mke2fs, boot_uuid, boot.size_bytes, "/boot"),
        plain,
    )
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


def server_jammy() -> HostEvidence:
    """Return Ubuntu 22.04 on a SATA SSD."""
    return _ubuntu(JAMMY, Block("sda", "8:0", 447 * GIB, SATA_SSD), "sda", "8")


def server_noble() -> HostEvidence:
    """Return Ubuntu 24.04 on an NVMe disk."""
    return _ubuntu(NOBLE, Block("nvme0n1", "259:0", 447 * GIB, NVME), "nvme0n1p", "259")


def _anaconda(system: System, whole: Block, prefix: str, major: str) -> HostEvidence:
    """Return Anaconda's automatic partitioning with ext4: /boot, and / and /home in LVM."""
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
        how = MountSpec(mount_id, f"/dev/mapper/rl-{title}")
        ext4(host, system, block, FilesystemSpec(made, its_uuid, block.size_bytes, point), how)
    plain = MountSpec(31, f"/dev/{boot.name}")
    ext4(host, system, boot, FilesystemSpec(made, boot_uuid, boot.size_bytes, "/boot"), plain)
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


def server_el8() -> HostEvidence:
    """Return a rebuild of RHEL 8 behind a RAID controller."""
    whole = Block("sda", "8:0", 558 * GIB, RAID_CONTROLLER)
    return _anaconda(EL8, whole, "sda", "8")


def server_el9() -> HostEvidence:
    """Return a rebuild of RHEL 9 on an NVMe disk."""
    return _anaconda(EL9, Block("nvme0n1", "259:0", 476 * GIB, NVME), "nvme0n1p", "259")


REMOUNT_RO = {"errors=continue": "errors=remount-ro"}
DISCARD = {**REMOUNT_RO, "nodiscard": "discard"}
CLOUD_KERNEL = replace(DEBIAN, release="6.1.0-28-cloud-amd64")
AWS_KERNEL = replace(
    JAMMY,
    release="6.8.0-1021-aws",
    version="#23~22.04.1-Ubuntu SMP Tue Dec 10 16:50:46 UTC 2024",
    signature="Ubuntu 6.8.0-1021.23~22.04.1-aws 6.8.12",
)


def _firmware(host: HostEvidence, whole: Block, name: str, number: str, start: int) -> None:
    block = Block(name, number, 106 * MIB, whole.queue)
    partition(host, block, whole.number, start)
    efi(host, block)


def cloud_debian() -> HostEvidence:
    """Return Debian's generic cloud image on a virtio disk."""
    host = CLOUD_KERNEL.host("vm", 4, "kvm")
    whole = Block("vda", "254:0", 20 * GIB, VIRTIO)
    root = Block("vda1", "254:1", 20 * GIB - 129 * MIB, VIRTIO)
    disk(host, whole)
    partition(host, root, whole.number, 262144)
    made = FilesystemSpec(
        DEBIAN.mke2fs, identifier("debian cloud"), root.size_bytes, "/", grown_from=2943 * MIB
    )
    partuuid = identifier("debian cloud partition")
    how = MountSpec(25, "/dev/vda1", ("discard", "errors=remount-ro"), DISCARD, partuuid)
    ext4(host, CLOUD_KERNEL, root, made, how)
    _firmware(host, whole, "vda15", "254:15", 8192)
    host.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=/boot/vmlinuz-{CLOUD_KERNEL.release} root=PARTUUID={partuuid} ro "
        "console=tty0 console=ttyS0,115200 earlyprintk=ttyS0,115200 consoleblank=0\n",
    )
    return host.file(
        "/etc/fstab",
        f"PARTUUID={partuuid} / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1\n"
        "UUID=7D2E-91AC /boot/efi vfat defaults 0 0\n",
    )


def cloud_jammy() -> HostEvidence:
    """Return Ubuntu 22.04 on Amazon's network volumes, which do not support discards."""
    host = AWS_KERNEL.host("ip-10-0-0-7", 8, "amazon")
    whole = Block("nvme0n1", "259:0", 30 * GIB, EBS)
    root = Block("nvme0n1p1", "259:1", 30 * GIB - 111 * MIB, EBS)
    disk(host, whole, model="Amazon Elastic Block Store", tran="nvme")
    partition(host, root, whole.number, 227328)
    _firmware(host, whole, "nvme0n1p15", "259:3", 10240)
    how = MountSpec(
        25, "/dev/root", ("discard", "errors=remount-ro"), DISCARD, identifier("jammy p")
    )
    made = FilesystemSpec(
        JAMMY.mke2fs,
        identifier("jammy cloud"),
        root.size_bytes,
        "/",
        label="cloudimg-rootfs",
        grown_from=2141 * MIB,
    )
    ext4(host, AWS_KERNEL, root, made, how)
    host.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=/boot/vmlinuz-{AWS_KERNEL.release} root=PARTUUID={how.partuuid} ro "
        "console=tty1 console=ttyS0 nvme_core.io_timeout=4294967295 panic=-1\n",
    )
    return host.file(
        "/etc/fstab",
        "LABEL=cloudimg-rootfs\t/\t ext4\tdiscard,errors=remount-ro\t0 1\n"
        "LABEL=UEFI\t/boot/efi\tvfat\tumask=0077\t0 1\n",
    )


def cloud_noble() -> HostEvidence:
    """Return Ubuntu 24.04 on a virtio disk, with a separate /boot.

    It has metadata_csum_seed and orphan_file, like filesystems of the upstream mke2fs: this is the
    harder case, and still healthy, because this GRUB and this kernel support both.
    """
    host = NOBLE.host("vm", 16, "kvm")
    whole = Block("vda", "252:0", 40 * GIB, VIRTIO)
    root = Block("vda1", "252:1", 39 * GIB, VIRTIO)
    boot = Block("vda16", "259:0", 913 * MIB, VIRTIO)
    disk(host, whole)
    partition(host, root, whole.number, 2099200)
    partition(host, boot, whole.number, 227328)
    _firmware(host, whole, "vda15", "252:15", 10240)
    asked = ("discard", "commit=30", "errors=remount-ro")
    how = MountSpec(25, "/dev/vda1", asked, {**DISCARD, "commit=5": "commit=30"})
    made = FilesystemSpec(
        UPSTREAM_1_47,
        identifier("noble cloud"),
        root.size_bytes,
        "/",
        label="cloudimg-rootfs",
        grown_from=2560 * MIB,
    )
    ext4(host, NOBLE, root, made, how)
    at_boot = FilesystemSpec(
        UPSTREAM_1_47, identifier("noble boot"), boot.size_bytes, "/boot", label="BOOT"
    )
    ext4(host, NOBLE, boot, at_boot, MountSpec(30, "/dev/vda16"))
    host.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=/vmlinuz-{NOBLE.release} root=LABEL=cloudimg-rootfs ro "
        "console=tty1 console=ttyS0\n",
    )
    return host.file(
        "/etc/fstab",
        "LABEL=cloudimg-rootfs\t/\text4\tdiscard,commit=30,errors=remount-ro\t0 1\n"
        "LABEL=BOOT\t/boot\text4\tdefaults\t0 2\n"
        "LABEL=UEFI\t/boot/efi\tvfat\tumask=0077\t0 1\n",
    )


def _with_data(system: System, whole: Block, root: Block, data: Block, kind: str) -> HostEvidence:
    """Return a host that boots from XFS and has its data on an ext4 on a whole disk."""
    host = system.host("db", 32, kind)
    disk(host, whole)
    disk(host, data)
    partition(host, root, whole.number, 206848, fstype="xfs", uuid=identifier(f"{kind} xfs"))
    shown = "rw,seclabel,attr2,inode64,logbufs=8,logbsize=32k,noquota"
    host.mount(25, root.number, "/", f"/dev/{root.name}", fstype="xfs", super_options=shown)
    its_uuid = identifier(f"{kind} {system.os[1]} data")
    made = FilesystemSpec(system.mke2fs, its_uuid, data.size_bytes, "/data")
    ext4(host, system, data, made, MountSpec(35, f"/dev/{data.name}"))
    root_uuid = identifier(f"{kind} xfs")
    host.file(
        "/proc/cmdline",
        f"BOOT_IMAGE=(hd0,gpt3)/vmlinuz-{system.release} root=UUID={root_uuid} "
        "console=tty0 console=ttyS0,115200n8 no_timer_check net.ifnames=0 crashkernel=auto\n",
    )
    return host.file(
        "/etc/fstab",
        f"UUID={root_uuid} / xfs defaults 0 0\nUUID={its_uuid} /data ext4 defaults,nofail 0 2\n",
    )


def cloud_el8() -> HostEvidence:
    """Return a rebuild of RHEL 8 with a virtio disk for the data."""
    whole = Block("vda", "253:0", 40 * GIB, VIRTIO)
    root = Block("vda5", "253:5", 38 * GIB, VIRTIO)
    return _with_data(EL8, whole, root, Block("vdb", "253:16", 500 * GIB, VIRTIO), "kvm")


def cloud_el9() -> HostEvidence:
    """Return a rebuild of RHEL 9 with an Amazon network volume for the data."""
    whole = Block("nvme0n1", "259:0", 40 * GIB, EBS)
    root = Block("nvme0n1p4", "259:4", 38 * GIB, EBS)
    return _with_data(EL9, whole, root, Block("nvme1n1", "259:5", 200 * GIB, EBS), "amazon")


HEALTHY = {
    "debian-12": server_debian,
    "ubuntu-22.04": server_jammy,
    "ubuntu-24.04": server_noble,
    "rhel-8": server_el8,
    "rhel-9": server_el9,
    "debian-12-cloud": cloud_debian,
    "ubuntu-22.04-cloud": cloud_jammy,
    "ubuntu-24.04-cloud": cloud_noble,
    "rhel-8-cloud": cloud_el8,
    "rhel-9-cloud": cloud_el9,
}

if __name__ == "__main__":
    for name, host in HEALTHY.items():
        write(f"healthy-{name}", host())

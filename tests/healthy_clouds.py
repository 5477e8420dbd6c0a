"""Machines from cloud images of five distributions, grown to their disks at the first boot."""

from __future__ import annotations

from dataclasses import replace

from evidence_host import HostEvidence
from healthy_devices import EBS, VIRTIO, Block, Mounted, disk, ext4, partition
from healthy_filesystems import Made
from healthy_mke2fs import UPSTREAM_1_47
from healthy_servers import GIB, MIB, efi, identifier
from healthy_systems import DEBIAN, EL8, EL9, JAMMY, NOBLE, System

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


def debian() -> HostEvidence:
    """Debian's generic cloud image on a virtio disk."""
    host = CLOUD_KERNEL.host("vm", 4, "kvm")
    whole = Block("vda", "254:0", 20 * GIB, VIRTIO)
    root = Block("vda1", "254:1", 20 * GIB - 129 * MIB, VIRTIO)
    disk(host, whole)
    partition(host, root, whole.number, 262144)
    made = Made(
        DEBIAN.mke2fs, identifier("debian cloud"), root.size_bytes, "/", grown_from=2943 * MIB
    )
    partuuid = identifier("debian cloud partition")
    how = Mounted(25, "/dev/vda1", ("discard", "errors=remount-ro"), DISCARD, partuuid)
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


def jammy() -> HostEvidence:
    """Ubuntu 22.04 on Amazon's network volumes, which take no discards."""
    host = AWS_KERNEL.host("ip-10-0-0-7", 8, "amazon")
    whole = Block("nvme0n1", "259:0", 30 * GIB, EBS)
    root = Block("nvme0n1p1", "259:1", 30 * GIB - 111 * MIB, EBS)
    disk(host, whole, model="Amazon Elastic Block Store", tran="nvme")
    partition(host, root, whole.number, 227328)
    _firmware(host, whole, "nvme0n1p15", "259:3", 10240)
    how = Mounted(25, "/dev/root", ("discard", "errors=remount-ro"), DISCARD, identifier("jammy p"))
    made = Made(
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


def noble() -> HostEvidence:
    """Ubuntu 24.04 on a virtio disk, with a /boot of its own.

    It has metadata_csum_seed and orphan_file, as upstream's mke2fs makes it: the harder case, and
    healthy as well, since this GRUB and this kernel know both.
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
    how = Mounted(25, "/dev/vda1", asked, {**DISCARD, "commit=5": "commit=30"})
    made = Made(
        UPSTREAM_1_47,
        identifier("noble cloud"),
        root.size_bytes,
        "/",
        label="cloudimg-rootfs",
        grown_from=2560 * MIB,
    )
    ext4(host, NOBLE, root, made, how)
    at_boot = Made(UPSTREAM_1_47, identifier("noble boot"), boot.size_bytes, "/boot", label="BOOT")
    ext4(host, NOBLE, boot, at_boot, Mounted(30, "/dev/vda16"))
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
    """Boot from XFS, and keep the data on an ext4 that was made on a whole disk."""
    host = system.host("db", 32, kind)
    disk(host, whole)
    disk(host, data)
    partition(host, root, whole.number, 206848, fstype="xfs", uuid=identifier(f"{kind} xfs"))
    shown = "rw,seclabel,attr2,inode64,logbufs=8,logbsize=32k,noquota"
    host.mount(25, root.number, "/", f"/dev/{root.name}", fstype="xfs", super_options=shown)
    its_uuid = identifier(f"{kind} {system.os[1]} data")
    made = Made(system.mke2fs, its_uuid, data.size_bytes, "/data")
    ext4(host, system, data, made, Mounted(35, f"/dev/{data.name}"))
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


def el8() -> HostEvidence:
    """Rebuild of RHEL 8 with a virtio disk for the data."""
    whole = Block("vda", "253:0", 40 * GIB, VIRTIO)
    root = Block("vda5", "253:5", 38 * GIB, VIRTIO)
    return _with_data(EL8, whole, root, Block("vdb", "253:16", 500 * GIB, VIRTIO), "kvm")


def el9() -> HostEvidence:
    """Rebuild of RHEL 9 with a network volume of Amazon's for the data."""
    whole = Block("nvme0n1", "259:0", 40 * GIB, EBS)
    root = Block("nvme0n1p4", "259:4", 38 * GIB, EBS)
    return _with_data(EL9, whole, root, Block("nvme1n1", "259:5", 200 * GIB, EBS), "amazon")

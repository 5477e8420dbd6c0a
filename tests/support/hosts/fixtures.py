"""Write fixture hosts for machines without a snapshot, from what is known about them.

`PYTHONPATH=tests uv run python -m support.hosts.fixtures` rewrites
fixtures/hosts/<fixture>/snapshot. The texts have the formats of the tools on such a host; the block
groups of the RAID0 are from a real `mke2fs` on a sparse file. Files that such a host lacks are
recorded as absent, so that a replay answers like the host.
"""

from __future__ import annotations

import shutil
import subprocess

from ext4audit.assemble.host import assemble_host
from ext4audit.sources import ReadBytes, ReadFile, RunCommand, Uname, VirtualMemory
from ext4audit.sources.snapshot.writing import RecordingSource
from support.hosts.evidence_host import (
    DATA_UUID,
    LSBLK_JSON,
    OPTIONS,
    TAKEN_AT,
    HostEvidence,
    debian_host,
    denied,
    descriptors,
    failed,
    replaced,
)
from support.hosts.fixture_hosts import HOSTS
from support.hosts.snapshots import write_snapshot
from support.images.mke2fs import sparse_image


def write(name: str, host: HostEvidence) -> None:
    """Write a host's answers to all asks of assembly, including the absent ones."""
    recorder = RecordingSource(host.source())
    assemble_host(recorder, TAKEN_AT)
    target = HOSTS / name / "snapshot"
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_snapshot(target, recorder.answers, taken_at=TAKEN_AT)


def al2() -> HostEvidence:
    """Return Alibaba Cloud Linux 2 with an affected kernel and the mount options of TiDB.

    util-linux 2.23 has no JSON; 4.19 has no writeback throttling; the audit ran without root.
    """
    host = debian_host().without("/proc/fs/ext4").without("/sys/fs/ext4").unmount(25, 30)
    host.answer(
        Uname(),
        "4.19.91-24.8.al7.x86_64\n#1 SMP Mon Oct 25 16:40:36 CST 2021\nx86_64\ntikv-1",
    )
    host.answer(VirtualMemory(), f"{32 << 30}\n{30 << 30}")
    host.file("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-4.19.91-24.8.al7.x86_64 ro quiet\n")
    host.file(
        "/etc/os-release",
        'NAME="Alibaba Cloud Linux (Aliyun Linux)"\nVERSION="2.1903 LTS (Hunting Beagle)"\n'
        'ID="alinux"\nID_LIKE="rhel fedora centos anolis"\nVERSION_ID="2.1903"\n'
        'PRETTY_NAME="Alibaba Cloud Linux (Aliyun Linux) 2.1903 LTS (Hunting Beagle)"\n',
    )
    host.file(
        "/etc/fstab",
        "#\n# /etc/fstab\n# Created by anaconda\n#\n"
        "UUID=eb448abb-3012-4d8d-bcde-94434d586a31 /     ext4 defaults 1 1\n\n"
        f"UUID={DATA_UUID} /data ext4 defaults,noatime,nodelalloc,dioread_nolock 0 2\n"
        "/data/tikv /srv/tikv none bind 0 0\n",
    )
    host.unlisted("sda", "sda1", "sdb").disk("vda", "253:0").partition("vda1", "253:1", "253:0")
    host.disk("vdb", "253:16").partition("vdb1", "253:17", "253:16")
    for ask in [a for a in host.answers if isinstance(a, ReadFile) and "wbt" in a.path]:
        del host.answers[ask]
    host.listed("vda1", "253:1", fstype="ext4", uuid="eb448abb-3012-4d8d-bcde-94434d586a31")
    host.listed("vdb1", "253:17", fstype="ext4", uuid=DATA_UUID)
    host.answer(LSBLK_JSON, failed("lsblk", "exit status 1: lsblk: invalid option -- 'J'"))
    host.mount(25, "253:1", "/", "/dev/vda1")
    given = {"flags": "rw,noatime", "super_options": "rw,dioread_nolock,nodelalloc"}
    host.mount(40, "253:17", "/data", "/dev/vdb1", **given)
    host.mount(41, "253:17", "/srv/tikv", "/dev/vdb1", root="/tikv", **given)
    host.options("vda1", replaced(OPTIONS, {"dioread_nolock": "dioread_lock"}))
    host.options("vdb1", replaced(OPTIONS, {"delalloc": "nodelalloc"}))
    for name in ("vda1", "vdb1"):
        host.dumpe2fs(f"/dev/{name}", denied(f"superblock of /dev/{name}"))
    return host.answer(RunCommand(("systemd-detect-virt", "--vm")), "kvm\n")


def raid0() -> HostEvidence:
    """Return twelve disks of 100 GiB in a RAID0 of 512 KiB chunks, formatted with the defaults."""
    blocks = 314376192
    header, groups = _real_mke2fs(blocks)
    host = debian_host().without("/proc/fs/ext4").without("/sys/fs/ext4").unmount(25, 30)
    host.answer(VirtualMemory(), f"{64 << 30}\n{60 << 30}")
    host.file("/etc/fstab", f"UUID={DATA_UUID} /srv/store ext4 noatime 0 2\n")
    host.mount(25, "0:24", "/", "tmpfs", fstype="tmpfs")
    members = {f"sd{chr(ord('c') + slot)}": f"8:{16 * (slot + 2)}" for slot in range(12)}
    for name, number in members.items():
        host.disk(name, number)
    host.unlisted("sda", "sda1", "sdb")
    host.stacked("md127", "9:127", **members).md("9:127", list(members))
    host.file("/sys/dev/block/9:127/size", f"{blocks * 8}\n")
    host.listed("md127", "9:127", fstype="ext4", uuid=DATA_UUID)
    host.mount(
        44, "9:127", "/srv/store", "/dev/md127", flags="rw,noatime", super_options="rw,stripe=1536"
    )
    host.options("md127", replaced(OPTIONS, {"stripe=0": "stripe=1536"}))
    host.dumpe2fs("/dev/md127", header)
    # The last descriptors: lazy initialization has finished.
    host.answer(ReadBytes("/dev/md127", 150 * 4096, 58 * 64), descriptors(58, size=64))
    return host.answer(RunCommand(("dumpe2fs", "-g", "/dev/md127")), groups)


def _real_mke2fs(blocks: int) -> tuple[str, str]:
    """Return the header and the groups that dumpe2fs prints for a real filesystem."""
    options = "stride=128,stripe_width=1536,lazy_itable_init=1,nodiscard"
    with sparse_image(blocks * 4096) as image:
        command = ["mke2fs", "-q", "-F", "-t", "ext4", "-U", DATA_UUID, "-E", options, str(image)]
        subprocess.run(command, check=True)
        header, groups = (
            subprocess.run(["dumpe2fs", flag, image], check=True, capture_output=True, text=True)
            for flag in ("-h", "-g")
        )
    return header.stdout, groups.stdout


if __name__ == "__main__":
    write("al2-dioread-nolock-nodelalloc", al2())
    write("raid0-12-disks-default-mkfs", raid0())

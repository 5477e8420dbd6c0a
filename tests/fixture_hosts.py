"""Write the fixture hosts: whole machines of which there is no snapshot, from what is known.

`python tests/fixture_hosts.py` writes fixtures/hosts/<story>/snapshot again. The texts are in the
formats of the tools that such a host has; the block groups of the RAID0 are from a real
`mke2fs` on a sparse file. What is asked and not in a story is recorded as absent, so that a
replay answers as the host would.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources.ask import (
    Ask,
    ListDir,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    Uname,
    VirtualMemory,
    describe,
)
from ext4audit.sources.recording import RecordingSource
from ext4audit.sources.snapshot import write_snapshot

HOSTS = Path(__file__).parents[1] / "fixtures" / "hosts"
TAKEN_AT = "2026-01-02T03:04:05Z"
LSBLK = "NAME,KNAME,MAJ:MIN,FSTYPE,UUID,LABEL,PARTUUID,PARTLABEL,MODEL,TRAN"


class Story:
    """A host as a tree of files and the answers of its tools; absent where not told."""

    def __init__(self, uname: str, memory: str) -> None:
        self.answers: dict[Ask, Evidence[str]] = {}
        self.tell(Uname(), uname)
        self.tell(VirtualMemory(), memory)

    def tell(self, ask: Ask, text: str) -> None:
        """Give one answer."""
        self.answers[ask] = Known(text, describe(ask))

    def file(self, path: str, text: str) -> None:
        """Give a file, and its name to the directories above it."""
        self.tell(ReadFile(path), text)
        child = Path(path)
        for parent in child.parents:
            listed = self.answers.get(ListDir(str(parent)))
            names = set(listed.value.split("\0")) - {""} if isinstance(listed, Known) else set()
            self.tell(ListDir(str(parent)), "\0".join(sorted(names | {child.name})))
            child = parent

    def disk(self, name: str, number: str, **values: str) -> None:
        """Give a disk: its sysfs directory under its device number, and its device node."""
        base = f"/sys/dev/block/{number}"
        major, minor = number.split(":")
        self.file(f"{base}/uevent", f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE=disk\n")
        self.file(f"/sys/class/block/{name}/dev", f"{number}\n")
        queue = {
            "write_cache": "write back",
            "fua": "0",
            "rotational": "1",
            "discard_max_bytes": "0",
            "minimum_io_size": "512",
            "optimal_io_size": "0",
            "logical_block_size": "512",
            "physical_block_size": "512",
            "nr_requests": "256",
            "max_sectors_kb": "1280",
        }
        size = values.pop("size", str(100 << 21))
        for key, value in {**queue, **values}.items():
            self.file(f"{base}/queue/{key}", f"{value}\n")
        self.file(f"{base}/size", f"{size}\n")
        self.file(f"{base}/ro", "0\n")
        self.answers.setdefault(ListDir(f"{base}/slaves"), Known("", f"{base}/slaves"))
        self.node(f"/dev/{name}", number)

    def node(self, path: str, number: str) -> None:
        """Give a device node."""
        self.tell(
            ResolvePath(path), f"mount_id=20\ndevice_number=0:6\ntype=block\nrepresents={number}\n"
        )

    def directory(self, path: str, number: str, mount_id: int) -> None:
        """Give a directory on a filesystem."""
        self.tell(
            ResolvePath(path), f"mount_id={mount_id}\ndevice_number={number}\ntype=directory\n"
        )
        self.tell(RealPath(path), f"{path}\n")

    def fetch(self, ask: Ask) -> Evidence[str]:
        """Answer as the host would."""
        absent = Unknown(describe(ask), Why.ABSENT, "No such file or directory")
        return self.answers.get(ask, absent)

    def write(self, name: str) -> None:
        """Write the answers to all that assembly asks, the absent ones included."""
        recorder = RecordingSource(self)  # type: ignore[arg-type] # it answers texts only
        assemble_host(recorder, TAKEN_AT)
        target = HOSTS / name / "snapshot"
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_snapshot(target, recorder.answers, taken_at=TAKEN_AT)


def dirty_limits(story: Story) -> None:
    """Give the kernel's default limits of dirty page cache."""
    for name, value in {
        "dirty_bytes": 0,
        "dirty_ratio": 20,
        "dirty_background_bytes": 0,
        "dirty_background_ratio": 10,
    }.items():
        story.file(f"/proc/sys/vm/{name}", f"{value}\n")


OPTIONS_4_19 = """\
bsddf nogrpid block_validity {dioread} nodiscard {delalloc} nowarn_on_error
journal_checksum barrier auto_da_alloc user_xattr acl noquota resuid=0 resgid=0 errors=continue
commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered inode_readahead_blks=32
init_itable=10 max_dir_size_kb=0
"""


def al2() -> None:
    """Alibaba Cloud Linux 2 with a kernel of the affected range, mounted as TiDB asks."""
    story = Story(
        "4.19.91-24.8.al7.x86_64\n#1 SMP Mon Oct 25 16:40:36 CST 2021\nx86_64\ntikv-1\n",
        f"{32 << 30}\n{30 << 30}\n",
    )
    uuid = "0c1c1b27-7f9b-4a9e-a3fb-9b1e2cf6a1d0"
    story.file(
        "/proc/self/mountinfo",
        "20 1 0:6 / /dev rw,nosuid - devtmpfs devtmpfs rw\n"
        "21 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
        "40 21 253:17 / /data rw,noatime shared:20 - ext4 /dev/vdb1 "
        "rw,dioread_nolock,nodelalloc\n"
        "41 21 253:17 /tikv /srv/tikv rw,noatime shared:20 - ext4 /dev/vdb1 "
        "rw,dioread_nolock,nodelalloc\n",
    )
    story.file("/proc/filesystems", "nodev\tsysfs\n\text4\n")
    story.file(
        "/etc/fstab",
        "#\n# /etc/fstab\n# Created by anaconda\n#\n"
        "UUID=eb448abb-3012-4d8d-bcde-94434d586a31 /     ext4 defaults 1 1\n\n"
        f"UUID={uuid} /data ext4 defaults,noatime,nodelalloc,dioread_nolock 0 2\n"
        "/data/tikv /srv/tikv none bind 0 0\n",
    )
    story.file("/proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz-4.19.91-24.8.al7.x86_64 ro quiet\n")
    story.file(
        "/etc/os-release",
        'NAME="Alibaba Cloud Linux (Aliyun Linux)"\nVERSION="2.1903 LTS (Hunting Beagle)"\n'
        'ID="alinux"\nID_LIKE="rhel fedora centos anolis"\nVERSION_ID="2.1903"\n'
        'PRETTY_NAME="Alibaba Cloud Linux (Aliyun Linux) 2.1903 LTS (Hunting Beagle)"\n',
    )
    dirty_limits(story)
    for disk, partition, number, parent in (
        ("vda", "vda1", "253:1", "253:0"),
        ("vdb", "vdb1", "253:17", "253:16"),
    ):
        data = disk == "vdb"
        story.disk(disk, parent)
        story.disk(partition, number)
        major, minor = number.split(":")
        base = f"/sys/dev/block/{number}"
        story.file(
            f"{base}/uevent",
            f"MAJOR={major}\nMINOR={minor}\nDEVNAME={partition}\nDEVTYPE=partition\n",
        )
        story.file(f"{base}/start", "2048\n")
        story.file(f"{base}/../dev", f"{parent}\n")
        for key in ("write_cache", "fua", "rotational", "nr_requests", "max_sectors_kb"):
            text = story.fetch(ReadFile(f"/sys/dev/block/{parent}/queue/{key}"))
            assert isinstance(text, Known)
            story.file(f"{base}/../queue/{key}", text.value)
        words = OPTIONS_4_19.format(
            dioread="dioread_nolock" if data else "dioread_lock",
            delalloc="nodelalloc" if data else "delalloc",
        )
        story.file(f"/proc/fs/ext4/{partition}/options", "rw\n" + "\n".join(words.split()) + "\n")
        story.file(f"/sys/fs/ext4/{partition}/errors_count", "0\n")
    story.directory("/", "253:1", 21)
    story.directory("/data", "253:17", 40)
    # util-linux 2.23 has no -J; dumpe2fs was run without root.
    story.answers[RunCommand(("lsblk", "-J", "-o", LSBLK))] = Unknown(
        "lsblk", Why.FAILED, "exit status 1: lsblk: invalid option -- 'J'"
    )
    pair = (
        'NAME="{0}" KNAME="{0}" MAJ:MIN="{1}" FSTYPE="{2}" UUID="{3}" LABEL="" PARTUUID="" '
        'PARTLABEL="" MODEL="" TRAN="virtio"\n'
    )
    story.tell(
        RunCommand(("lsblk", "-P", "-o", LSBLK)),
        pair.format("vda", "253:0", "", "")
        + pair.format("vda1", "253:1", "ext4", "eb448abb-3012-4d8d-bcde-94434d586a31")
        + pair.format("vdb", "253:16", "", "")
        + pair.format("vdb1", "253:17", "ext4", uuid),
    )
    for partition in ("vda1", "vdb1"):
        story.answers[RunCommand(("dumpe2fs", "-h", f"/dev/{partition}"))] = Unknown(
            f"superblock of /dev/{partition}",
            Why.DENIED,
            f"exit status 1: dumpe2fs: Permission denied while trying to open /dev/{partition}",
            "run as root",
        )
    story.tell(RunCommand(("systemd-detect-virt", "--vm")), "kvm\n")
    story.write("al2-dioread-nolock-nodelalloc")


def raid0() -> None:
    """Twelve disks of 100 GiB in a RAID0 of 512 KiB chunks, formatted with the defaults."""
    story = Story(
        "6.1.0-18-amd64\n#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)\nx86_64\nstore-7\n",
        f"{64 << 30}\n{60 << 30}\n",
    )
    blocks = 314376192
    header, groups, uuid = _mke2fs(blocks)
    story.file(
        "/proc/self/mountinfo",
        "20 1 0:6 / /dev rw,nosuid - devtmpfs udev rw\n"
        "21 1 0:24 / / rw,relatime - tmpfs tmpfs rw\n"
        "44 21 9:127 / /srv/store rw,noatime - ext4 /dev/md127 rw,stripe=1536\n",
    )
    story.file("/proc/filesystems", "nodev\tsysfs\n\text4\n")
    story.file("/etc/fstab", f"UUID={uuid} /srv/store ext4 noatime 0 2\n")
    story.file("/proc/cmdline", "quiet\n")
    story.file(
        "/etc/os-release",
        'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n',
    )
    dirty_limits(story)
    story.disk(
        "md127",
        "9:127",
        size=str(blocks * 8),
        minimum_io_size=str(512 << 10),
        optimal_io_size=str(12 * (512 << 10)),
    )
    base = "/sys/dev/block/9:127"
    del story.answers[ListDir(f"{base}/slaves")]
    for name, text in {
        "level": "raid0",
        "chunk_size": str(512 << 10),
        "raid_disks": "12",
        "layout": "-1",
        "reshape_position": "none",
    }.items():
        story.file(f"{base}/md/{name}", f"{text}\n")
    for slot in range(12):
        disk = f"sd{chr(ord('b') + slot)}"
        number = f"8:{16 * (slot + 1)}"
        story.disk(disk, number, wbt_lat_usec="75000")
        story.file(f"{base}/slaves/{disk}/dev", f"{number}\n")
        story.file(f"{base}/md/dev-{disk}/slot", f"{slot}\n")
        story.file(f"{base}/md/dev-{disk}/offset", "131072\n")
        story.file(f"{base}/md/dev-{disk}/size", "104792064\n")
    words = OPTIONS_4_19.format(dioread="dioread_nolock", delalloc="delalloc").replace(
        "stripe=0", "stripe=1536"
    )
    story.file("/proc/fs/ext4/md127/options", "rw\n" + "\n".join(words.split()) + "\n")
    story.file("/sys/fs/ext4/md127/errors_count", "0\n")
    story.directory("/srv/store", "9:127", 44)
    story.tell(RunCommand(("dumpe2fs", "-h", "/dev/md127")), header)
    story.tell(RunCommand(("dumpe2fs", "-g", "/dev/md127")), groups)
    story.tell(
        RunCommand(("lsblk", "-J", "-o", LSBLK)),
        '{"blockdevices": [{"name":"md127", "kname":"md127", "maj:min":"9:127", '
        f'"fstype":"ext4", "uuid":"{uuid}", "label":null, "partuuid":null, '
        '"partlabel":null, "model":null, "tran":null}]}\n',
    )
    story.tell(RunCommand(("systemd-detect-virt", "--vm")), "none\n")
    story.write("raid0-12-disks-default-mkfs")


def _mke2fs(blocks: int) -> tuple[str, str, str]:
    """Return what dumpe2fs says of a real filesystem of this size, and its UUID."""
    uuid = "7d3f2c1e-52a4-4c57-9a43-2f0e6d5b8c21"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        image = f"{scratch}/image"
        options = "stride=128,stripe_width=1536,lazy_itable_init=1,nodiscard"
        for command in (
            ["truncate", "-s", str(blocks * 4096), image],
            ["mke2fs", "-q", "-F", "-t", "ext4", "-U", uuid, "-E", options, image],
        ):
            subprocess.run(command, check=True)
        header, groups = (
            subprocess.run(["dumpe2fs", flag, image], check=True, capture_output=True, text=True)
            for flag in ("-h", "-g")
        )
    return header.stdout, groups.stdout, uuid


if __name__ == "__main__":
    al2()
    raid0()

"""Build the answers of a host: a plausible host by default, and one call per deviation.

A test of assembly reads as "this host, but with X": every answer can be replaced or removed.
Answers that were not given are absent, like files that a host does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import (
    Answer,
    Ask,
    ListDir,
    ReadBytes,
    ReadFile,
    RealPath,
    ResolvePath,
    RunCommand,
    Source,
    StatFilesystem,
    Uname,
    VirtualMemory,
    describe,
)
from ext4audit.sources.captured import MapSource

TAKEN_AT = "2026-01-02T03:04:05Z"
ROOT_UUID = "11111111-aaaa-4bbb-8ccc-000000000001"
DATA_UUID = "22222222-aaaa-4bbb-8ccc-000000000002"
COLUMNS = "NAME,KNAME,MAJ:MIN,FSTYPE,UUID,LABEL,PARTUUID,PARTLABEL,MODEL,TRAN"
LSBLK_JSON = RunCommand(("lsblk", "-J", "-o", COLUMNS))
LSBLK_PAIRS = RunCommand(("lsblk", "-P", "-o", COLUMNS))

FSTRIM_LINK = "/etc/systemd/system/timers.target.wants/fstrim.timer"
HALF_FULL = "4096 6417000 3217000 2889320 1638400 1500000"
"""f_frsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree of the filesystem in `dumpe2fs_text`."""
GROUPS = 200
"""The number of block groups of the filesystem in `dumpe2fs_text`."""

OPTIONS = """\
rw bsddf nogrpid block_validity dioread_nolock nodiscard delalloc nowarn_on_error
journal_checksum barrier auto_da_alloc user_xattr acl noquota resuid=0 resgid=0 errors=continue
commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered inode_readahead_blks=32
init_itable=10 max_dir_size_kb=0"""
"""The options file of a default filesystem on Linux 6.1 and 6.12, with blanks for newlines."""

QUEUE = {
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
    "wbt_lat_usec": "75000",
}


def absent(what: str = "it") -> Unknown:
    """Return the unknown for something that the host does not have."""
    return Unknown(what, Why.ABSENT, "No such file or directory")


def denied(what: str = "it") -> Unknown:
    """Return the unknown for something that only root may read."""
    return Unknown(what, Why.DENIED, "Permission denied", "run as root")


def failed(what: str = "it", detail: str = "exit status 1") -> Unknown:
    """Return the unknown for a program that failed."""
    return Unknown(what, Why.FAILED, detail)


def replaced(words: str, changes: Mapping[str, str]) -> str:
    """Replace whole words of a list, all of which must occur; "" removes a word."""
    given = words.split()
    assert set(changes) <= set(given), set(changes) - set(given)
    return " ".join(word for word in (changes.get(each, each) for each in given) if word)


def options_text(words: str) -> str:
    """Return an options file: one word per line."""
    return "\n".join(words.split()) + "\n"


def dumpe2fs_text(
    uuid: str = DATA_UUID,
    *,
    label: str = "<none>",
    bits: str = "user_xattr acl",
    string: str = "",
    features: str = "has_journal dir_index extent 64bit flex_bg metadata_csum",
    errors: str = "Continue",
    raid: str = "",
) -> str:
    """Return the output of `dumpe2fs -h` (1.47) for a filesystem of 25 GiB."""
    mount_options = f"Mount options:            {string}\n" if string else ""
    return (
        "dumpe2fs 1.47.0 (5-Feb-2023)\n"
        f"Filesystem volume name:   {label}\n"
        "Last mounted on:          /data\n"
        f"Filesystem UUID:          {uuid}\n"
        "Filesystem magic number:  0xEF53\n"
        "Filesystem revision #:    1 (dynamic)\n"
        f"Filesystem features:      {features}\n"
        "Filesystem flags:         signed_directory_hash \n"
        f"Default mount options:    {bits}\n"
        f"{mount_options}"
        "Filesystem state:         clean\n"
        f"Errors behavior:          {errors}\n"
        "Filesystem OS type:       Linux\n"
        "Inode count:              1638400\n"
        "Block count:              6553600\n"
        "First block:              0\n"
        "Block size:               4096\n"
        "Blocks per group:         32768\n"
        "Inodes per group:         8192\n"
        f"{raid}"
        "Flex block group size:    16\n"
        "Inode size:               256\n"
        "Total journal size:       128M\n"
        "Journal sequence:         0x00000002\n"
        "Journal start:            1\n"
    )


def descriptors(groups: int, *, unzeroed: int = 0, size: int = 32) -> bytes:
    """Return group descriptors; the last ones have inode tables not yet initialized (lazily)."""
    zeroed = b"\4".rjust(0x13, b"\0").ljust(size, b"\0")
    return zeroed * (groups - unzeroed) + bytes(size) * unzeroed


class HostSource(Source):
    """Replays the answers of a host; everything else is absent."""

    def __init__(self, answers: Mapping[Ask, Answer]) -> None:
        self._answers = MapSource(answers)

    def answer(self, ask: Ask) -> Answer:
        """Return the answer of the host."""
        answer: Answer = self._answers.fetch(ask)
        is_uncaptured = isinstance(answer, Unknown) and answer.why is Why.NOT_CAPTURED
        return absent(describe(ask)) if is_uncaptured else answer


class HostEvidence:
    """The answers of a host; each method changes some and returns the host itself."""

    def __init__(self) -> None:
        self.answers: dict[Ask, Answer] = {}
        self._mounts: dict[int, str] = {}
        self._lsblk_rows: dict[str, dict[str, str | None]] = {}

    def answer(self, ask: Ask, answer: str | bytes | Unknown) -> HostEvidence:
        """Add or replace one answer."""
        origin = describe(ask)
        match answer:
            case Unknown():
                self.answers[ask] = answer
            case str():
                self.answers[ask] = Known(answer, origin)
            case bytes():
                self.answers[ask] = Known(answer, origin)
        return self

    def file(self, path: str, text: str | Unknown) -> HostEvidence:
        """Add or replace one file."""
        return self.answer(ReadFile(path), text)

    def without(self, path: str) -> HostEvidence:
        """Remove a file, or a directory and everything below it."""
        for ask in list(self.answers):
            if isinstance(ask, ReadFile | ListDir) and f"{ask.path}/".startswith(f"{path}/"):
                del self.answers[ask]
        return self

    def options(self, name: str, words: str = OPTIONS) -> HostEvidence:
        """Add the options file and the sysfs directory of a mounted ext4 filesystem."""
        self.file(f"/proc/fs/ext4/{name}/options", options_text(words))
        base = f"/sys/fs/ext4/{name}"
        return self.file(f"{base}/errors_count", "0\n").file(f"{base}/warning_count", "0\n")

    def node(self, path: str, number: str) -> HostEvidence:
        """Add a block device node."""
        return self.answer(
            ResolvePath(path), f"mount_id=22\ndevice_number=0:6\ntype=block\nrepresents={number}\n"
        )

    def path(self, path: str, number: str, mount_id: int, kind: str = "directory") -> HostEvidence:
        """Add a path on a filesystem."""
        self.answer(RealPath(path), path)
        return self.answer(
            ResolvePath(path), f"mount_id={mount_id}\ndevice_number={number}\ntype={kind}\n"
        )

    def mount(
        self,
        mount_id: int,
        number: str,
        mount_point: str,
        source: str,
        *,
        fstype: str = "ext4",
        flags: str = "rw,relatime",
        super_options: str = "rw",
        root: str = "/",
    ) -> HostEvidence:
        """Add or replace a line of mountinfo, and the path of its mount point.

        An ext4 filesystem is half full.
        """
        self._mounts[mount_id] = (
            f"{mount_id} 1 {number} {root} {mount_point} {flags} - {fstype} {source} "
            f"{super_options}\n"
        )
        if fstype.startswith("ext"):
            self.usage(mount_point, number)
        return self.path(mount_point, number, mount_id)

    def usage(self, mount_point: str, number: str, counts: str = HALF_FULL) -> HostEvidence:
        """Add or replace the result of statvfs at a mount point."""
        return self.answer(StatFilesystem(mount_point), f"{number} {counts}")

    def _lines_of_mountinfo(self) -> Iterator[str]:
        """Yield the mounts in order, as children of /: as its siblings they would be hidden."""
        root = next((m for m in self._mounts if self._mounts[m].split()[4] == "/"), 1)
        for mount_id in sorted(self._mounts):
            line = self._mounts[mount_id]
            parent = 1 if mount_id == root else root
            yield line.replace(f"{mount_id} 1 ", f"{mount_id} {parent} ", 1)

    def unmount(self, *mount_ids: int) -> HostEvidence:
        """Remove lines from mountinfo."""
        for mount_id in mount_ids:
            del self._mounts[mount_id]
        return self

    def listed(self, name: str, number: str, **columns: str) -> HostEvidence:
        """Add a device to the output of lsblk."""
        row: dict[str, str | None] = dict.fromkeys(COLUMNS.lower().split(","))
        self._lsblk_rows[name] = {**row, "name": name, "kname": name, "maj:min": number, **columns}
        return self

    def unlisted(self, *names: str) -> HostEvidence:
        """Remove devices from the output of lsblk."""
        for name in names:
            del self._lsblk_rows[name]
        return self

    def disk(self, name: str, number: str, **queue: str) -> HostEvidence:
        """Add a disk of 100 GiB: its sysfs directory, its node, and its row in lsblk."""
        base = f"/sys/dev/block/{number}"
        self._block(base, name, number, "disk")
        for key, value in {**QUEUE, **queue}.items():
            self.file(f"{base}/queue/{key}", f"{value}\n")
        return self.answer(ListDir(f"{base}/slaves"), "")

    def partition(self, name: str, number: str, disk: str, start: int = 2048) -> HostEvidence:
        """Add a partition of the disk with the number `disk`."""
        base = f"/sys/dev/block/{number}"
        self._block(base, name, number, "partition")
        self.file(f"{base}/start", f"{start}\n").file(f"{base}/../dev", f"{disk}\n")
        for key, value in QUEUE.items():
            self.file(f"{base}/../queue/{key}", f"{value}\n")
        return self

    def stacked(self, name: str, number: str, **below: str) -> HostEvidence:
        """Add a device on top of others, given as names with their device numbers."""
        self.disk(name, number)
        del self.answers[ListDir(f"/sys/dev/block/{number}/slaves")]
        for slave, its_number in below.items():
            self.file(f"/sys/dev/block/{number}/slaves/{slave}/dev", f"{its_number}\n")
        return self

    def md(self, number: str, members: list[str], **attributes: str) -> HostEvidence:
        """Turn a stacked device into an md array, by default RAID0 with chunks of 512 KiB."""
        base = f"/sys/dev/block/{number}/md"
        values = {
            "level": "raid0",
            "chunk_size": "524288",
            "raid_disks": str(len(members)),
            "layout": "-1",
            "reshape_position": "none",
            **attributes,
        }
        for key, value in values.items():
            self.file(f"{base}/{key}", f"{value}\n")
        for slot, member in enumerate(members):
            self.md_member(number, member, str(slot))
        return self

    def md_member(self, number: str, name: str, slot: str) -> HostEvidence:
        """Add a member device to an array."""
        base = f"/sys/dev/block/{number}/md/dev-{name}"
        self.file(f"{base}/slot", f"{slot}\n").file(f"{base}/offset", "131072\n")
        return self.file(f"{base}/size", "104792064\n")

    def dm(self, number: str, name: str, uuid: str, table: str | Unknown) -> HostEvidence:
        """Turn a stacked device into a device-mapper device."""
        major, minor = number.split(":")
        base = f"/sys/dev/block/{number}/dm"
        self.file(f"{base}/name", f"{name}\n").file(f"{base}/uuid", f"{uuid}\n")
        self.node(f"/dev/mapper/{name}", number)
        return self.answer(RunCommand(("dmsetup", "table", "-j", major, "-m", minor)), table)

    def loop(self, name: str, number: str, backing_file: str) -> HostEvidence:
        """Add a loop device that is backed by a file."""
        self.disk(name, number)
        for base in (f"/sys/dev/block/{number}", f"/sys/block/{name}"):
            self.file(f"{base}/loop/backing_file", f"{backing_file}\n")
            self.file(f"{base}/loop/offset", "0\n")
        return self

    def dumpe2fs(self, device: str, text: str | Unknown) -> HostEvidence:
        """Add or replace the output of `dumpe2fs -h` for a device."""
        return self.answer(RunCommand(("dumpe2fs", "-h", device)), text)

    def groups(self, device: str, data: bytes) -> HostEvidence:
        """Add the group descriptors of a filesystem, which follow its superblock."""
        return self.answer(ReadBytes(device, 4096, len(data)), data)

    def as_user(self) -> HostEvidence:
        """Deny what only root may read: devices and device-mapper tables."""
        for ask in self.answers:
            is_for_root = isinstance(ask, RunCommand) and ask.argv[0] in {"dumpe2fs", "dmsetup"}
            if is_for_root or isinstance(ask, ReadBytes):
                self.answers[ask] = denied(describe(ask))
        return self

    def source(self) -> HostSource:
        """Return a source that answers for this host in its current state."""
        answers = dict(self.answers)
        table = "".join(self._lines_of_mountinfo())
        answers.setdefault(ReadFile("/proc/self/mountinfo"), Known(table, "/proc/self/mountinfo"))
        rows = list(self._lsblk_rows.values())
        pairs = "".join(" ".join(_pair(key, row[key]) for key in row) + "\n" for row in rows)
        answers.setdefault(LSBLK_JSON, Known(json.dumps({"blockdevices": rows}), "lsblk -J"))
        answers.setdefault(LSBLK_PAIRS, Known(pairs, "lsblk -P"))
        for directory, names in _directories(answers).items():
            listing = "\0".join(sorted(names))
            answers.setdefault(ListDir(directory), Known(listing, directory))
        return HostSource(answers)

    def _block(self, base: str, name: str, number: str, kind: str) -> None:
        """Add the files of every block device; "cciss!c0d0" has the node /dev/cciss/c0d0."""
        major, minor = number.split(":")
        node = name.replace("!", "/")
        self.file(
            f"{base}/uevent", f"MAJOR={major}\nMINOR={minor}\nDEVNAME={node}\nDEVTYPE={kind}\n"
        )
        self.file(f"{base}/size", f"{100 << 21}\n")
        self.file(f"{base}/alignment_offset", "0\n").answer(ListDir(f"{base}/holders"), "")
        self.file(f"/sys/class/block/{name}/dev", f"{number}\n")
        self.node(f"/dev/{node}", number)
        self.listed(name, number)


def debian_host() -> HostEvidence:
    """Return a Debian 12 host: / on the partition sda1, /data on the whole disk sdb."""
    host = HostEvidence()
    host.answer(
        Uname(), "6.1.0-18-amd64\n#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)\nx86_64\ndb1"
    )
    host.answer(VirtualMemory(), f"{16 << 30}\n{15 << 30}")
    for key, value in {
        "dirty_bytes": 0,
        "dirty_ratio": 20,
        "dirty_background_bytes": 0,
        "dirty_background_ratio": 10,
    }.items():
        host.file(f"/proc/sys/vm/{key}", f"{value}\n")
    host.answer(RunCommand(("systemd-detect-virt", "--vm")), "none\n")
    host.file("/proc/filesystems", "nodev\tsysfs\nnodev\ttmpfs\n\text3\n\text2\n\text4\n")
    host.file("/sys/fs/ext4/features/lazy_itable_init", "supported\n")
    host.file("/proc/cmdline", "root=/dev/sda1 ro quiet\n")
    host.file("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian 12"\n')
    host.file("/etc/fstab", f"UUID={ROOT_UUID} / ext4 errors=remount-ro 0 1\n")
    host.mount(21, "0:23", "/proc", "proc", fstype="proc")
    host.mount(22, "0:6", "/dev", "udev", fstype="devtmpfs")
    host.disk("sda", "8:0").partition("sda1", "8:1", "8:0").disk("sdb", "8:16")
    host.listed("sda1", "8:1", fstype="ext4", uuid=ROOT_UUID, partuuid="5eed-01")
    host.listed("sdb", "8:16", fstype="ext4", uuid=DATA_UUID, label="data")
    host.mount(25, "8:1", "/", "/dev/sda1", super_options="rw,errors=remount-ro")
    host.mount(30, "8:16", "/data", "/dev/sdb")
    host.options("sda1", replaced(OPTIONS, {"errors=continue": "errors=remount-ro"}))
    host.options("sdb")
    host.dumpe2fs("/dev/sda1", dumpe2fs_text(ROOT_UUID))
    host.dumpe2fs("/dev/sdb", dumpe2fs_text(DATA_UUID))
    for device in ("/dev/sda1", "/dev/sdb"):
        host.groups(device, descriptors(GROUPS))
    host.answer(RealPath("/boot/grub/grub.cfg"), "/boot/grub/grub.cfg")
    host.answer(RunCommand(("grub-install", "--version")), "grub-install (GRUB) 2.06-13+deb12u1\n")
    return host.answer(RealPath(FSTRIM_LINK), "/usr/lib/systemd/system/fstrim.timer")


def _pair(key: str, value: str | None) -> str:
    return f'{key.upper()}="{value or ""}"'


def _directories(answers: Mapping[Ask, Answer]) -> dict[str, set[str]]:
    """Return the names in each directory that contains an answered file at any depth."""
    found: dict[str, set[str]] = {}
    for ask in answers:
        if isinstance(ask, ReadFile):
            path = ask.path
            while "/" in path.strip("/"):
                parent, _, name = path.rpartition("/")
                found.setdefault(parent, set()).add(name)
                path = parent
    return found

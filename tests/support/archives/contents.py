"""Build the archives of other programs in memory: a plausible host, with deviations."""

from __future__ import annotations

from collections.abc import Mapping

from ext4audit.sources.archive import recognise
from ext4audit.sources.archive.layouts import SosCapture
from ext4audit.sources.captured import Captured
from ext4audit.sources.containers import ARCHIVE_LIMITS, Directory, File, Link, MemoryArchive

ROOT_UUID = "11111111-aaaa-4bbb-8ccc-000000000001"
DATA_UUID = "22222222-aaaa-4bbb-8ccc-000000000002"

Files = dict[str, str]


def archive(
    files: Mapping[str, str | bytes],
    *,
    links: Mapping[str, str] | None = None,
    label: str = "given.tar.xz",
) -> MemoryArchive:
    """Return an archive of these files and symbolic links."""
    made = MemoryArchive(label, ARCHIVE_LIMITS)
    for path, content in files.items():
        raw = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
        made.add(path, File(raw))
    for path, target in (links or {}).items():
        made.add(path, Link(target))
    return made


def empty_archive(*folders: str) -> MemoryArchive:
    """Return an archive that contains only directories."""
    made = MemoryArchive("empty.tar", ARCHIVE_LIMITS)
    for folder in folders:
        made.add(folder, Directory())
    return made


def dumpe2fs_header(uuid: str, *, defaults: str = "user_xattr acl") -> str:
    """Return the output of `dumpe2fs -h` including stderr, as sos stores it."""
    return (
        "dumpe2fs 1.47.0 (5-Feb-2023)\n"
        "Filesystem volume name:   <none>\n"
        "Last mounted on:          /data\n"
        f"Filesystem UUID:          {uuid}\n"
        "Filesystem magic number:  0xEF53\n"
        "Filesystem revision #:    1 (dynamic)\n"
        "Filesystem features:      has_journal ext_attr dir_index filetype extent 64bit flex_bg "
        "sparse_super large_file huge_file dir_nlink extra_isize metadata_csum\n"
        "Filesystem flags:         signed_directory_hash \n"
        f"Default mount options:    {defaults}\n"
        "Filesystem state:         clean\n"
        "Errors behavior:          Continue\n"
        "Filesystem OS type:       Linux\n"
        "Inode count:              655360\n"
        "Block count:              2621440\n"
        "Reserved block count:     131072\n"
        "Free blocks:              2554687\n"
        "Free inodes:              655349\n"
        "First block:              0\n"
        "Block size:               4096\n"
        "Fragment size:            4096\n"
        "Blocks per group:         32768\n"
        "Fragments per group:      32768\n"
        "Inodes per group:         8192\n"
        "Inode blocks per group:   512\n"
        "Flex block group size:    16\n"
        "First inode:              11\n"
        "Inode size:\t          256\n"
        "Journal inode:            8\n"
        "Total journal size:       64M\n"
    )


OPTIONS = (
    "rw bsddf nogrpid block_validity dioread_nolock nodiscard delalloc nowarn_on_error "
    "journal_checksum barrier auto_da_alloc user_xattr acl noquota resuid=0 resgid=0 "
    "errors=continue commit=5 min_batch_time=0 max_batch_time=15000 stripe=0 data=ordered "
    "inode_readahead_blks=32 init_itable=10 max_dir_size_kb=0\n"
).replace(" ", "\n")
PARTITIONS = (
    "major minor  #blocks  name\n\n"
    " 253        0   41943040 vda\n 253        1   41941999 vda1\n 253       16   10485760 vdb\n"
)
DEV_LISTING = (
    "/dev:\ntotal 0\n"
    "brw-rw----  1 0   6  253,   0 Nov 21 02:30 vda\n"
    "brw-rw----  1 0   6  253,   1 Nov 21 02:30 vda1\n"
    "brw-rw----  1 0   6  253,  16 Nov 21  2025 vdb\n"
    "lrwxrwxrwx  1 0   0        4 Nov 21 02:30 root -> vda1\n"
    "\n/dev/disk/by-uuid:\ntotal 0\n"
    f"lrwxrwxrwx 1 0 0 10 Nov 21 02:30 {DATA_UUID} -> ../../vdb\n"
)
MOUNTINFO = (
    "25 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "26 25 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw\n"
    "40 25 253:16 / /data rw,noatime shared:30 - ext4 /dev/vdb rw,nobarrier\n"
)
UNAME = "Linux db-1 5.14.0-427.el9.x86_64 #1 SMP PREEMPT_DYNAMIC x86_64 x86_64 x86_64 GNU/Linux\n"


def sos_files() -> Files:
    """Return the files of a small host without a manifest, as in sos before 4.0."""
    return {
        "sos_commands/filesys/dumpe2fs_-h_.dev.vda1": dumpe2fs_header(ROOT_UUID),
        "sos_commands/filesys/dumpe2fs_-h_.dev.vdb": dumpe2fs_header(DATA_UUID),
        "sos_commands/block/ls_-lanR_.dev": DEV_LISTING,
        "sos_commands/block/blkid_-c_.dev.null": (
            f'/dev/vda1: UUID="{ROOT_UUID}" TYPE="ext4" PARTUUID="aaaa-01"\n'
            f'/dev/vdb: LABEL="da\\"ta" UUID="{DATA_UUID}" TYPE="ext4"\n'
        ),
        "sos_commands/kernel/uname_-a": UNAME,
        "sos_commands/host/hostname": "db-1\n",
        "sos_commands/date/date_--utc": "Sat Nov 21 05:56:57 UTC 2026\n",
        "proc/1/mountinfo": MOUNTINFO,
        "proc/partitions": PARTITIONS,
        "proc/filesystems": "nodev\tsysfs\n\text4\n",
        "proc/fs/ext4/vda1/options": OPTIONS,
        "proc/fs/ext4/vdb/options": OPTIONS.replace("barrier\n", "nobarrier\n", 1),
        "proc/meminfo": "MemTotal:       32000000 kB\nMemAvailable:   30000000 kB\n",
        "proc/cmdline": "ro quiet\n",
        "etc/fstab": (
            f"UUID={ROOT_UUID} / ext4 defaults 1 1\nUUID={DATA_UUID} /data ext4 noatime 0 2\n"
        ),
        "etc/os-release": 'ID="rhel"\nVERSION_ID="9.4"\nPRETTY_NAME="RHEL 9.4"\n',
        "sys/devices/pci/virtio1/block/vdb/queue/write_cache": "write back\n",
    }


SOS_LINKS = {"proc/self": "1", "sys/block/vdb": "../devices/pci/virtio1/block/vdb"}


def moved_below(top: str, files: Mapping[str, str]) -> Files:
    """Return the files with their paths moved below a directory."""
    return {f"{top}/{path}": content for path, content in files.items()}


def capture(files: dict[str, str]) -> SosCapture:
    """Return the capture of a sosreport with these files."""
    made = archive({"sos_commands/x/x": "", **files})
    return SosCapture(made, "", kind="sosreport", commands="sos_commands")


def recognised_capture(
    files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None
) -> Captured:
    """Return the capture as which an archive of these files is recognised."""
    found = recognise(archive(files, links=links))
    assert found is not None
    return found


def sosreport(
    changed: Mapping[str, str | bytes] | None = None, *, without: tuple[str, ...] = ()
) -> Captured:
    """Return the sosreport of the small host, with some files changed and some left out."""
    files = {
        path: content
        for path, content in {**sos_files(), **(changed or {})}.items()
        if not path.startswith(without or ("\0",))
    }
    return recognised_capture(files, SOS_LINKS)

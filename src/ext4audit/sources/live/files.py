"""Files of this host: paths, raw bytes, the memory, and the mount table of another process.

A hardened service (ProtectSystem=strict, PrivateTmp=) sees every mount read-only, and mounts that
the host does not have. The table of process 1 is the host's: any process may read it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ext4audit.evidence import Why
from ext4audit.sources import Unanswered, decode, encode

# The descriptors of 64 TiB are 32 MiB. A damaged superblock can claim a thousand times that.
LARGEST_READ_BYTES = 64 << 20
_LARGEST_OFFSET = (1 << 63) - 1
_NO_PROC = "/proc/self is missing: /proc is not mounted, or is that of another PID namespace"
_FOR_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@contextmanager
def located(path: str) -> Iterator[int]:
    """Yield an O_PATH descriptor of the file at `path`, which is not opened."""
    descriptor = os.open(encode(path), os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_checked(path: str, is_wanted: Callable[[int], bool], wanted: str) -> int:
    """Return a descriptor for reading, if `is_wanted` holds for the file's mode; raises OSError.

    The mode is checked first: opening a tape rewinds it, and opening a watchdog arms it. The check
    and the open concern the same inode, because the second uses the descriptor of the first. The
    caller closes it.
    """
    found = os.open(encode(path), os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(found).st_mode
        if not is_wanted(mode):
            raise OSError(errno.EINVAL, f"{_kind(mode)}, not {wanted}")
        with _own_descriptors():
            return os.open(f"/proc/self/fd/{found}", _FOR_READING)
    finally:
        os.close(found)


@contextmanager
def _own_descriptors() -> Iterator[None]:
    """Tell a missing /proc/self from a missing file; raises Unanswered.

    `nsenter -m` leaves a program in its PID namespace, of which the other /proc knows nothing.
    """
    try:
        yield
    except FileNotFoundError:
        raise Unanswered(Why.FAILED, _NO_PROC, "run with /proc of its PID namespace") from None


def resolve_path(path: str) -> str:
    """Return `mount_id`, `device_number`, `type`, `represents` as KEY=value lines.

    The mount id is the key to mountinfo. st_dev is not: on overlayfs a regular file's st_dev
    matches no line of mountinfo (Linux 6.18). Raises OSError.
    """
    with located(path) as descriptor:
        status = os.fstat(descriptor)
        lines = [
            f"mount_id={_mount_id(descriptor)}",
            f"device_number={_device_number(status.st_dev)}",
            f"type={_type(status.st_mode)}",
        ]
    if stat.S_ISBLK(status.st_mode):
        lines.append(f"represents={_device_number(status.st_rdev)}")
    return "\n".join(lines)


def real_path(path: str) -> str:
    """Return the canonical absolute path, as realpath(3); raises OSError, ENOENT included.

    The kernel resolves it first: it fails at 40 symbolic links (ELOOP), where Python recurses once
    a link until its stack ends.
    """
    with located(path):
        return decode(os.path.realpath(encode(path), strict=True))


def stat_filesystem(path: str) -> str:
    """Return the device number and six numbers of statvfs(3); raises OSError.

    Both are of one descriptor: what is mounted over the path meanwhile cannot mix them.
    """
    with located(path) as descriptor:
        status, space = os.fstat(descriptor), os.fstatvfs(descriptor)
    counts = (space.f_blocks, space.f_bfree, space.f_bavail, space.f_files, space.f_ffree)
    return " ".join((_device_number(status.st_dev), *map(str, (space.f_frsize, *counts))))


def read_bytes(path: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return `length_bytes` bytes at `offset_bytes`; raises OSError, and Unanswered for fewer.

    Not by O_DIRECT: ext4 keeps the descriptors of a mounted filesystem in the page cache of its
    block device, and what is on the disk is older (49 of 800 descriptors were stale in a test).
    """
    if not 0 <= offset_bytes <= _LARGEST_OFFSET - LARGEST_READ_BYTES or length_bytes < 0:
        raise OSError(errno.EINVAL, "no such place on any device")
    if length_bytes > LARGEST_READ_BYTES:
        raise OSError(errno.EFBIG, f"{length_bytes} bytes; at most {LARGEST_READ_BYTES} are read")
    descriptor = open_checked(path, _has_bytes, "a block device or a regular file")
    try:
        found = os.pread(descriptor, length_bytes, offset_bytes)
    finally:
        os.close(descriptor)
    if len(found) < length_bytes:
        detail = f"{len(found)} of {length_bytes} bytes are there"
        raise Unanswered(Why.FAILED, detail)
    return found


def _kind(mode: int) -> str:
    """Return the readable name of a file type."""
    names = {
        stat.S_IFREG: "a regular file",
        stat.S_IFDIR: "a directory",
        stat.S_IFBLK: "a block device",
        stat.S_IFCHR: "a character device",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    return names.get(stat.S_IFMT(mode), "a file of unknown type")


def _mount_id(descriptor: int) -> str:
    """Return `mnt_id` of proc_pid_fdinfo(5), there since Linux 3.15."""
    with (
        _own_descriptors(),
        open(f"/proc/self/fdinfo/{descriptor}", "rb") as info,  # noqa: PTH123 - no path of a host
    ):
        for line in info:
            key, _, value = line.partition(b":")
            if key == b"mnt_id":
                return str(int(value))
    raise OSError("no mnt_id in /proc/self/fdinfo: older than Linux 3.15")


def _device_number(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _type(mode: int) -> str:
    """Return the type of a file: those that a target can have, or "other"."""
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFBLK: "block"}
    return names.get(stat.S_IFMT(mode), "other")


def _has_bytes(mode: int) -> bool:
    return stat.S_ISBLK(mode) or stat.S_ISREG(mode)


OWN_MOUNTS = "/proc/self/mountinfo"
_HINT = "run the program in the mount namespace of the host"


def table_of(pid: int) -> str:
    """Return the path of the mount table of a process."""
    return f"/proc/{pid}/mountinfo"


def translated(resolved: str, read: Callable[[str], str], pid: int) -> str:
    """Return the lines of a resolved path with the mount id that process `pid` has for it.

    Mount ids differ between namespaces. Raises Unanswered for a path on a mount that only the
    namespace of this program has: there it is another file than on the host. Raises OSError.
    """
    first, *others = resolved.split("\n")
    own_id = first.removeprefix("mount_id=")
    places = {mount_id: place for place, mount_id in _mount_ids(read(OWN_MOUNTS)).items()}
    theirs = _mount_ids(read(table_of(pid))).get(places[own_id]) if own_id in places else None
    if theirs is None:
        raise Unanswered(Why.UNSUPPORTED, f"on a mount that process {pid} does not have", _HINT)
    return "\n".join((f"mount_id={theirs}", *others))


def _mount_ids(table: str) -> dict[tuple[str, ...], str]:
    """Return the id of each mount by device number, root and mount point (proc_pid_mountinfo(5)).

    Two namespaces that were copied have these in common. Of mounts of one place, the id is that of
    the last, which is on top.
    """
    rows = (line.split(" ") for line in table.split("\n"))
    return {tuple(row[2:5]): row[0] for row in rows}


MEMINFO = "/proc/meminfo"
BYTES_PER_KIB = 1024
_DIRTYABLE = (b"MemFree:", b"Active(file):", b"Inactive(file):")
"""What a kernel lets become dirty (mm/page-writeback.c: global_dirtyable_memory)."""


def virtual_memory() -> str:
    """Return total and available memory in bytes, one a line; raises Unanswered, OSError.

    MemAvailable exists since Linux 3.14, can be 0, and is the host's in some containers, beyond
    their total. What the kernel lets become dirty, at most the total, stands for it then.
    """
    with open(MEMINFO, "rb") as file:  # noqa: PTH123 - pathlib costs a scan its start
        lines = (line.split() for line in file)
        kib = {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
    total, available = kib.get(b"MemTotal:", 0), kib.get(b"MemAvailable:", 0)
    if not 0 < available <= total:
        available = min(total, sum(kib.get(name, 0) for name in _DIRTYABLE))
    if not available:
        raise Unanswered(Why.FAILED, f"no memory in {MEMINFO}", "mount /proc")
    return f"{total * BYTES_PER_KIB}\n{available * BYTES_PER_KIB}"

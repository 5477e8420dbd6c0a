"""Read this host's paths, raw bytes and memory size, and the mount table of another process.

A hardened service (ProtectSystem=strict, PrivateTmp=) sees all mounts read-only, and sees mounts
that the host does not have. Process 1 has the host's mount table, which any process may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ext4audit.evidence import MOUNT_TABLE, Why
from ext4audit.sources import EndsEarly, Unanswered, decode, encode

# The descriptors of 64 TiB are 32 MiB. A damaged superblock can claim a thousand times that.
# The largest text of any ask is a mount table; 30,000 container mounts are 8 MiB.
LARGEST_FILE_BYTES = 8 << 20
LARGEST_READ_BYTES = 64 << 20
_LARGEST_OFFSET = (1 << 63) - 1
_NO_PROC = "/proc/self is missing: /proc is not mounted, or is that of another PID namespace"
_FOR_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@contextmanager
def located(path: str) -> Iterator[int]:
    """Yield an O_PATH descriptor of the file at `path`, without opening the file itself."""
    descriptor = os.open(encode(path), os.O_PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_checked(path: str, is_wanted: Callable[[int], bool], wanted: str) -> int:
    """Open a file for reading if `is_wanted` accepts its mode; raises OSError.

    The mode is checked first, because opening a tape rewinds it and opening a watchdog arms it.
    The file is reopened through the checked descriptor, so both are the same inode. The caller must
    close the returned descriptor.
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
    """Raise Unanswered in place of FileNotFoundError: /proc/self is missing, not the file.

    After `nsenter -m`, /proc belongs to another PID namespace, which does not include this process.
    """
    try:
        yield
    except FileNotFoundError:
        raise Unanswered(Why.FAILED, _NO_PROC, "run with /proc of its PID namespace") from None


def resolve_path(path: str) -> str:
    """Return `mount_id`, `device_number`, `type`, `represents` as KEY=value lines.

    The mount id identifies the line in mountinfo. st_dev cannot: on overlayfs, the st_dev of a
    regular file matches no line (Linux 6.18). Raises OSError.
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
    """Return the canonical absolute path, like realpath(3); raises OSError, including ENOENT.

    The kernel resolves the path first and fails at 40 symbolic links (ELOOP); Python alone would
    recurse once per link until its stack overflows.
    """
    with located(path):
        return decode(os.path.realpath(encode(path), strict=True))


def stat_filesystem(path: str) -> str:
    """Return the device number and six fields of statvfs(3), separated by spaces; raises OSError.

    Both are read through one descriptor, so a mount that appears over the path cannot mix them.
    """
    with located(path) as descriptor:
        status, space = os.fstat(descriptor), os.fstatvfs(descriptor)
    counts = (space.f_blocks, space.f_bfree, space.f_bavail, space.f_files, space.f_ffree)
    return " ".join((_device_number(status.st_dev), *map(str, (space.f_frsize, *counts))))


def read_bytes(path: str, offset_bytes: int, length_bytes: int) -> bytes:
    """Return `length_bytes` bytes at `offset_bytes`; raises OSError or Unanswered.

    O_DIRECT is not used: ext4 keeps the group descriptors of a mounted filesystem in the page cache
    of its block device, and those on disk are older (49 of 800 were stale in a test).
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
        raise EndsEarly(len(found), length_bytes)
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
    """Return `mnt_id` from proc_pid_fdinfo(5), available since Linux 3.15; raises OSError."""
    with (
        _own_descriptors(),
        open(f"/proc/self/fdinfo/{descriptor}", "rb") as info,  # noqa: PTH123 - not a path of the host
    ):
        for line in info:
            key, _, value = line.partition(b":")
            if key == b"mnt_id":
                return str(int(value))
    raise OSError("no mnt_id in /proc/self/fdinfo: older than Linux 3.15")


def _device_number(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _type(mode: int) -> str:
    """Return the type of a file: "file", "directory" or "block" (possible targets), or "other"."""
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFBLK: "block"}
    return names.get(stat.S_IFMT(mode), "other")


def _has_bytes(mode: int) -> bool:
    return stat.S_ISBLK(mode) or stat.S_ISREG(mode)


_HINT = "run the program in the mount namespace of the host"


def table_of(pid: int) -> str:
    """Return the path of the mount table of a process."""
    return f"/proc/{pid}/mountinfo"


def translated(resolved: str, read: Callable[[str], str], pid: int) -> str:
    """Return the output of `resolve_path` with the mount id that is valid in process `pid`.

    Mount ids differ between namespaces. Raises Unanswered if the path is on a mount that process
    `pid` does not have, because the path is a different file there. Raises OSError.
    """
    first, *others = resolved.split("\n")
    own_id = first.removeprefix("mount_id=")
    places = {mount_id: place for place, mount_id in _mount_ids(read(MOUNT_TABLE)).items()}
    theirs = _mount_ids(read(table_of(pid))).get(places[own_id]) if own_id in places else None
    if theirs is None:
        raise Unanswered(Why.UNSUPPORTED, f"on a mount that process {pid} does not have", _HINT)
    return "\n".join((f"mount_id={theirs}", *others))


def _mount_ids(table: str) -> dict[tuple[str, ...], str]:
    """Return the id of each mount by device number, root and mount point (proc_pid_mountinfo(5)).

    These three are the same in a copy of a mount namespace. If several mounts share them, the last
    one, which is on top, determines the id.
    """
    rows = (line.split(" ") for line in table.split("\n"))
    return {tuple(row[2:5]): row[0] for row in rows}


MEMINFO = "/proc/meminfo"
BYTES_PER_KIB = 1024
_DIRTYABLE = (b"MemFree:", b"Active(file):", b"Inactive(file):")
"""The memory that may become dirty (mm/page-writeback.c: global_dirtyable_memory)."""


def virtual_memory() -> str:
    """Return total and available memory in bytes, one per line; raises Unanswered or OSError.

    MemAvailable exists since Linux 3.14, can be 0, and in some containers is that of the host and
    exceeds their total. In these cases the dirtyable memory, at most the total, replaces it.
    """
    with open(MEMINFO, "rb") as file:  # noqa: PTH123 - pathlib delays the start
        lines = (line.split() for line in file)
        kib = {line[0]: int(line[1]) for line in lines if len(line) > 1 and line[1].isdigit()}
    total, available = kib.get(b"MemTotal:", 0), kib.get(b"MemAvailable:", 0)
    if not 0 < available <= total:
        available = min(total, sum(kib.get(name, 0) for name in _DIRTYABLE))
    if not available:
        raise Unanswered(Why.FAILED, f"no memory in {MEMINFO}", "mount /proc")
    return f"{total * BYTES_PER_KIB}\n{available * BYTES_PER_KIB}"


def read_file(path: str) -> str:
    """Return the text of a regular file; raises OSError.

    The size that stat reports is not used: files of /proc and sysfs report 0.
    """
    raw = bytearray()
    descriptor = open_checked(path, stat.S_ISREG, "a regular file")
    try:
        while chunk := os.read(descriptor, 1 << 16):
            raw += chunk
            if len(raw) > LARGEST_FILE_BYTES:
                raise OSError(errno.EFBIG, f"larger than {LARGEST_FILE_BYTES} bytes")
    finally:
        os.close(descriptor)
    return decode(bytes(raw))


def read_mount_table(path: str) -> str:
    """Return a mount table; the error names its file, for the ask names that of this process."""
    try:
        return read_file(path)
    except OSError as error:
        raise OSError(error.errno, f"{path}: {error.strerror}") from error


def list_directory(path: str) -> str:
    """Return the names in a directory, sorted and joined by NUL; raises OSError."""
    names = os.listdir(encode(path))  # noqa: PTH208 - pathlib decodes by the locale
    return "\0".join(decode(name) for name in sorted(names))

"""What a path leads to, without opening it."""

from __future__ import annotations

import os
import stat

from ext4audit.sources.opening import located
from ext4audit.sources.text import decode, encode


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

    The kernel looks first: it gives up at 40 symbolic links (ELOOP), where Python recurses once
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


def _mount_id(descriptor: int) -> str:
    """Return `mnt_id` of proc_pid_fdinfo(5), there since Linux 3.15."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as info:  # noqa: PTH123 - no path of a host
        for line in info:
            key, _, value = line.partition(b":")
            if key == b"mnt_id":
                return str(int(value))
    raise OSError("no mnt_id in /proc/self/fdinfo: older than Linux 3.15")


def _device_number(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _type(mode: int) -> str:
    """Name the types that a target can have; everything else is of no interest."""
    names = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFBLK: "block"}
    return names.get(stat.S_IFMT(mode), "other")

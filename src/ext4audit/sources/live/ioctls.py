"""Two read-only ioctls of a mount point, which need neither root nor the block device."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat

from ext4audit.evidence import Why
from ext4audit.sources.live.paths import opened
from ext4audit.sources.text import Unanswered

_TUNE_SUPERBLOCK_BYTES = 232
_UUID_BYTES = 16
_NOT_OFFERED = {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

# Machines of include/uapi/asm-generic/ioctl.h. alpha, mips, parisc, powerpc and sparc encode the
# direction in other bits: there these numbers are other requests, so nothing is sent.
_COMMON_ENCODING = re.compile(r"x86_64|i[3-6]86|aarch64|arm.*|riscv.*|s390x?|loongarch64")


def tune_superblock(mount_point: str) -> bytes:
    """Return `struct ext4_tune_sb_params` (fs/ext4/ioctl.c, Linux 6.18), as the kernel fills it.

    Raises Unanswered where the kernel or the filesystem has no such request, OSError.
    """
    request = read_request(ord("f"), 45, _TUNE_SUPERBLOCK_BYTES)
    return _ask(mount_point, request, _TUNE_SUPERBLOCK_BYTES, "needs ext4 and Linux 6.18 or newer")


def filesystem_uuid(mount_point: str) -> bytes:
    """Return the UUID of `struct fsuuid2` (include/uapi/linux/fs.h, Linux 6.9).

    Raises Unanswered where the kernel or the filesystem has no UUID to give, OSError.
    """
    hint = "needs a filesystem with a UUID and Linux 6.9 or newer"
    answer = _ask(mount_point, read_request(0x15, 0, 1 + _UUID_BYTES), 1 + _UUID_BYTES, hint)
    if answer[0] != _UUID_BYTES:
        raise Unanswered(Why.UNSUPPORTED, f"the UUID is {answer[0]} bytes long", hint)
    return answer[1:]


def read_request(kind: int, number: int, size_bytes: int) -> int:
    """Return `_IOR(kind, number, size)` in the common encoding."""
    return 2 << 30 | size_bytes << 16 | kind << 8 | number


def has_common_encoding(machine: str) -> bool:
    """Whether uname's machine encodes ioctl numbers as asm-generic does."""
    return _COMMON_ENCODING.fullmatch(machine) is not None


def _ask(mount_point: str, request: int, size_bytes: int, hint: str) -> bytes:
    machine = os.uname().machine
    if not has_common_encoding(machine):
        raise Unanswered(Why.UNSUPPORTED, f"ioctl numbers of {machine} are not known here")
    answer = bytearray(size_bytes)
    with opened(mount_point, _can_be_mount_point, "a mount point") as descriptor:
        try:
            fcntl.ioctl(descriptor, request, answer)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise
            raise Unanswered(Why.UNSUPPORTED, error.strerror or str(error), hint) from None
    return bytes(answer)


def _can_be_mount_point(mode: int) -> bool:
    """Whether a mode is of a directory, or of the file that containers bind (/etc/hosts)."""
    return stat.S_ISDIR(mode) or stat.S_ISREG(mode)

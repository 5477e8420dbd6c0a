"""mount(2) without mount(8): quick in an emulated guest, and returns the kernel's error number."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

MS_REMOUNT = 32
LIBC = ctypes.CDLL(None, use_errno=True)


def mount_call(
    device: str, place: Path, options: str = "", flags: int = 0, *, fstype: str = "ext4"
) -> int:
    """Mount (or remount, with MS_REMOUNT); return 0 or the error number."""
    words = (device, place, fstype)
    arguments = [os.fsencode(word) for word in words]
    failed = LIBC.mount(*arguments, flags, os.fsencode(options))
    return ctypes.get_errno() if failed else 0


def unmount(place: Path) -> None:
    """Unmount; a failure is an error of the lab."""
    if LIBC.umount(os.fsencode(place)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), place)


class KernelLog:
    """Kernel messages from now on (/dev/kmsg, Documentation/ABI/testing/dev-kmsg)."""

    def __init__(self) -> None:
        self._file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._file, 0, os.SEEK_END)

    def lines(self) -> list[str]:
        """Return ext4's messages since the object was created, and close the log."""
        found = []
        try:
            while True:
                record = os.read(self._file, 8192).decode(errors="replace")
                found.append(record.partition(";")[2].splitlines()[0])
        except BlockingIOError:
            return [line for line in found if line.lower().startswith("ext4")]
        finally:
            os.close(self._file)

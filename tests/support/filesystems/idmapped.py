"""Mount a mounted filesystem a second time, as an idmapped mount.

mount(8) supports this since util-linux 2.39 (X-mount.idmap), the system calls since Linux 5.12.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from pathlib import Path

from support.timing import HANG_SECONDS

OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
CLONE_TREE, MOVE_FROM_DESCRIPTOR = 1, 4
IDMAP = 0x00100000
SHIFT = 1000
"""The number that is added to the user and group IDs of files."""


def mount_idmapped(source: Path, target: Path) -> None:
    """Mount the filesystem of `source` on `target` with shifted IDs; raises OSError on failure."""
    libc = ctypes.CDLL(None, use_errno=True)
    hold = ["unshare", "--user", "sh", "-c", f"echo; exec sleep {HANG_SECONDS}"]
    with subprocess.Popen(hold, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{process.pid}/{name}").write_text(f"0 {SHIFT} 1000", "ascii")
            users = os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY)
        finally:
            process.kill()
    tree = _done(libc.syscall(OPEN_TREE, AT_FDCWD, bytes(source), CLONE_TREE | os.O_CLOEXEC))
    wanted = struct.pack("QQQQ", IDMAP, 0, 0, users)
    _done(libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, wanted, len(wanted)))
    place = AT_FDCWD, bytes(target), MOVE_FROM_DESCRIPTOR
    _done(libc.syscall(MOVE_MOUNT, tree, b"", *place))
    os.close(tree)
    os.close(users)


def _done(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

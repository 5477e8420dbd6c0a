"""The mount table of the test process, and a private mount namespace with known mounts.

A private namespace has two uses: mounts of the tests never reach the host, and tests do not see
mounts of the host that come and go while they run.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8

KEPT_BELOW = tuple(map(Path, "/proc /sys /dev /run".split()))
KEPT_ABOVE = tuple(
    map(
        Path,
        "/bin /boot /etc /home /lib /lib/modules /lib64 /opt /root /sbin /tmp /usr "
        "/usr/lib/modules /usr/local /var/cache /var/lib /var/tmp".split(),
    )
)


class MountLine(NamedTuple):
    """The fields of a line of mountinfo that tests use."""

    mount_id: str
    mount_point: str
    fstype: str


def mount_table() -> list[MountLine]:
    r"""Return the mounts of this process.

    Lines end with "\n" and fields with a blank; the kernel escapes these two, no other separators.
    """
    raw = Path("/proc/self/mountinfo").read_bytes().decode("utf-8", "surrogateescape")
    rows = [line.split(" ") for line in raw.split("\n") if line]
    return [MountLine(row[0], _unescaped(row[4]), row[row.index("-", 6) + 1]) for row in rows]


def enter_private_namespace() -> None:
    """Move this process into a private mount namespace; raises OSError if that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(CLONE_NEWNS))
    _check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))


def detach_unneeded_mounts(*kept: Path) -> None:
    """Detach mounts in this namespace that neither the system nor the tests nor `kept` need.

    A copy of another user's mount would keep a filesystem alive after its owner unmounts it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for line in reversed(mount_table()):
        if not _is_needed(Path(line.mount_point), kept):
            # This fails for mounts that the owner of a container has locked; they remain.
            libc.umount2(os.fsencode(line.mount_point), MNT_DETACH | UMOUNT_NOFOLLOW)


@contextmanager
def other_mount_namespace() -> Iterator[int]:
    """Keep a copy of this mount namespace alive with a process, and yield its process ID."""
    script = "mount --make-rprivate / && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        yield holder.pid


def private_etc_command(folder: Path) -> str:
    """Return a command that gives a mount namespace an /etc whose changes stay in a folder.

    It mounts an overlay, because a copy of 1,300 files takes half a second, and as long to remove.
    If that fails because the folder is on an overlay itself, as in a container, it makes a copy.
    """
    upper, work, copy = folder / "etc-upper", folder / "etc-work", folder / "etc-copy"
    options = f"lowerdir=/etc,upperdir={upper},workdir={work}"
    return (
        f"mkdir {upper} {work} && mount -t overlay -o {options} etc /etc 2>{folder}/etc-refused"
        f" || {{ cp -a /etc {copy} && mount --bind {copy} /etc; }}"
    )


def _is_needed(mount_point: Path, kept: tuple[Path, ...]) -> bool:
    if any(mount_point.is_relative_to(folder) for folder in KEPT_BELOW):
        return True
    own = (Path.cwd(), Path(__file__), Path(sys.prefix), Path(sys.base_prefix))
    named = [*os.environ.get("PATH", "").split(":"), os.environ.get("XDG_CACHE_HOME", "/")]
    homes = (Path.home(), Path(tempfile.gettempdir()))
    needed = (*KEPT_ABOVE, *kept, *own, *homes, *map(Path, named))
    return any(path.is_relative_to(mount_point) for path in needed)


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

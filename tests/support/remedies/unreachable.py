"""Filesystems whose mounts no remount may go through.

The kernel remounts what a directory leads to, whatever device the command names: below another
mount, it is the other filesystem that changes. A remount through a read-only mount of a writable
filesystem makes the mount writable, or the whole filesystem read-only.
"""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Mount
from ext4audit.finding import Remedy, Remount, Unmount


def unreachable(fs: Filesystem) -> Iterator[Filesystem]:
    """Yield the filesystem below another mount, and with read-only mounts while it is writable."""
    yield fs._replace(mounts=tuple(each._replace(overmounted=True) for each in fs.mounts))
    yield fs._replace(mounts=tuple(map(_read_only, fs.mounts)))


def _read_only(mount: Mount) -> Mount:
    flags = tuple(flag for flag in mount.mount_options if flag not in {"rw", "ro"})
    shown = tuple(each for each in mount.super_options if each not in {"rw", "ro"})
    return mount._replace(mount_options=("ro", *flags), super_options=("rw", *shown))


def reached(remedy: Remedy, fs: Filesystem) -> Iterator[str]:
    """Yield the commands that change a mount of an unreachable filesystem by its directory."""
    hidden = any(mount.overmounted for mount in fs.mounts)
    for step in remedy.steps:
        match step.change:
            case Remount(is_bind=True) | Unmount() if not hidden:
                continue
            case Remount(point) | Unmount(point) if point in fs.mount_points:
                yield step.command

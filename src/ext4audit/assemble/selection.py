"""Which filesystems of a host a word names, when the host itself cannot be asked any more."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.records import replace


def only_filesystems(host: Host, words: Sequence[str]) -> Host:
    """Return the host with the filesystems that any of the words names, and no others.

    What is not known of the host as a whole is then no gap: it was not asked.
    """
    named = {id(fs) for word in words for fs in named_filesystems(host, word)}
    chosen = tuple(fs for fs in host.filesystems if id(fs) in named)
    return replace(host, filesystems=chosen, gaps=())


def named_filesystems(host: Host, word: str) -> tuple[Filesystem, ...]:
    """Return the filesystems that a word names.

    A word is a device ("/dev/sda1", "sda1", "8:1"), a UUID (also "UUID=…"), a label
    ("LABEL=…"), or a path, which stands for the filesystem that it lies on: the last one
    mounted on its longest mount point. Links of the host are not known, and not followed.
    """
    direct = tuple(fs for fs in host.filesystems if word in _names(fs))
    if direct or not word.startswith("/"):
        return direct
    mount = _mount_of(value_or(host.mounts, ()), word)
    if mount is None:
        return ()
    return tuple(fs for fs in host.filesystems if fs.device_number == mount.device_number)


def _names(fs: Filesystem) -> set[str]:
    names = {fs.device, fs.name, str(fs.device_number), f"/dev/{fs.name}"}
    if fs.uuid is not None:
        names |= {fs.uuid, f"UUID={fs.uuid}"}
    if fs.label:
        names.add(f"LABEL={fs.label}")
    return names


def _mount_of(mounts: Sequence[Mount], path: str) -> Mount | None:
    """Return the mount with the longest mount point above a path, the last of several."""
    inside = f"{path.rstrip('/')}/"
    above = [m for m in mounts if inside.startswith(f"{m.mount_point.rstrip('/')}/")]
    return max(reversed(above), key=lambda mount: len(mount.mount_point), default=None)

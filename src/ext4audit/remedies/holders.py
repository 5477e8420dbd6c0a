r"""What holds a filesystem in use: found and named before a remedy unmounts it.

Seen on 6.18: below an overlay, a bind mount in another namespace or an open file of it, umount and
mount both exit with 0, and the superblock stays as it was, with its old options; over the backing
file of a loop device or a swap file umount fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import dirname

from ext4audit.evidence import for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount, mounts_by_place
from ext4audit.finding import Disruption, Remedy

MOST_NAMED = 3
"""More holders are counted and not named: a host of containers has hundreds of overlays."""
LAYERS = ("lowerdir", "lowerdir+", "datadir+", "upperdir", "workdir")
"""Options of an overlay that name directories; lowerdir names several, with colons."""


def with_holders(remedy: Remedy, fs: Filesystem, host: Host) -> Remedy:
    """Return a remedy that unmounts with the sentence on what must be stopped before.

    Nothing is said of advice, and of the root: everything holds it, and another system works on
    it.
    """
    unmounts = remedy.disruption is Disruption.UNMOUNT and remedy.steps
    if not unmounts or not fs.alive or "/" in fs.mount_points:
        return remedy
    return remedy._replace(summary=f"{remedy.summary}{first_stop(fs, host)}")


def first_stop(fs: Filesystem, host: Host) -> str:
    """Return the sentence that names what holds a filesystem; empty where nothing is known to."""
    names = tuple(holders(fs, host))
    if not names:
        return ""
    more = len(names) - MOST_NAMED
    shown = [*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])]
    return f" First stop what holds it: {', '.join(shown)}."


def holders(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the names of what is known to hold a mounted filesystem.

    Swap files, open files and mounts in other namespaces are not among the facts of a host that
    has it mounted here: the script of `ext4audit fix` looks for them when it runs.
    """
    mounts = for_wording(host.mounts, ())
    ours = {mount.mount_id for mount in fs.mounts}
    yield from (f"the mount on {place}" for place in fs.mount_points[1:])
    for mount in mounts:
        if mount.parent_id in ours and mount.mount_id not in ours:
            yield f"the mount on {mount.mount_point}"
        elif mount.fstype == "overlay" and any(
            _lies_on(path, fs, mounts) for path in _layers(mount)
        ):
            yield f"the overlay on {mount.mount_point}"
    yield from dict.fromkeys(_loops(fs, host))


def _layers(overlay: Mount) -> Iterator[str]:
    """Yield the directories that an overlay is made of."""
    for option in overlay.super_options:
        name, _, value = option.partition("=")
        if name in LAYERS:
            yield from value.split(":")


def _lies_on(path: str, fs: Filesystem, mounts: tuple[Mount, ...]) -> bool:
    """Whether a path is on a filesystem, by the mount table; a relative one cannot be known."""
    places = mounts_by_place(mounts)
    while path.startswith("/"):
        if path in places:
            return places[path][-1].device_number == fs.device_number
        if path == "/":
            return False
        path = dirname(path)
    return False


def _loops(fs: Filesystem, host: Host) -> Iterator[str]:
    """Yield the loop devices below other filesystems whose backing file is on this one."""
    for other in (*host.filesystems, *host.lower, *for_wording(host.idle, ())):
        stack = for_wording(other.stack, None)
        for device in stack.walk() if stack else ():
            loop = device.loop
            number = for_wording(loop.backing_device_number, None) if loop else None
            if loop and number == fs.device_number:
                yield f"the loop device {device.name} (image {loop.backing_file})"

"""Read how full a mounted filesystem is."""

from __future__ import annotations

from ext4audit.assemble.reading import ask
from ext4audit.assemble.superblock import own_mount_point
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.facts.usage import Usage
from ext4audit.parsers.stat_filesystem import parse_stat_filesystem
from ext4audit.sources.ask import Source, StatFilesystem

WHAT = "space in use"


def read_usage(source: Source, number: DeviceNumber, mounts: tuple[Mount, ...]) -> Evidence[Usage]:
    """Return the usage by a mount point that leads to this superblock, of the whole tree if any.

    At the top of a project with a quota statfs(2) tells the quota: a bind mount may be of one.
    """
    ordered = tuple(sorted(mounts, key=lambda mount: mount.root != "/"))
    mount_point = own_mount_point(source, number, ordered)
    if mount_point is None:
        hint = "run in the mount namespace that has it mounted"
        return Unknown(WHAT, Why.ABSENT, "no mount point leads to it", hint)
    found = ask(source, StatFilesystem(mount_point), parse_stat_filesystem, WHAT)
    if isinstance(found, Unknown):
        return found
    told, usage = found.value
    if told != number:
        return Unknown(WHAT, Why.FAILED, f"{mount_point} leads to the device {told}", "run again")
    return Known(usage, found.origin)

"""The mount table of another process, for a program that has a mount namespace of its own.

A hardened service (ProtectSystem=strict, PrivateTmp=) sees every mount read-only, and mounts that
the host does not have. The table of process 1 is the host's: any process may read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ext4audit.evidence import Why
from ext4audit.sources import Unanswered

OWN = "/proc/self/mountinfo"
_HINT = "run the program in the mount namespace of the host"


class Place(NamedTuple):
    """What two namespaces that were copied have in common of a mount (proc_pid_mountinfo(5))."""

    device_number: str
    root: str
    mount_point: str


def table_of(pid: int) -> str:
    """Return the path of the mount table of a process."""
    return f"/proc/{pid}/mountinfo"


def translated(resolved: str, read: Callable[[str], str], pid: int) -> str:
    """Return the lines of a resolved path with the mount id that process `pid` has for it.

    Mount ids differ between namespaces. Raises Unanswered for a path on a mount that only the
    namespace of this program has: there it is another file than on the host. Raises OSError.
    """
    first, *others = resolved.split("\n")
    own_id = first.removeprefix("mount_id=")
    places = {mount_id: place for place, mount_id in _mount_ids(read(OWN)).items()}
    theirs = _mount_ids(read(table_of(pid))).get(places[own_id]) if own_id in places else None
    if theirs is None:
        raise Unanswered(Why.UNSUPPORTED, f"on a mount that process {pid} does not have", _HINT)
    return "\n".join((f"mount_id={theirs}", *others))


def _mount_ids(table: str) -> dict[Place, str]:
    """Return the id of each mount; of mounts of one place, that of the last, which is on top."""
    rows = (line.split(" ") for line in table.split("\n"))
    return {Place(row[2], row[3], row[4]): row[0] for row in rows if len(row) > len(Place._fields)}

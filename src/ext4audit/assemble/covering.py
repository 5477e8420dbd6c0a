"""Which mounts are hidden by others: their mount points lead to another filesystem.

Several filesystems may be mounted on one directory, and a mount on a directory hides all that was
mounted below it. A command by mount point then acts on what is on top.
"""

from __future__ import annotations

from ext4audit.facts.mount import EXT_FSTYPES, Mount
from ext4audit.records import replace

DEEPEST = 1000
"""Mounts in mounts beyond any real table; a table that loops ends here."""


def mark_covered(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts with `covered` told for those that the ext4 driver serves."""
    by_id = {mount.mount_id: mount for mount in mounts}
    children: dict[int, list[Mount]] = {}
    for mount in mounts:
        children.setdefault(mount.parent_id, []).append(mount)

    def is_hidden(mount: Mount) -> bool:
        """Walk up: hidden is what something other than the way down to it lies over."""
        below: Mount | None = None
        for _ in range(DEEPEST):
            on_top = (
                m for m in children.get(mount.mount_id, ()) if m.mount_point == mount.mount_point
            )
            beside = (m for m in children.get(mount.parent_id, ()) if _is_above(m, mount))
            if any(other is not below and other is not mount for other in (*on_top, *beside)):
                return True
            parent = by_id.get(mount.parent_id)
            if parent is None or parent is mount:
                return False
            mount, below = parent, mount
        return True

    return tuple(
        replace(mount, covered=mount.fstype in EXT_FSTYPES and is_hidden(mount)) for mount in mounts
    )


def _is_above(other: Mount, mount: Mount) -> bool:
    return mount.mount_point.startswith(other.mount_point.rstrip("/") + "/")

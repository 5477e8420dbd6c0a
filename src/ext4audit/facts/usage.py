"""How full a filesystem is, as statfs(2) says it without root."""

from __future__ import annotations

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Space and inodes of a mounted filesystem (statvfs(3)), counted in blocks and inodes.

    `size_blocks` leaves out ext4's own metadata (unless mounted with minixdf). `available_blocks`
    are what an unprivileged user may still write: the free ones without the reserved ones.
    """

    block_bytes: int
    size_blocks: int
    free_blocks: int
    available_blocks: int
    inodes: int
    free_inodes: int

"""How far a filesystem can grow: the limits that its geometry sets once and for all."""

from __future__ import annotations

from typing import NamedTuple

from ext4audit.facts.superblock import Superblock

MOST_INODES = (1 << 32) - 1
WIDE_DESCRIPTOR_BYTES, DESCRIPTOR_BYTES = 64, 32


class Ceiling(NamedTuple):
    """The largest size in bytes, and which of the two limits it is: inodes or descriptors."""

    size_bytes: int
    is_of_inodes: bool


def ceiling_of(superblock: Superblock) -> Ceiling | None:
    """Return the size beyond which no resize goes; None where the geometry is not known.

    The kernel refuses a number of groups whose inodes do not fit 32 bits (fs/ext4/resize.c:
    "resize would cause inodes_count overflow"), and resize2fs 1.47.0 a group descriptor table
    that does not fit into one block group ("New size results in too many block group
    descriptors", with meta_bg as well).
    """
    each, group, inodes = (
        superblock.block_bytes,
        superblock.blocks_per_group,
        superblock.inodes_per_group,
    )
    if not (each and group and inodes) or superblock.first_block is None:
        return None
    usual = WIDE_DESCRIPTOR_BYTES if "64bit" in superblock.features else DESCRIPTOR_BYTES
    per_block = each // (superblock.descriptor_bytes or usual)
    by_inodes = MOST_INODES // inodes
    by_descriptors = (group - superblock.first_block) * per_block
    groups = min(by_inodes, by_descriptors)
    return Ceiling(groups * group * each, is_of_inodes=by_inodes <= by_descriptors)

"""Where the primary group descriptors lie.

Documentation/filesystems/ext4/group_descr.rst and blockgroup.rst ("Meta Block Groups"), and
descriptor_loc() of fs/ext4/super.c (Linux 6.1) for 1 KiB blocks whose first data block is 0.
"""

from __future__ import annotations

from itertools import pairwise

from ext4audit.facts.superblock import Superblock

SUPERBLOCK_OFFSET_BYTES = 1024
"""Where the superblock starts, whatever the block size."""
SUPERBLOCK_BYTES = 1024
_SMALL_DESCRIPTOR_BYTES = 32
_LARGE_DESCRIPTOR_BYTES = 64


def descriptor_bytes(superblock: Superblock) -> int:
    """Return the size of one group descriptor: where it is not known, the one that mke2fs makes."""
    if superblock.descriptor_bytes is not None:
        return superblock.descriptor_bytes
    return _LARGE_DESCRIPTOR_BYTES if "64bit" in superblock.features else _SMALL_DESCRIPTOR_BYTES


def descriptors_per_block(superblock: Superblock) -> int:
    """Return how many groups one descriptor block describes (a meta block group); ValueError."""
    per_block, rest = divmod(_block_bytes(superblock), descriptor_bytes(superblock))
    if rest:
        raise ValueError(f"descriptors of {superblock.descriptor_bytes} bytes fill no block")
    return per_block


def descriptor_blocks(superblock: Superblock) -> tuple[int, ...]:
    """Return the block number of each primary descriptor block, in the order of the groups.

    They follow the superblock; with meta_bg, from block `first_meta_bg` on, each lies in the
    first of the groups that it describes. ValueError where the superblock does not say enough.
    """
    groups = _groups(superblock)
    count = -(-groups // descriptors_per_block(superblock))
    together = count
    if "meta_bg" in superblock.features:
        together = min(superblock.first_meta_bg or 0, count)
    after_superblock = SUPERBLOCK_OFFSET_BYTES // _block_bytes(superblock) + 1
    classic = range(after_superblock, after_superblock + together)
    return (*classic, *(_meta_block(superblock, index) for index in range(together, count)))


def descriptor_extents(superblock: Superblock) -> tuple[tuple[int, int], ...]:
    """Return offset and length in bytes of what holds the descriptors, adjacent blocks as one.

    The last one ends with the last descriptor and not with its block.
    """
    block_bytes, blocks = _block_bytes(superblock), descriptor_blocks(superblock)
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(blocks), 1) if b != a + 1)]
    ends = [*starts[1:], len(blocks)]
    extents = [
        (blocks[start] * block_bytes, (end - start) * block_bytes)
        for start, end in zip(starts, ends, strict=True)
    ]
    offset, length = extents[-1]
    unused = len(blocks) * descriptors_per_block(superblock) - _groups(superblock)
    extents[-1] = (offset, length - unused * descriptor_bytes(superblock))
    return tuple(extents)


def has_superblock(superblock: Superblock, group: int) -> bool:
    """Say whether a group begins with a copy of the superblock."""
    if group == 0:
        return True
    if "sparse_super2" in superblock.features:
        return group in (superblock.backup_bgs or ())
    if group == 1 or "sparse_super" not in superblock.features:
        return True
    return any(_is_power(group, base) for base in (3, 5, 7))


def _meta_block(superblock: Superblock, index: int) -> int:
    """Return the block of descriptor block `index` where meta_bg spreads them."""
    group = index * descriptors_per_block(superblock)
    first_block, blocks_per_group = superblock.first_block or 0, superblock.blocks_per_group or 0
    block = first_block + group * blocks_per_group + has_superblock(superblock, group)
    # The superblock of 1 KiB blocks is in block 1, also where bigalloc makes 0 the first one.
    is_behind = group == 0 and first_block == 0 and superblock.block_bytes == SUPERBLOCK_BYTES
    return block + is_behind


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


def _block_bytes(superblock: Superblock) -> int:
    if not superblock.block_bytes:
        raise ValueError("the superblock's block size is not known")
    return superblock.block_bytes


def _groups(superblock: Superblock) -> int:
    if not superblock.groups:
        raise ValueError("the superblock's number of groups is not known")
    return superblock.groups

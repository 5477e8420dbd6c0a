"""The superblock that mke2fs writes for a device size and options, computed without mke2fs.

The rules are those of mke2fs(8) and mke2fs.conf(5) with the settings that upstream e2fsprogs
1.47 ships, and the limits of Documentation/filesystems/ext4/; checked against `mke2fs`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from functools import partial

from ext4audit.facts import KIB, MIB, TIB
from ext4audit.facts.layout import MOST_STRIDE_BLOCKS
from ext4audit.facts.superblock import MOST_CLUSTERS_PER_GROUP, Sizes, Superblock
from ext4audit.layout import (
    descriptor_table_blocks,
    descriptors_per_block,
    has_superblock,
    journal_blocks_of,
    superblock_copies,
)
from ext4audit.layout.groups import inode_table_blocks

BITS_PER_BYTE = 8
GROUP_STEP = 8
"""mke2fs: "blocks per group must be multiple of 8"."""
MOST_OF_32_BITS = (1 << 32) - 1
LAST_GROUP = -1
LEAST_CLUSTERS_PER_GROUP = 256
LEAST_INODES_PER_GROUP = INODE_STEP = 8
INODE_NUMBERS_OF_A_GROUP = 1 << 16
BLOCK_NUMBER_BYTES = 4
SMALL_DESCRIPTOR_BYTES, DESCRIPTOR_BYTES = 32, 64
"""Of one group: the latter with 64bit (group_descr.rst)."""
GROWTH = 1024
"""mke2fs(8), -E resize: descriptors are reserved for 1,024 times the size."""
TAIL_BLOCKS = 50
"""A last group with fewer blocks than its metadata and 50 is left out of the filesystem."""
PAGE_BYTES = 4096
FIRST_FREE_INODE = 11
DEFAULT_CLUSTER_BLOCKS = 16
DEFAULT_FEATURES = frozenset(
    "has_journal ext_attr resize_inode dir_index filetype extent 64bit flex_bg sparse_super "
    "large_file huge_file dir_nlink extra_isize metadata_csum".split()
)
"""`mke2fs -t ext4` of 1.44 to 1.46 (mke2fs.conf); 1.47 may add orphan_file and
metadata_csum_seed, which move no block group's metadata."""

USAGE_TYPES = (
    (3 * MIB, 1024, 8192),
    (512 * MIB, 1024, 4096),
    (4 * TIB, 4096, 16384),
    (16 * TIB, 4096, 32768),
)
"""floppy, small, default, big: upper bound of the size, block bytes, bytes per inode
(mke2fs.conf)."""
HUGE = (4096, 65536)

LARGEST_OLD_JOURNAL_BLOCKS = 32768
"""What e2fsprogs before 1.43.2 chose for all filesystems of 2^20 blocks and more."""
LEAST_BLOCKS_OF_LARGEST_OLD_JOURNAL = 1 << 20
FAST_COMMIT_SHARE = 64


@dataclass(frozen=True, slots=True)
class MkfsOptions:
    """Options of `mke2fs -t ext4` that decide where metadata lies; None is mke2fs's default.

    `group_option` is -g, which counts clusters with bigalloc. `flex_bg_groups` is -G,
    `bytes_per_inode` -i, `inode_count` -N, `inode_bytes` -I, `cluster_bytes` -C,
    `backup_superblocks` is -E num_backup_sb, and `descriptor_bytes` -E desc_size, which counts
    with 64bit only. `reserved_gdt_blocks` is what -E resize makes (`reserved_by_resize`).
    `features` are all that will be set.
    """

    features: frozenset[str] = DEFAULT_FEATURES
    block_bytes: int | None = None
    group_option: int | None = None
    flex_bg_groups: int = 16
    bytes_per_inode: int | None = None
    inode_count: int | None = None
    inode_bytes: int = 256
    cluster_bytes: int | None = None
    backup_superblocks: int = 2
    reserved_gdt_blocks: int | None = None
    descriptor_bytes: int = DESCRIPTOR_BYTES
    stride_blocks: int = 0
    stripe_width_blocks: int = 0


def parameters(size_bytes: int, options: MkfsOptions | None = None) -> Superblock:
    """Return the superblock that mke2fs writes on a device of this size.

    Raises ValueError as `mke2fs_sizes` does.
    """
    chosen = options or MkfsOptions()
    return _written(mke2fs_sizes(size_bytes, chosen), chosen.stripe_width_blocks)


def mke2fs_sizes(size_bytes: int, options: MkfsOptions | None = None) -> Sizes:
    """Return the sizes that mke2fs chooses on a device of this size.

    Raises ValueError where mke2fs refuses: a group size out of range, too many inodes for the
    groups, no room for the filesystem's own metadata.
    """
    chosen = options or MkfsOptions()
    made = _settled(_requested(size_bytes, chosen), chosen)[0]
    if made.inode_count < FIRST_FREE_INODE:
        raise ValueError(f"{made.inode_count} inodes are fewer than those that are reserved")
    return made


def _settled(requested: Sizes, chosen: MkfsOptions) -> tuple[Sizes, int]:
    """Return the sizes, and the blocks that the last group that was left out had left.

    mke2fs may have made such a group part of the filesystem again, by smaller groups.
    """
    draft, left_blocks = requested, requested.size_blocks
    while True:
        inodes = _inodes_per_group(draft)
        if inodes > BITS_PER_BYTE * draft.block_bytes:
            draft = _with_smaller_groups(requested, draft)
            continue
        made = _with_descriptors(_with_inodes(draft, inodes), chosen.reserved_gdt_blocks)
        _refuse_full_groups(made)
        excess_blocks = _tail_blocks(made)
        if not excess_blocks:
            return made, left_blocks
        # What a larger filesystem has lost of its features does not come back (1.47.0).
        left_blocks = draft.size_blocks - excess_blocks
        draft = draft._replace(size_blocks=left_blocks, features=made.features)


def _requested(size_bytes: int, options: MkfsOptions) -> Sizes:
    """Return what follows from size and options alone; `inode_count` is the requested number.

    The inodes of a group, and what is reserved for growth, are not yet chosen.
    """
    block_bytes, (_, usual_ratio) = block_bytes_of(size_bytes, options), _usage(size_bytes)
    cluster_blocks = cluster_blocks_of(options, block_bytes)
    device_blocks = _device_blocks(size_bytes, block_bytes)
    size_blocks = device_blocks // cluster_blocks * cluster_blocks
    ratio = options.bytes_per_inode or max(usual_ratio, block_bytes * cluster_blocks)
    inodes = options.inode_count or min(device_blocks * block_bytes // ratio, MOST_OF_32_BITS)
    inodes = inodes or size_blocks // max(PAGE_BYTES // block_bytes, 1)
    if (options.inode_count or 0) > MOST_OF_32_BITS:
        raise ValueError(f"{options.inode_count} inodes are too many for 32 bits")
    if device_blocks > MOST_OF_32_BITS and "64bit" not in options.features:
        raise ValueError(f"{device_blocks} blocks are too many without 64bit")
    if device_blocks and inodes * options.inode_bytes >= device_blocks * block_bytes:
        raise ValueError(f"too many inodes for {device_blocks} blocks")
    return Sizes(
        features=options.features - _without_reserve(size_blocks, options),
        size_blocks=size_blocks,
        block_bytes=block_bytes,
        first_block=int(block_bytes * cluster_blocks == KIB),
        blocks_per_group=_group_clusters(options, block_bytes) * cluster_blocks,
        inodes_per_group=0,
        inode_bytes=options.inode_bytes,
        inode_count=max(inodes, FIRST_FREE_INODE + 1),
        flex_bg_groups=options.flex_bg_groups if "flex_bg" in options.features else 1,
        cluster_blocks=cluster_blocks,
        descriptor_bytes=options.descriptor_bytes
        if "64bit" in options.features
        else SMALL_DESCRIPTOR_BYTES,
        reserved_gdt_blocks=0,
        first_meta_bg=0,
        backup_bgs=(1, LAST_GROUP)[: options.backup_superblocks]
        if "sparse_super2" in options.features
        else (),
        stride_blocks=options.stride_blocks & MOST_STRIDE_BLOCKS,
    )


def _without_reserve(size_blocks: int, options: MkfsOptions) -> frozenset[str]:
    """Return resize_inode if the filesystem has none: it is cleared for blocks beyond 32 bits.

    -E resize sets it again (1.47.0).
    """
    is_cleared = size_blocks > MOST_OF_32_BITS and options.reserved_gdt_blocks is None
    return frozenset({"resize_inode"} if is_cleared or "meta_bg" in options.features else ())


def cleared_features(size_bytes: int, options: MkfsOptions) -> frozenset[str]:
    """Return the features that mke2fs clears at a size, before it refuses combinations of them."""
    features = options.features - {"meta_bg"}
    return features - _requested(size_bytes, replace(options, features=features)).features


def _device_blocks(size_bytes: int, block_bytes: int) -> int:
    """Return the blocks of whole pages."""
    page_blocks = max(PAGE_BYTES // block_bytes, 1)
    return size_bytes // block_bytes // page_blocks * page_blocks


def block_bytes_of(size_bytes: int, options: MkfsOptions) -> int:
    """Return the block size of -b, else the one that mke2fs.conf gives to a size."""
    return options.block_bytes or _usage(size_bytes)[0]


def _usage(size_bytes: int) -> tuple[int, int]:
    """Return block bytes and bytes per inode that mke2fs.conf gives to a size."""
    for below, block_bytes, ratio in USAGE_TYPES:
        if size_bytes < below:
            return block_bytes, ratio
    return HUGE


def cluster_blocks_of(options: MkfsOptions, block_bytes: int) -> int:
    """Return the blocks of a cluster, 1 without bigalloc."""
    if "bigalloc" not in options.features:
        return 1
    return (options.cluster_bytes or block_bytes * DEFAULT_CLUSTER_BLOCKS) // block_bytes


def _group_clusters(options: MkfsOptions, block_bytes: int) -> int:
    largest = BITS_PER_BYTE * block_bytes
    option = options.group_option or largest
    if option % GROUP_STEP or not LEAST_CLUSTERS_PER_GROUP <= option <= largest:
        raise ValueError(f"{option} blocks per group are out of range or not a multiple of 8")
    return min(option, MOST_CLUSTERS_PER_GROUP)


def _inodes_per_group(draft: Sizes) -> int:
    """Return how many inodes each group must have for the requested number."""
    if not draft.groups:
        raise ValueError(f"{draft.size_blocks} blocks are too few for a filesystem")
    return max(-(-draft.inode_count // draft.groups), LEAST_INODES_PER_GROUP)


def _with_smaller_groups(requested: Sizes, draft: Sizes) -> Sizes:
    """Return the filesystem with more groups, because one cannot hold that many inodes.

    mke2fs does so silently, so the group size is not always that of -g. It tries one size after the
    other, 8 blocks less each time; the first of them that makes enough groups is computed.
    """
    blocks = draft.blocks_per_group - GROUP_STEP
    groups = -(-requested.inode_count // (BITS_PER_BYTE * requested.block_bytes))
    if groups > 1:
        most = (requested.size_blocks - requested.first_block - 1) // (groups - 1)
        blocks = min(blocks, most // GROUP_STEP * GROUP_STEP)
    if blocks < LEAST_CLUSTERS_PER_GROUP - GROUP_STEP or "bigalloc" in draft.features:
        raise ValueError("too many inodes for the groups")
    return requested._replace(blocks_per_group=blocks)


def _with_inodes(draft: Sizes, wanted: int) -> Sizes:
    """Fill the blocks of the inode tables; the number of inodes is a multiple of 8."""
    per_block = draft.block_bytes // draft.inode_bytes
    most = MOST_OF_32_BITS // draft.groups // per_block * per_block
    count = min(wanted, INODE_NUMBERS_OF_A_GROUP - per_block, most)
    filled = -(-count // per_block) * per_block // INODE_STEP * INODE_STEP
    return draft._replace(inodes_per_group=filled, inode_count=filled * draft.groups)


def _with_descriptors(draft: Sizes, reserved_gdt_blocks: int | None) -> Sizes:
    """Choose what follows every copy of the superblock: descriptors, and reserved blocks."""
    last = draft.groups - 1
    named = (last if group == LAST_GROUP else group for group in draft.backup_bgs)
    backups = tuple(sorted({group for group in named if 0 < group <= last}))
    made = draft._replace(backup_bgs=backups)
    reserved = reserved_gdt_blocks or _reserved_for_growth(made)
    together = reserved + descriptor_table_blocks(made)
    if "meta_bg" not in made.features and together > made.blocks_per_group * 3 // 4:
        features = made.features - {"resize_inode"} | {"meta_bg"}
        return made._replace(features=features, reserved_gdt_blocks=reserved_gdt_blocks or 0)
    return made._replace(reserved_gdt_blocks=reserved)


def _reserved_for_growth(made: Sizes) -> int:
    """Return the descriptor blocks reserved for a later resize (mke2fs(8), -E resize)."""
    if "resize_inode" not in made.features:
        return 0
    return _more_descriptors(made, min(made.size_blocks * GROWTH, MOST_OF_32_BITS))


def _more_descriptors(sizes: Sizes, most_blocks: int) -> int:
    """Return the descriptor blocks for growth, as many as the resize inode can hold."""
    grown = sizes._replace(size_blocks=most_blocks)
    more = -(-grown.groups // descriptors_per_block(sizes)) - descriptor_table_blocks(sizes)
    return max(0, min(more, sizes.block_bytes // BLOCK_NUMBER_BYTES))


def reserved_by_resize(size_bytes: int, options: MkfsOptions, most_blocks: int) -> int | None:
    """Return the descriptor blocks that -E resize reserves; None where it leaves the default.

    It counts blocks before a last group is left out, and -g as blocks with bigalloc, too (1.47.0).
    """
    requested = _requested(size_bytes, options)
    if most_blocks <= requested.size_blocks:
        raise ValueError("-E resize: it must be more than the size of the filesystem")
    group_blocks = options.group_option or BITS_PER_BYTE * requested.block_bytes
    counted = requested._replace(first_block=0, blocks_per_group=group_blocks)
    return _more_descriptors(counted, most_blocks) or None


def sizes_before_growth(sizes: Sizes) -> range:
    """Return the numbers of blocks that mke2fs made it with; empty where growth is not shown.

    A resize takes each block of descriptors from the reserve, so both together remain what the
    first size made of them, to one such block. When none is left the kernel turns to meta_bg and
    records them in first_meta_bg. Without resize_inode, and within meta_bg, growth leaves no
    trace. `-E resize` looks like growth from a thousandth of what it names.
    """
    together = sizes.first_meta_bg
    if "meta_bg" not in sizes.features:
        together = descriptor_table_blocks(sizes) + sizes.reserved_gdt_blocks
    made = sizes._replace(features=sizes.features - {"meta_bg"} | {"resize_inode"})
    has_trace = "resize_inode" in sizes.features or sizes.first_meta_bg
    if not has_trace or together >= _growing_blocks(made, sizes.size_blocks):
        return range(0)
    smaller = range(sizes.first_block + 1, sizes.size_blocks)
    key = partial(_growing_blocks, made)
    return smaller[
        bisect_left(smaller, together, key=key) : bisect_right(smaller, together, key=key)
    ]


def _growing_blocks(made: Sizes, size_blocks: int) -> int:
    """Return the blocks of descriptors of a size, those in use and those that are reserved."""
    sized = made._replace(size_blocks=size_blocks)
    return descriptor_table_blocks(sized) + _reserved_for_growth(sized)


def _refuse_full_groups(made: Sizes) -> None:
    """Raise ValueError where a group that begins with a backup has no room for its inodes.

    mke2fs judges all groups as if they had one ("Cannot create filesystem with requested number of
    inodes": of 1,500 random calls of 1.47.0, each that exceeds this and none that does not).
    """
    before = 1 if "meta_bg" in made.features else descriptor_table_blocks(made)
    metadata = 1 + before + made.reserved_gdt_blocks + 2 + inode_table_blocks(made)
    if metadata > made.blocks_per_group:
        raise ValueError("too many inodes for the groups")


def blocks_for_root(size_bytes: int, options: MkfsOptions, percent: float) -> int:
    """Return the blocks that -m reserves.

    It counts clusters that are not whole, too; a last group that is left out takes its share.
    """
    requested = _requested(size_bytes, options)
    reserved = int(percent * _device_blocks(size_bytes, requested.block_bytes) / 100)
    return reserved * _settled(requested, options)[1] // requested.size_blocks


def metadata_blocks(made: Sizes) -> int:
    """Return the blocks that the groups themselves take, without journal and directories."""
    copies = superblock_copies(made)
    each_copy = 1 + made.reserved_gdt_blocks
    if "meta_bg" not in made.features:
        each_copy += descriptor_table_blocks(made)
    return copies * each_copy + made.groups * (2 + inode_table_blocks(made))


def largest_journal_blocks(made: Sizes) -> int:
    """Return a journal that mke2fs surely accepts: nearly half of what the groups leave free.

    It says "Total journal size too big for filesystem" to more than half (1.47.0). Directories,
    the orphan file and the descriptors of meta_bg are made before, and take a few blocks.
    """
    free = made.size_blocks - metadata_blocks(made)
    return max(free, 0) * 31 // 64


def fast_commit_blocks_of(size_blocks: int, features: frozenset[str]) -> int:
    """Return the blocks that mke2fs adds to a journal of any size for fast commits (1.47.0)."""
    is_added = "fast_commit" in features
    return journal_blocks_of(size_blocks) // FAST_COMMIT_SHARE if is_added else 0


def _tail_blocks(made: Sizes) -> int:
    """Return the blocks of a last group that is too small to be one, else 0."""
    tail = (made.size_blocks - made.first_block) % made.blocks_per_group
    needed = 2 + inode_table_blocks(made)
    if has_superblock(made, made.groups - 1):
        needed += 1 + descriptor_table_blocks(made) + made.reserved_gdt_blocks
    left = tail if tail < needed + TAIL_BLOCKS else 0
    if made.groups == 1 and (left or needed > made.size_blocks):
        raise ValueError(f"{made.size_blocks} blocks are too few for a filesystem")
    return left


def _written(made: Sizes, stripe_width_blocks: int) -> Superblock:
    """Return the superblock with these sizes, and with a journal where there is room for one."""
    journal_blocks = journal_blocks_of(made.size_blocks)
    if not journal_blocks:
        made = made._replace(features=made.features - {"has_journal"})
    journal_blocks += fast_commit_blocks_of(made.size_blocks, made.features)
    return Superblock(
        default_mount_options=("user_xattr", "acl"),
        mount_option_string="",
        errors="continue",
        stripe_width_blocks=stripe_width_blocks,
        journal_bytes=journal_blocks * made.block_bytes if "has_journal" in made.features else None,
        state="clean",
        **made._asdict(),
    )

"""Layout arithmetic; this module: whether a stack stripes, and what follows from the superblock.

md, device mapper and most RAID controllers report the chunk as `minimum_io_size` and a whole
stripe of data as `optimal_io_size` (Documentation/ABI/stable/sysfs-block); partitions, LVM and
LUKS pass both on.

The superblock determines where its copies and the descriptors are: a table after each copy, or
with meta_bg one descriptor block in some groups. It also determines how far the filesystem can
grow, because its geometry never changes. Sources: Documentation/filesystems/ext4, blockgroup.rst
("Meta Block Groups"), group_descr.rst and super.rst (Linux 6.1); descriptor_loc() of
fs/ext4/super.c (6.1) for 1 KiB blocks whose first data block is 0.

It also determines the settings in /sys/fs/ext4 that a mount makes; an unmount loses others.
The defaults are those of fs/ext4/super.c and fs/ext4/mballoc.c, measured on 6.18;
`inode_readahead_blks` is also a mount option, and the mount table shows it.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, for_wording, is_surely
from ext4audit.facts import whole_number
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment, MdArray
from ext4audit.facts.host import Filesystem, option_of
from ext4audit.facts.layout import PARITY_MEMBERS, StripeGeometry
from ext4audit.facts.superblock import MOST_CLUSTERS_PER_GROUP, Sizes, Superblock

LVM_STRIPES = "dm-striped"
"""The level of LVM stripes in a geometry (targets "striped" and "raid raid0"). It differs from
"raid0" because mdadm can grow an md RAID0 but not LVM stripes."""
STRIPING_LEVELS = frozenset({"raid0", "raid10", "raid4", "raid5", "raid6", LVM_STRIPES})
"""The md levels that stripe, and LVM stripes."""
MOST_COLUMNS = 256
"""The most columns of any controller; some USB bridges report an optimal size of 65535 sectors."""


def may_stripe(stack: BlockDevice) -> bool:
    """Whether the bytes of a device may be spread over several members in chunks.

    It is false if nothing below can stripe, even if other facts are unknown: a thin pool on one
    disk, a mirror, a file behind a loop device. A device-mapper device over one device cannot
    stripe even if its table is unreadable: otherwise every laptop with LVM would be undetermined
    for an ordinary user.
    """
    return any(
        isinstance(device.below, Unknown) or _splits(device)
        for device in stack.descend(is_leaf_device)
        if not is_leaf_device(device)
    )


def hidden_levels(stack: BlockDevice) -> tuple[Unknown, ...]:
    """Return the unknowns that hide whether, or how, the devices of a stack stripe."""
    found: list[Unknown] = []
    for device in stack.descend(is_leaf_device):
        if not is_leaf_device(device):
            found += (each for each in (device.md, device.below) if isinstance(each, Unknown))
            if device.dm and isinstance(device.dm.table, Unknown) and len(device.known_below) > 1:
                found.append(device.dm.table)
    return tuple(found)


def is_leaf_device(device: BlockDevice) -> bool:
    """Whether a device is always treated as a leaf: a loop device or a multipath device."""
    if device.loop is not None:
        return True
    # Every user can read this prefix of libmultipath; only root can read the table.
    return device.dm is not None and device.dm.uuid.startswith("mpath-")


def guess_geometry(stack: BlockDevice) -> StripeGeometry | None:
    """Guess the stripe from the I/O sizes of a device; return None if they do not suggest one.

    The members are named "column 0" and so on. The guess is only likely: a controller's RAID5
    looks like a RAID0 of its data disks, and its RAID10 like a RAID0 of half of its disks. If the
    stack has exactly one md array, its level and number of members are known.
    """
    limits = stack.queue
    chunk_bytes = for_wording(limits.minimum_io_bytes, 0)
    # A single disk reports its physical block size here.
    if chunk_bytes <= max(for_wording(limits.physical_block_bytes, 0), SECTOR_BYTES):
        return None
    columns, rest = divmod(for_wording(limits.optimal_io_bytes, 0), chunk_bytes)
    if rest or not 1 < columns <= MOST_COLUMNS:
        return None
    return _geometry(stack, chunk_bytes, columns)


def _splits(device: BlockDevice) -> bool:
    """Whether this device itself stripes, or may stripe because its table cannot be read."""
    if device.md is not None:
        if isinstance(device.md, Unknown):
            return True
        array = device.md.value
        return array.level in STRIPING_LEVELS and array.raid_disks > 1
    if device.dm is None:
        return False
    if isinstance(device.dm.table, Unknown):
        return len(device.known_below) > 1
    return any(_is_striped(segment) for segment in device.dm.table.value)


def _is_striped(segment: DmSegment) -> bool:
    if segment.target == "striped":
        return segment.arguments[:1] != ("1",)
    return segment.target == "raid" and segment.arguments[:1] != ("raid1",)


def _geometry(stack: BlockDevice, chunk_bytes: int, columns: int) -> StripeGeometry:
    device, level, members, layout = stack, "raid0", columns, None
    found = _array(stack)
    if found is not None:
        device, array = found
        level, members = _level_and_members(array, columns)
        layout = None if level == "raid0" else array.layout
    names = tuple(f"column {number}" for number in range(members))
    return StripeGeometry(device.name, level, chunk_bytes, _start_bytes(stack), names, layout)


def _array(stack: BlockDevice) -> tuple[BlockDevice, MdArray] | None:
    """Return the only md array with copies or parity in a stack, None if there is not just one."""
    found = [
        (device, device.md.value)
        for device in stack.walk()
        if isinstance(device.md, Known) and device.md.value.level in {"raid10", *PARITY_MEMBERS}
    ]
    return found[0] if len(found) == 1 else None


def _level_and_members(array: MdArray, columns: int) -> tuple[str, int]:
    """Return the level and the number of members of an array with this many data columns.

    A RAID10 reports half of its members, or all of them if its copies do not pair up. During a
    reshape, md reports a RAID0 as a RAID4 (raid5.c, raid5_takeover).
    """
    if array.level == "raid10":
        known = array.raid_disks in {columns, 2 * columns}
        return ("raid10", array.raid_disks) if known else ("raid0", columns)
    if array.level == "raid4" and array.reshape_position is not None:
        return "raid0", columns
    return array.level, columns + PARITY_MEMBERS[array.level]


def _start_bytes(stack: BlockDevice) -> int:
    """Return the offset of a device in the stripe, the sum of the starts of its partitions."""
    start_sectors = 0
    device = stack
    while device.start_sectors is not None and len(device.known_below) == 1:
        start_sectors += device.start_sectors
        device = device.known_below[0]
    return start_sectors * SECTOR_BYTES


SUPERBLOCK_OFFSET_BYTES = 1024
"""Where the superblock starts for every block size; the bytes before it are for a boot loader."""
SUPERBLOCK_BYTES = 1024
MOST_GROUPS_POWER = 41
"""3 to this power exceeds 64 bits."""
USUAL_BLOCK_BYTES = (4096, 1024, 2048, 65536)
_USUAL_BACKUP_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
"""The first backup groups with sparse_super: 1 and the powers of 3, 5 and 7."""


def descriptors_per_block(sizes: Sizes) -> int:
    """Return the groups of a meta block group, one descriptor block; ValueError if not whole."""
    per_block, rest = divmod(sizes.block_bytes, sizes.descriptor_bytes)
    if rest:
        raise ValueError(f"descriptors of {sizes.descriptor_bytes} bytes fill no block")
    return per_block


def descriptor_table_blocks(sizes: Sizes) -> int:
    """Return the number of blocks of the group descriptor table."""
    return -(-sizes.groups * sizes.descriptor_bytes // sizes.block_bytes)


def descriptor_blocks(sizes: Sizes) -> tuple[int, ...]:
    """Return the block number of each primary descriptor block, in the order of the groups.

    They follow the superblock; with meta_bg, from block `first_meta_bg` on, each is in the first
    of the groups that it describes. Raises the ValueError of `descriptors_per_block`.
    """
    count = -(-sizes.groups // descriptors_per_block(sizes))
    together = count
    if "meta_bg" in sizes.features:
        together = min(sizes.first_meta_bg, count)
    after_superblock = SUPERBLOCK_OFFSET_BYTES // sizes.block_bytes + 1
    classic = range(after_superblock, after_superblock + together)
    return (*classic, *(_meta_block(sizes, index) for index in range(together, count)))


def descriptor_extents(sizes: Sizes) -> tuple[tuple[int, int], ...]:
    """Return offset and length in bytes of the extents that hold the descriptors.

    Adjacent blocks are one extent. The last one ends after the last descriptor, not its block.
    """
    block_bytes, blocks = sizes.block_bytes, descriptor_blocks(sizes)
    starts = [0, *(n for n, (a, b) in enumerate(pairwise(blocks), 1) if b != a + 1)]
    ends = [*starts[1:], len(blocks)]
    extents = [
        (blocks[start] * block_bytes, (end - start) * block_bytes)
        for start, end in zip(starts, ends, strict=True)
    ]
    offset, length = extents[-1]
    unused = len(blocks) * descriptors_per_block(sizes) - sizes.groups
    extents[-1] = (offset, length - unused * sizes.descriptor_bytes)
    return tuple(extents)


def has_superblock(sizes: Sizes, group: int) -> bool:
    """Whether a group begins with a copy of the superblock."""
    if group == 0:
        return True
    if "sparse_super2" in sizes.features:
        return group in sizes.backup_bgs
    if group == 1 or "sparse_super" not in sizes.features:
        return True
    return any(_is_power(group, base) for base in (3, 5, 7))


def superblock_copies(sizes: Sizes) -> int:
    """Return how many groups begin with a copy of the superblock, including the primary."""
    if "sparse_super2" in sizes.features:
        return 1 + len(sizes.backup_bgs)
    groups = sizes.groups
    if "sparse_super" not in sizes.features:
        return groups
    powers = (base**power for base in (3, 5, 7) for power in range(1, MOST_GROUPS_POWER))
    return min(groups, 2) + sum(1 for group in powers if group < groups)


def usual_backups(block_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return the group and block of the first backups where mke2fs places them by default.

    A group then has as many blocks as a block has bits; block 0 of 1 KiB is the boot block.
    """
    first = int(block_bytes == SUPERBLOCK_OFFSET_BYTES)
    per_group = min(8 * block_bytes, MOST_CLUSTERS_PER_GROUP)
    return tuple((group, first + group * per_group) for group in _USUAL_BACKUP_GROUPS)


def _meta_block(sizes: Sizes, index: int) -> int:
    """Return the block number of descriptor block `index` in its meta block group."""
    group = index * descriptors_per_block(sizes)
    start = sizes.first_block + group * sizes.blocks_per_group
    return start + boot_block(sizes, group) + has_superblock(sizes, group)


def boot_block(sizes: Sizes, group: int) -> int:
    """Return 1 if block 0 is kept free: with bigalloc and 1 KiB blocks it is the first block."""
    is_first = group == 0 and sizes.first_block == 0
    return int(is_first and sizes.block_bytes == SUPERBLOCK_OFFSET_BYTES)


def holds_descriptors(sizes: Sizes, group: int) -> bool:
    """Whether a group has a descriptor block with meta_bg: the first, second and last do."""
    described = descriptors_per_block(sizes)
    return group % described in {0, 1, described - 1}


def reserved_blocks(sizes: Sizes, group: int) -> int:
    """Return the number of blocks before the bitmaps of a group: superblock and descriptors.

    Not for filesystems with descriptors in both forms (meta_bg set later, by a resize).
    """
    copy = has_superblock(sizes, group)
    if "meta_bg" in sizes.features:
        return copy + holds_descriptors(sizes, group) + boot_block(sizes, group)
    if not copy:
        return 0
    descriptors = descriptor_table_blocks(sizes) + sizes.reserved_gdt_blocks
    return boot_block(sizes, group) + 1 + descriptors


def _is_power(number: int, base: int) -> bool:
    while number % base == 0:
        number //= base
    return number == 1


MOST_INODES = (1 << 32) - 1


class Ceiling(NamedTuple):
    """The largest size in bytes, and whether inodes (or else descriptors) limit it."""

    size_bytes: int
    is_of_inodes: bool


def ceiling_of(sizes: Sizes) -> Ceiling:
    """Return the largest size that a resize can reach.

    The kernel refuses more groups than have inode numbers of 32 bits (fs/ext4/resize.c:
    "resize would cause inodes_count overflow"), and resize2fs before 1.47.2 refuses a group
    descriptor table that does not fit into one block group ("New size results in too many block
    group descriptors", also with meta_bg; measured with 1.47.0; release notes of 1.47.2).
    """
    group_blocks = sizes.blocks_per_group
    by_inodes = MOST_INODES // sizes.inodes_per_group
    each_block = sizes.block_bytes // sizes.descriptor_bytes
    by_descriptors = (group_blocks - sizes.first_block) * each_block
    groups = min(by_inodes, by_descriptors)
    size_bytes = groups * group_blocks * sizes.block_bytes
    return Ceiling(size_bytes, is_of_inodes=by_inodes <= by_descriptors)


JOURNAL_BLOCKS = (
    (2048, 0),
    (32768, 1024),
    (262144, 4096),
    (524288, 8192),
    (4194304, 16384),
    (8388608, 32768),
    (16777216, 65536),
    (33554432, 131072),
)
"""(Size below, journal size), both in blocks: e2fsprogs 1.43.2 and later, measured with 1.47.0."""
LARGEST_JOURNAL_BLOCKS = 262144


def journal_blocks_of(size_blocks: int) -> int:
    """Return the default journal size of mke2fs in blocks; 0 for a small filesystem."""
    fitting = (journal for below, journal in JOURNAL_BLOCKS if size_blocks < below)
    return next(fitting, LARGEST_JOURNAL_BLOCKS)


_INTERVALS = (500, 1250, 1500, 5000)
"""Five seconds in jiffies, for the usual values of CONFIG_HZ."""
CONSTANT_SETTINGS: Mapping[str, tuple[int, ...]] = {
    **{f"{kind}_ratelimit_interval_ms": _INTERVALS for kind in ("err", "warning", "msg")},
    **{f"{kind}_ratelimit_burst": (10,) for kind in ("err", "warning", "msg")},
    "extent_max_zeroout_kb": (32,),
    "inode_goal": (0,),
    "mb_best_avail_max_trim_order": (3,),
    "mb_max_inode_prealloc": (512,),
    "mb_max_to_scan": (200,),
    "mb_min_to_scan": (10,),
    "mb_order2_req": (2,),
    "mb_stats": (0,),
    "mb_stream_req": (16,),
    "sb_update_kb": (16384,),
    "sb_update_sec": (3600,),
}
_LINEAR_GROUPS = 4
_GROUP_PREALLOC, _LEAST_PREALLOC = 512, 32
_PREFETCHES, _WITHOUT_FLEX_BG, _LIMIT_FACTOR = 8, 32, 4
_RESERVED_FRACTION, _MOST_RESERVED = 50, 4096


def changed_settings(fs: Filesystem) -> tuple[tuple[str, int], ...]:
    """Return the settings, with their values, that the next mount would not restore.

    A setting whose default cannot be computed counts as changed: setting it again is harmless.
    """
    present = for_wording(fs.settings, ())
    if not present:
        return ()
    defaults = {**CONSTANT_SETTINGS, **_computed(fs)}
    return tuple((name, value) for name, value in present if value not in defaults.get(name, ()))


def _computed(fs: Filesystem) -> dict[str, tuple[int, ...]]:
    """Return the defaults that depend on the filesystem, as far as they can be computed."""
    stack = for_wording(fs.stack, None)
    rotational = stack is not None and is_surely(stack.queue.rotational)
    found = {"mb_max_linear_groups": (_LINEAR_GROUPS, *(() if rotational else (0,)))}
    superblock = for_wording(fs.superblock, None)
    sizes = superblock.sizes if superblock else None
    if superblock is None or sizes is None:
        return found
    flex_bg = "flex_bg" in superblock.features
    prefetch = sizes.flex_bg_groups * _PREFETCHES if flex_bg else _WITHOUT_FLEX_BG
    prefetch = min(prefetch, sizes.groups)
    numbers = {
        "mb_group_prealloc": _group_prealloc(fs, sizes.cluster_blocks),
        "mb_prefetch": prefetch,
        "mb_prefetch_limit": min(prefetch * _LIMIT_FACTOR, sizes.groups),
        "reserved_clusters": _reserved_clusters(superblock, sizes.cluster_blocks),
    }
    return found | {name: (number,) for name, number in numbers.items()}


def _group_prealloc(fs: Filesystem, cluster_blocks: int) -> int:
    """Return the default number of clusters to preallocate, a multiple of the stripe."""
    least = max(_GROUP_PREALLOC // cluster_blocks, _LEAST_PREALLOC)
    option = option_of(fs, "stripe")
    stripe_blocks = whole_number(option.token.partition("=")[2]) if option else None
    stripe = (stripe_blocks or 0) // cluster_blocks
    return -(-least // stripe) * stripe if stripe else least


def _reserved_clusters(superblock: Superblock, cluster_blocks: int) -> int:
    """Return the default number of clusters reserved for growing extents: 2 %, at most 4096."""
    if superblock.features.isdisjoint({"extent", "extents"}):
        return 0
    clusters = superblock.size_blocks // cluster_blocks
    return min(clusters // _RESERVED_FRACTION, _MOST_RESERVED)

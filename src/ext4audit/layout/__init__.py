"""Layout as arithmetic; here, whether a stack stripes, and what the superblock alone says.

md, device mapper and most RAID controllers report the chunk as `minimum_io_size` and a whole
stripe of data as `optimal_io_size` (Documentation/ABI/stable/sysfs-block); partitions, LVM and
LUKS hand both on.

From the superblock follow the places of its copies and of the descriptors: one table behind each
copy, or with meta_bg one descriptor block in some groups; and how far the filesystem can grow, by
the limits that its geometry sets once and for all. Sources: Documentation/filesystems/ext4,
blockgroup.rst ("Meta Block Groups"), group_descr.rst and super.rst (Linux 6.1); descriptor_loc()
of fs/ext4/super.c (6.1) for 1 KiB blocks whose first data block is 0.

And so do the settings in /sys/fs/ext4 that a mount makes. An unmount forgets others. The defaults
are those of fs/ext4/super.c and fs/ext4/mballoc.c, measured on 6.18; `inode_readahead_blks` is a
mount option, too, and the mount table shows it.
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
"""The level of LVM's stripes in a geometry (targets "striped" and "raid raid0"). It is not
"raid0", because mdadm can grow a RAID0 of md and cannot grow these."""
STRIPING_LEVELS = frozenset({"raid0", "raid10", "raid4", "raid5", "raid6", LVM_STRIPES})
"""The levels of md that stripe, and LVM's stripes."""
MOST_COLUMNS = 256
"""The most columns of any controller; disks behind USB bridges report 65535 sectors as optimal."""


def may_stripe(stack: BlockDevice) -> bool:
    """Whether the bytes of a device may be spread over several members in chunks.

    False where nothing below stripes, whatever else is not known: a thin pool on one disk, a
    mirror, a file behind a loop device. A device-mapper device over one device cannot stripe
    even when its table is unreadable: otherwise every laptop with LVM would be undetermined for
    an ordinary user.
    """
    return any(
        isinstance(device.below, Unknown) or _splits(device)
        for device in stack.descend(is_leaf_device)
        if not is_leaf_device(device)
    )


def hidden_levels(stack: BlockDevice) -> tuple[Unknown, ...]:
    """Return why it is not known whether, or how, the devices of a stack stripe."""
    found: list[Unknown] = []
    for device in stack.descend(is_leaf_device):
        if not is_leaf_device(device):
            found += (each for each in (device.md, device.below) if isinstance(each, Unknown))
            if device.dm and isinstance(device.dm.table, Unknown) and len(device.known_below) > 1:
                found.append(device.dm.table)
    return tuple(found)


def is_leaf_device(device: BlockDevice) -> bool:
    """Whether a device is a leaf whatever lies below it: a loop device, a multipath device."""
    if device.loop is not None:
        return True
    # Every user can read this prefix of libmultipath; only root can read the table.
    return device.dm is not None and device.dm.uuid.startswith("mpath-")


def guess_geometry(stack: BlockDevice) -> StripeGeometry | None:
    """Return the stripe that the I/O sizes of a device suggest, None where they suggest none.

    The members are called "column 0" and so on. The guess is only likely: a controller's RAID5
    looks like a RAID0 of its data disks, and its RAID10 like a RAID0 of half of them. Where one
    md array is in the stack its level is known, and so the number of members.
    """
    limits = stack.queue
    chunk_bytes = for_wording(limits.minimum_io_bytes, 0)
    # A single disk reports its physical block here.
    if chunk_bytes <= max(for_wording(limits.physical_block_bytes, 0), SECTOR_BYTES):
        return None
    columns, rest = divmod(for_wording(limits.optimal_io_bytes, 0), chunk_bytes)
    if rest or not 1 < columns <= MOST_COLUMNS:
        return None
    return _geometry(stack, chunk_bytes, columns)


def _splits(device: BlockDevice) -> bool:
    """Whether this device itself stripes, or may do so where its table cannot be read."""
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
    """Return the one md array with copies or parity below, None where there are more or none."""
    found = [
        (device, device.md.value)
        for device in stack.walk()
        if isinstance(device.md, Known) and device.md.value.level in {"raid10", *PARITY_MEMBERS}
    ]
    return found[0] if len(found) == 1 else None


def _level_and_members(array: MdArray, columns: int) -> tuple[str, int]:
    """Return the level, and how many members the columns of data stand for.

    A RAID10 reports half of its members, or all of them where its copies do not pair up. md
    calls a RAID0 a RAID4 as long as it reshapes it (raid5.c, raid5_takeover).
    """
    if array.level == "raid10":
        known = array.raid_disks in {columns, 2 * columns}
        return ("raid10", array.raid_disks) if known else ("raid0", columns)
    if array.level == "raid4" and array.reshape_position is not None:
        return "raid0", columns
    return array.level, columns + PARITY_MEMBERS[array.level]


def _start_bytes(stack: BlockDevice) -> int:
    """Return how far below the top the stripe begins, by the starts of partitions."""
    start_sectors = 0
    device = stack
    while device.start_sectors is not None and len(device.known_below) == 1:
        start_sectors += device.start_sectors
        device = device.known_below[0]
    return start_sectors * SECTOR_BYTES


SUPERBLOCK_OFFSET_BYTES = 1024
"""Where the superblock starts, whatever the block size; a boot loader may use what is before."""
SUPERBLOCK_BYTES = 1024
MOST_GROUPS_POWER = 41
"""3 to this power is more than 64 bits count."""
USUAL_BLOCK_BYTES = (4096, 1024, 2048, 65536)
_USUAL_BACKUP_GROUPS = (1, 3, 5, 7, 9, 25, 27, 49)
"""The first that sparse_super selects: 1 and the powers of 3, 5 and 7."""


def descriptors_per_block(sizes: Sizes) -> int:
    """Return how many groups one descriptor block describes (a meta block group); ValueError."""
    per_block, rest = divmod(sizes.block_bytes, sizes.descriptor_bytes)
    if rest:
        raise ValueError(f"descriptors of {sizes.descriptor_bytes} bytes fill no block")
    return per_block


def descriptor_table_blocks(sizes: Sizes) -> int:
    """Return how many blocks the descriptors of all groups fill."""
    return -(-sizes.groups * sizes.descriptor_bytes // sizes.block_bytes)


def descriptor_blocks(sizes: Sizes) -> tuple[int, ...]:
    """Return the block number of each primary descriptor block, in the order of the groups.

    They follow the superblock; with meta_bg, from block `first_meta_bg` on, each lies in the
    first of the groups that it describes. ValueError where descriptors fill no block.
    """
    count = -(-sizes.groups // descriptors_per_block(sizes))
    together = count
    if "meta_bg" in sizes.features:
        together = min(sizes.first_meta_bg, count)
    after_superblock = SUPERBLOCK_OFFSET_BYTES // sizes.block_bytes + 1
    classic = range(after_superblock, after_superblock + together)
    return (*classic, *(_meta_block(sizes, index) for index in range(together, count)))


def descriptor_extents(sizes: Sizes) -> tuple[tuple[int, int], ...]:
    """Return offset and length in bytes of what holds the descriptors, adjacent blocks as one.

    The last one ends with the last descriptor and not with its block.
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
    """Return how many groups begin with a copy of the superblock, the first one included."""
    if "sparse_super2" in sizes.features:
        return 1 + len(sizes.backup_bgs)
    if "sparse_super" not in sizes.features:
        return sizes.groups
    powers = (base**power for base in (3, 5, 7) for power in range(1, MOST_GROUPS_POWER))
    return min(sizes.groups, 2) + sum(1 for group in powers if group < sizes.groups)


def usual_backups(block_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return group and block of the first backups as mke2fs places them without other options.

    A group then has as many blocks as one block has bits; with 1 KiB, block 0 is the boot loader's.
    """
    first = int(block_bytes == SUPERBLOCK_OFFSET_BYTES)
    per_group = min(8 * block_bytes, MOST_CLUSTERS_PER_GROUP)
    return tuple((group, first + group * per_group) for group in _USUAL_BACKUP_GROUPS)


def _meta_block(sizes: Sizes, index: int) -> int:
    """Return the block of descriptor block `index` where meta_bg spreads them."""
    group = index * descriptors_per_block(sizes)
    start = sizes.first_block + group * sizes.blocks_per_group
    return start + boot_block(sizes, group) + has_superblock(sizes, group)


def boot_block(sizes: Sizes, group: int) -> int:
    """Return 1 for block 0 of 1 KiB, which stays free where bigalloc makes it the first one."""
    is_first = group == 0 and sizes.first_block == 0
    return int(is_first and sizes.block_bytes == SUPERBLOCK_OFFSET_BYTES)


def holds_descriptors(sizes: Sizes, group: int) -> bool:
    """Whether meta_bg puts a descriptor block here: first, second and last of its groups."""
    described = descriptors_per_block(sizes)
    return group % described in {0, 1, described - 1}


def reserved_blocks(sizes: Sizes, group: int) -> int:
    """Return how many blocks at the start of a group its own metadata must leave free.

    Only for filesystems without descriptors in both places (meta_bg set later, by a resize).
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
    """The largest size in bytes, and which of the two limits it is: inodes or descriptors."""

    size_bytes: int
    is_of_inodes: bool


def ceiling_of(sizes: Sizes) -> Ceiling:
    """Return the size beyond which no resize goes.

    The kernel refuses a number of groups whose inodes do not fit 32 bits (fs/ext4/resize.c:
    "resize would cause inodes_count overflow"), and resize2fs before 1.47.2 a group descriptor
    table that does not fit into one block group ("New size results in too many block group
    descriptors", with meta_bg as well; measured with 1.47.0, and the release notes of 1.47.2).
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
"""Blocks of the journal below a number of blocks: e2fsprogs 1.43.2 and later, 1.47.0 measured."""
LARGEST_JOURNAL_BLOCKS = 262144


def journal_blocks_of(size_blocks: int) -> int:
    """Return the blocks of the journal that mke2fs makes by default; 0 for a small filesystem."""
    fitting = (journal for below, journal in JOURNAL_BLOCKS if size_blocks < below)
    return next(fitting, LARGEST_JOURNAL_BLOCKS)


_INTERVALS = (500, 1250, 1500, 5000)
"""Five seconds in jiffies, by the usual values of CONFIG_HZ."""
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
    """Return the settings with their values that a mount would not bring back.

    One whose default cannot be computed counts as changed: to set it again changes nothing.
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
    """Return the clusters that are preallocated at once: a multiple of the stripe."""
    least = max(_GROUP_PREALLOC // cluster_blocks, _LEAST_PREALLOC)
    option = option_of(fs, "stripe")
    stripe_blocks = whole_number(option.token.partition("=")[2]) if option else None
    stripe = (stripe_blocks or 0) // cluster_blocks
    return -(-least // stripe) * stripe if stripe else least


def _reserved_clusters(superblock: Superblock, cluster_blocks: int) -> int:
    """Return the clusters that are reserved for extents that grow: 2 %, at most 4096."""
    if superblock.features.isdisjoint({"extent", "extents"}):
        return 0
    clusters = superblock.size_blocks // cluster_blocks
    return min(clusters // _RESERVED_FRACTION, _MOST_RESERVED)

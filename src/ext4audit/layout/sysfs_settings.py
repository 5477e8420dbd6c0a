"""Settings of a mounted filesystem in /sys/fs/ext4, and what a mount sets them to.

An unmount forgets them. The defaults are those of fs/ext4/super.c and fs/ext4/mballoc.c, measured
on 6.18. `inode_readahead_blks` is a mount option, too, and the mount table shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ext4audit.evidence import for_wording, is_surely
from ext4audit.facts import whole_number
from ext4audit.facts.host import Filesystem, option_of
from ext4audit.facts.superblock import Superblock

INTERVALS = (500, 1250, 1500, 5000)
"""Five seconds in jiffies, by the usual values of CONFIG_HZ."""
CONSTANT: Mapping[str, tuple[int, ...]] = {
    **{f"{kind}_ratelimit_interval_ms": INTERVALS for kind in ("err", "warning", "msg")},
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
    defaults = {**CONSTANT, **_computed(fs)}
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

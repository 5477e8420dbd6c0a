"""The search for groups and flex groups that spread the bitmaps evenly over a stripe.

The result is the even group size nearest to mke2fs's default: even by the gcd test, in the first
flex groups, and for the filesystem's real size. The flex_bg size is kept if a group size exists
for it, or else halved until one does, and finally doubled. Then far smaller groups are tried. If
none is even, the most even candidate is used, if it is better than the default.

The period of the bitmap locations depends only on the greatest common divisor of flex stride and
stripe: candidates with the same divisor are equivalent, except on a small filesystem. Only a few
of each kind are counted, so that an unsuccessful search ends soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.facts.layout import EVEN, MetadataLayout, MkfsAdvice
from ext4audit.facts.superblock import MOST_CLUSTERS_PER_GROUP, Sizes
from ext4audit.layout import journal_blocks_of
from ext4audit.layout.bitmap_placement import BitmapPlacement, StripePeriod, measure, placement_of
from ext4audit.layout.byte_map import StackMap
from ext4audit.layout.groups import predict_table
from ext4audit.layout.mkfs_parameters import (
    BITS_PER_BYTE,
    GROUP_STEP,
    LEAST_CLUSTERS_PER_GROUP,
    MkfsOptions,
    metadata_blocks,
    mke2fs_sizes,
)

EVEN_AS_ADVISED = 0.97
"""Like EVEN, for advised options: it is stricter, as there are many options to choose from."""
EVEN_IN_A_WINDOW = 0.7
"""Like EVEN, for the first 2N flex groups, the window: a layout that stays on one member for many
flex groups before it moves on is even as a whole, but a hotspot for a working set."""
FEWEST_INODES = 0.9
"""The minimum share of the inodes that a new filesystem keeps; some are lost with a last group
that does not fit with another group size."""
MOST_NEW_METADATA = 0.1
"""The maximum share of all blocks that smaller groups may add for bitmaps, tables and backups."""
LARGEST_FLEX_GROUPS = 256
"""Beyond this the inode tables of a flex group fill whole groups."""
MUCH_DENSER = 0.98
BYTES_PER_INODE = range(1024, (64 << 20) + 1)
"""The values that mke2fs accepts for -i ("invalid inode ratio … (min 1024/max 67108864)")."""
WORTH_A_CHANGE = 0.02
"""The minimum increase of Jain's index for which options that are not even are advised."""
MOST_OF_A_KIND = 6
"""How many candidates of one flex_bg size and one greatest common divisor are counted."""
HALVINGS = range(1, 8)
"""How often the group size is halved if no size near the default is even."""
MOST_LOOKS = 500_000
"""How many parts of extents a search counts in total: about 0.1 s on a machine of 2020. A fifth of
that was not enough to reach the halved groups that are even on RAID5 with small chunks."""
EXACT_GROUPS = 4096
"""The most groups for which the default and candidates are confirmed bitmap by bitmap. With more
groups, those that begin with a backup of the superblock do not matter."""


def advise(stack_map: StackMap, sizes: Sizes, device_bytes: int | None = None) -> MkfsAdvice | None:
    """Return the options nearest the defaults that make the bitmaps even, None if none is better.

    `sizes` are those of the existing filesystem, or the result of `mke2fs_sizes`. The new one has
    the same size, or `device_bytes` if given. The default group size is kept if it is even. Returns
    None too for a filesystem of one block group: there is nothing to spread, and the number of
    groups that mke2fs makes on such a small device cannot be computed to the block.
    """
    if sizes.groups == 1:
        return None
    try:
        period = period_of(stack_map, sizes.block_bytes)
    except ValueError:
        return None
    found = _advised(period, stack_map, sizes, device_bytes)
    attainable = period.spread(placement_of(sizes)).attainable
    if found is None or attainable == 1:
        return found
    return found._replace(evenness=found.evenness * attainable, attainable=attainable)


def _advised(
    period: StripePeriod, stack_map: StackMap, sizes: Sizes, device_bytes: int | None
) -> MkfsAdvice | None:
    """Return the advice; its evenness is a share of the attainable one."""
    # mke2fs refuses its own default for -g if clusters have too many inodes.
    default = _tried(sizes, None, sizes.flex_bg_groups, device_bytes)
    usual = default or sizes
    now = _evenness(period, placement_of(usual))
    now = now._replace(whole=_confirmed(stack_map, usual, now.whole))
    kept = MkfsAdvice(
        _option(usual), sizes.flex_bg_groups, now.whole, is_default=default is not None
    )
    is_even = now.window >= EVEN_IN_A_WINDOW and now.whole >= EVEN and _keeps(sizes, usual)
    if is_even and now.whole >= EVEN_AS_ADVISED:
        return kept
    return _Search(period, stack_map, sizes, device_bytes, now).best() or (
        kept if is_even else None
    )


def period_of(stack_map: StackMap, block_bytes: int) -> StripePeriod:
    """Return the period of a striped stack, or of its zones; raises ValueError without one."""
    geometry = stack_map.geometry
    if geometry is None or not geometry.is_zoned or geometry.components:
        return StripePeriod(stack_map, block_bytes)
    zoned: StripePeriod = lazily("layout.zoned_period", "ZonedPeriod")(geometry, block_bytes)
    return zoned


def evenness(stack_map: StackMap, sizes: Sizes) -> float:
    """Compute Jain's index of the bitmaps in closed form; 1.0 is even.

    Raises ValueError for a stack that is not one stripe of chunks of whole blocks.
    """
    return period_of(stack_map, sizes.block_bytes).spread(placement_of(sizes)).evenness


def evenness_with_stride(stack_map: StackMap, sizes: Sizes, stride_blocks: int) -> float:
    """Return Jain's index of the bitmaps without flex_bg packing, made with a stride.

    On a large filesystem only the first groups are counted.
    """
    made = _made(sizes, _option(sizes), 1)
    first = made._replace(
        stride_blocks=stride_blocks,
        size_blocks=min(made.size_blocks, EXACT_GROUPS * made.blocks_per_group),
    )
    return measure(predict_table(first), first, stack_map).evenness


def described(layout: MetadataLayout, sizes: Sizes) -> Sizes:
    """Return the sizes with the values of the layout; raises ValueError if groups are too large."""
    largest = 8 * layout.block_bytes * layout.cluster_blocks
    if layout.blocks_per_group > largest:
        raise ValueError(f"one block of bitmap does not describe {layout.blocks_per_group} blocks")
    return sizes._replace(
        size_blocks=layout.size_blocks,
        block_bytes=layout.block_bytes,
        blocks_per_group=layout.blocks_per_group,
        flex_bg_groups=layout.flex_bg_groups,
        cluster_blocks=layout.cluster_blocks,
    )


class _Evenness(NamedTuple):
    """Jain's index of the bitmaps in the first 2N flex groups, and of all of them.

    Both are divided by the attainable index, which is below 1 for unequal members.
    """

    window: float
    whole: float


class _Candidate(NamedTuple):
    """The filesystem that mke2fs makes with a group size and a flex_bg size, and its evenness."""

    made: Sizes
    found: _Evenness

    def advice(self, whole: float) -> MkfsAdvice:
        """Return the advice with a confirmed Jain's index."""
        flex_groups = self.made.flex_bg_groups
        return MkfsAdvice(_option(self.made), flex_groups, whole, is_default=False)


@dataclass
class _Search:
    """One search on a stripe; `left` is how many parts of extents it may still count."""

    period: StripePeriod
    stack_map: StackMap
    sizes: Sizes
    device_bytes: int | None
    now: _Evenness
    left: int = MOST_LOOKS

    def best(self) -> MkfsAdvice | None:
        """Return the first even candidate, or else the most even one if it is worth a change."""
        most: MkfsAdvice | None = None
        least = max(self.now.whole, EVEN_AS_ADVISED)
        for candidate in self._candidates():
            if candidate.found.whole <= (most.evenness if most else self.now.whole):
                continue
            groups = candidate.made.groups
            self.left -= groups if groups <= EXACT_GROUPS else 0
            whole = _confirmed(self.stack_map, candidate.made, candidate.found.whole)
            advice = candidate.advice(whole)
            if advice.evenness >= least:
                return advice
            if most is None or advice.evenness > most.evenness:
                most = advice
        return most if most and most.evenness > self.now.whole + WORTH_A_CHANGE else None

    def _candidates(self) -> Iterator[_Candidate]:
        """Yield candidates that are even by the gcd test, then others, then far smaller groups.

        Smaller groups help a small filesystem whose large groups are too few to reach all members.
        """
        for is_perfect, halvings in ((True, 0), (False, 0), *((True, h) for h in HALVINGS)):
            for size in _flex_sizes(self.sizes.flex_bg_groups):
                yield from self._of_flex_size(size, halvings, is_perfect=is_perfect)

    def _of_flex_size(self, size: int, halvings: int, *, is_perfect: bool) -> Iterator[_Candidate]:
        kinds: dict[int, int] = {}
        for option in _group_sizes(self.sizes.block_bytes, halvings):
            if self.left <= 0:
                return
            stride = option * self.sizes.cluster_blocks * size
            kind = gcd(stride, self.period.period_blocks)
            if kinds.get(kind, 0) >= (1 if halvings else MOST_OF_A_KIND):
                continue
            if self.period.covers_all_chunks(stride, size) is not is_perfect:
                continue
            kinds[kind] = kinds.get(kind, 0) + 1
            candidate = self._counted(option, size)
            if candidate is not None:
                yield candidate

    def _counted(self, option: int, size: int) -> _Candidate | None:
        """Count a candidate; return None if mke2fs changes more than groups, or it starts uneven.

        For very many inodes mke2fs lowers the group size or makes fewer inodes. It replaces
        resize_inode by meta_bg if the reserved descriptors would leave too little room in a group.
        """
        made = _tried(self.sizes, option, size, self.device_bytes)
        if made is None or _option(made) != option or not _keeps(self.sizes, made):
            return None
        placement = placement_of(made)
        self.left -= _looks(self.period, placement)
        found = _evenness(self.period, placement)
        if found.window < max(min(self.now.window, EVEN), EVEN_IN_A_WINDOW):
            return None
        return _Candidate(made, found)


def _confirmed(stack_map: StackMap, made: Sizes, whole: float) -> float:
    """Return the exact index of the filesystem, including groups that begin with a backup.

    With many groups it is `whole`, the index of the closed form.
    """
    if made.groups > EXACT_GROUPS:
        return whole
    return measure(predict_table(made), made, stack_map).bitmaps.achieved


def _looks(period: StripePeriod, placement: BitmapPlacement) -> int:
    """Return how many parts of extents a count visits; RAID5 and RAID6 have long periods."""
    stride = placement.flex_stride_blocks
    strides = period.period_blocks // gcd(stride, period.period_blocks)
    extents = min(strides, -(-placement.groups // placement.flex_groups)) + 2 * period.members
    return extents * (1 + 2 * placement.flex_groups // gcd(stride, period.chunk_blocks))


def _flex_sizes(flex_groups: int) -> Iterator[int]:
    """Yield the present flex_bg size, then smaller ones, then larger ones.

    Smaller ones have a finer stride. Larger ones cover several small chunks with one extent.
    """
    yield from (flex_groups >> halvings for halvings in range(flex_groups.bit_length()))
    while flex_groups < LARGEST_FLEX_GROUPS:
        flex_groups *= 2
        yield flex_groups


def _group_sizes(block_bytes: int, halvings: int = 0) -> Iterator[int]:
    """Return group sizes from mke2fs's default, halved `halvings` times, down to 7/8 of that."""
    largest = min(BITS_PER_BYTE * block_bytes, MOST_CLUSTERS_PER_GROUP) >> halvings
    first = largest // GROUP_STEP * GROUP_STEP
    last = max(largest * 7 // 8, LEAST_CLUSTERS_PER_GROUP - 1)
    return iter(range(first, last, -GROUP_STEP))


def _evenness(period: StripePeriod, placement: BitmapPlacement) -> _Evenness:
    whole = period.spread(placement).achieved
    groups = 2 * period.members * placement.flex_groups
    if groups >= placement.groups:
        return _Evenness(whole, whole)
    return _Evenness(period.spread(placement, groups).achieved, whole)


def _tried(
    sizes: Sizes, option: int | None, flex_groups: int, device_bytes: int | None
) -> Sizes | None:
    """Return the sizes that mke2fs makes, None if it refuses."""
    try:
        return _made(sizes, option, flex_groups, device_bytes)
    except ValueError:
        return None


def _keeps(sizes: Sizes, made: Sizes) -> bool:
    """Whether mke2fs keeps resize_inode, the journal, the number of inodes and the data space.

    If it omits a last group that is too small, there may be too few blocks for a journal.
    """
    had_journal, has_journal = (journal_blocks_of(each.size_blocks) for each in (sizes, made))
    same_features = "meta_bg" not in made.features - sizes.features
    same_features &= bool(has_journal) or not had_journal
    before, after = (metadata_blocks(each) / each.size_blocks for each in (sizes, made))
    same_space = after - before <= MOST_NEW_METADATA
    return same_features and same_space and _inodes(made) >= FEWEST_INODES * _inodes(sizes)


def _inodes(sizes: Sizes) -> int:
    return sizes.inodes_per_group * sizes.groups


def _made(
    sizes: Sizes, option: int | None, flex_groups: int, device_bytes: int | None = None
) -> Sizes:
    """Return the sizes that mke2fs makes for an equal filesystem with other groups.

    Its stride is 0: with flex groups of one group, a stride would move the bitmaps.
    """
    needed = {"bigalloc"} if sizes.cluster_blocks > 1 else set()
    if flex_groups > 1:
        needed.add("flex_bg")
    density = density_of(sizes)
    options = MkfsOptions(
        features=sizes.features | needed,
        block_bytes=sizes.block_bytes,
        group_option=option,
        flex_bg_groups=flex_groups,
        bytes_per_inode=density.bytes_per_inode,
        inode_count=density.inode_count,
        inode_bytes=sizes.inode_bytes,
        cluster_bytes=sizes.cluster_blocks * sizes.block_bytes,
        backup_superblocks=backup_superblocks(sizes),
    )
    return mke2fs_sizes(device_bytes or sizes.size_bytes, options)


def advised(sizes: Sizes, advice: MkfsAdvice, device_bytes: int | None = None) -> Sizes:
    """Return the sizes that mke2fs makes as advised; raises ValueError if it refuses."""
    return _made(sizes, advice.blocks_per_group_option, advice.flex_bg_groups, device_bytes)


def backup_superblocks(sizes: Sizes) -> int:
    """Return the -E num_backup_sb (sparse_super2) that the filesystem was made with.

    It is mke2fs's default if there are too few groups to tell: they limit the backups.
    """
    usual = MkfsOptions().backup_superblocks
    found = len(sizes.backup_bgs)
    return found if sizes.groups > usual or (sizes.groups == usual and not found) else usual


class Density(NamedTuple):
    """The -i that gives a new filesystem about as many inodes, or -N if no -i does."""

    bytes_per_inode: int | None
    inode_count: int | None


def density_of(sizes: Sizes) -> Density:
    """Return the mke2fs option that preserves the number of inodes.

    A shorter last group has as many inodes as the others, for fewer bytes.
    """
    ratio = sizes.blocks_per_group * sizes.block_bytes // sizes.inodes_per_group
    whole = sizes.size_bytes // sizes.inode_count
    ratio = whole if whole < ratio * MUCH_DENSER else ratio
    return Density(ratio, None) if ratio in BYTES_PER_INODE else Density(None, sizes.inode_count)


def _option(sizes: Sizes) -> int:
    return sizes.blocks_per_group // sizes.cluster_blocks

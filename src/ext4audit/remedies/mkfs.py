"""Recreate a filesystem with mkfs parameters that spread its bitmaps evenly over a stripe."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from ext4audit.facts import MIB
from ext4audit.facts.layout import MOST_STRIDE_BLOCKS, MetadataLayout, MkfsAdvice, StripeGeometry
from ext4audit.facts.superblock import Sizes, Superblock, sizes_of
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.layout import JOURNAL_BLOCKS, journal_blocks_of
from ext4audit.layout.advice import AS_USUAL, advice_for, growth_for
from ext4audit.layout.group_search import advised, backup_superblocks, density_of, described
from ext4audit.layout.groups import sizes_of_middle
from ext4audit.layout.mkfs_parameters import (
    DEFAULT_FEATURES,
    LARGEST_OLD_JOURNAL_BLOCKS,
    LEAST_BLOCKS_OF_LARGEST_OLD_JOURNAL,
    fast_commit_blocks_of,
    largest_journal_blocks,
    sizes_before_growth,
)
from ext4audit.remedies import DUMPE2FS, Command, Unquotable, if_quotable, quotable, quote, step

CHOSEN_FEATURES = frozenset(
    "bigalloc casefold ea_inode encrypt fast_commit inline_data large_dir meta_bg mmp project "
    "quota sparse_super2 stable_inodes uninit_bg verity".split()
)
"""Features that mke2fs enables only if they are named. orphan_file and metadata_csum_seed are
left to mke2fs.conf, because neither changes what the filesystem can store."""
LEFT_OUT_FEATURES = DEFAULT_FEATURES - {"large_file"}
"""Features that mke2fs enables unless they are negated; the kernel itself sets large_file."""
ERRORS = frozenset({"remount-ro", "panic"})
USUAL_INODE_BYTES = 256
SMALL_BYTES = 512 * MIB
"""Below this size mke2fs 1.46.2 creates inodes of 128 bytes, whose timestamps end in 2038 and which
have no room for inline_data; 1.47.0 does not (mke2fs.conf of both: "small")."""
USUAL_RESERVED_PERCENT = 5
ROUNDED_SHARE = 1e-4
"""Tolerance: resize2fs rounds the reserve of a filesystem that it grows, from 5 % to 4.9958 %."""


def even_out_bitmaps(
    device: str, layout: MetadataLayout, superblock: Superblock
) -> Iterator[Remedy]:
    """Yield the remedies that spread the bitmaps of the filesystem on `device` evenly."""
    geometry, sizes = layout.geometry, superblock.sizes
    if geometry is None or sizes is None:
        return
    advice = advice_for(layout, sizes)
    if advice and not _is_as_advised(layout, superblock, advice):
        command = mkfs_line(device, layout, superblock)
        journal = ("blkid", "mke2fs") if superblock.external_journal else ()
        made = Command(command or "", (*journal, "mkfs.ext4"))
        yield _recreate(device, made, _blocks_per_group(layout, advice))
    yield from _grow(layout, geometry, sizes)


def mkfs_line(
    device: str,
    layout: MetadataLayout,
    superblock: Superblock,
    start_bytes: int = 0,
    *,
    keeps_size: bool = False,
) -> str | None:
    """Return the command that recreates a filesystem as advised, or None if nothing would change.

    It destroys all data. The filesystem begins at `start_bytes` of the device or file. If that is
    not 0 or if `keeps_size` is true, it keeps its size, because the space after it may be in use.
    The result is also None if a name cannot be quoted for a shell, or if the journal is on an
    unknown device.
    """
    geometry, sizes = layout.geometry, superblock.sizes
    if geometry is None or sizes is None:
        return None
    advice = advice_for(layout, sizes)
    if advice is None or _is_as_advised(layout, superblock, advice):
        return None
    if superblock.external_journal and not superblock.journal_uuid:
        return None
    size = f" {layout.size_blocks}" if start_bytes or keeps_size else ""
    try:
        command = f"{_mkfs(layout, geometry, superblock, advice, start_bytes)} {quote(device)}"
        return f"{_new_external_journal(layout, superblock)}{command}{size}"
    except Unquotable:
        return None


def _new_external_journal(layout: MetadataLayout, superblock: Superblock) -> str:
    """Return the command that recreates an external journal, with a trailing "&&", or "".

    It keeps the journal's UUID. A journal that still names the old filesystem has two users, and
    the kernel mounts neither (mke2fs 1.47.0, Linux 6.18).
    """
    if not superblock.external_journal:
        return ""
    uuid = quote(superblock.journal_uuid or "")
    make = f"mke2fs -b {layout.block_bytes} -O journal_dev -U {uuid}"
    return f'{make} "$(blkid -U {uuid})" && '


def _is_as_advised(layout: MetadataLayout, superblock: Superblock, advice: MkfsAdvice) -> bool:
    """Return whether recreating changes nothing.

    A stride moves bitmaps only without flex_bg. With -E packed_meta_blocks, which the superblock
    does not record, the bitmaps of the advised groups are elsewhere.
    """
    same_groups = _blocks_per_group(layout, advice) == layout.blocks_per_group
    same_packing = advice.flex_bg_groups == layout.flex_bg_groups
    same_places = advice.evenness <= layout.evenness + AS_USUAL
    is_moved = advice.flex_bg_groups == 1 and superblock.stride_blocks > 0
    return same_groups and same_packing and same_places and not is_moved


def _blocks_per_group(layout: MetadataLayout, advice: MkfsAdvice) -> int:
    return advice.blocks_per_group_option * layout.cluster_blocks


def _recreate(device: str, command: Command, blocks_per_group: int) -> Remedy:
    """Return the remedy that runs a command of `mkfs_line`; without a text it has no steps."""
    return Remedy(
        summary="Back up, unmount, recreate with block groups that fit the stripe, restore: "
        f"mkfs DESTROYS all data on {device}.",
        disruption=Disruption.RECREATE,
        steps=_recreated(device, command, blocks_per_group) if command.text else (),
        destructive=True,
        trade_off="Groups no longer start on chunk boundaries, and few systems use such layouts. "
        "With very many inodes mke2fs silently lowers the group size, so verify it. The "
        "filesystem gets a new UUID: change lines of fstab that name the old one. The default "
        "mount options are those of mke2fs. There is no smaller change: stride and stripe "
        "width only affect the allocator and move no bitmap, and resize2fs keeps the group size.",
    )


@if_quotable
def _recreated(device: str, command: Command, blocks_per_group: int) -> tuple[Step, ...]:
    verify = f"dumpe2fs -h {quote(device)} 2>/dev/null"
    pattern = f"^Blocks per group: +{blocks_per_group}$"
    check = Command(f"{verify} | grep -Eq '{pattern}'", DUMPE2FS)
    return step(Phase.PERSISTENT, command), step(Phase.VERIFY, check)


def _mkfs(
    layout: MetadataLayout,
    geometry: StripeGeometry,
    superblock: Superblock,
    advice: MkfsAdvice,
    start_bytes: int,
) -> str:
    chunk_blocks = geometry.chunk_bytes // layout.block_bytes
    # Without flex_bg packing, stride moves the bitmaps: with -G 1 -g 32760 on 4 disks with 32 KiB
    # chunks they used 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
    fits = chunk_blocks <= MOST_STRIDE_BLOCKS
    width = lcm(chunk_blocks * geometry.data_columns, layout.cluster_blocks)
    stride = chunk_blocks if advice.flex_bg_groups > 1 and fits else 0
    extended = [f"stride={stride}", f"stripe_width={width}"]
    if "sparse_super2" in superblock.features and superblock.backup_bgs is not None:
        extended.append(f"num_backup_sb={backup_superblocks(sizes_of(superblock))}")
    if start_bytes:
        extended.append(f"offset={start_bytes}")
    packs = "flex_bg" in superblock.features or advice.flex_bg_groups > 1
    command = [
        "mkfs.ext4",
        f"-b {layout.block_bytes}",
        f"-g {advice.blocks_per_group_option}",
        *([f"-G {advice.flex_bg_groups}"] if packs else []),
        *_kept(layout, superblock, advice),
        *_features(superblock.features | _implied(layout, packs=packs)),
        *_kept_sizes(layout, superblock),
        f"-E {','.join(extended)}",
    ]
    return " ".join(command)


def _kept(layout: MetadataLayout, superblock: Superblock, advice: MkfsAdvice) -> Iterator[str]:
    """Yield options for properties of the present filesystem that are not mke2fs's choice."""
    is_small = superblock.size_blocks * layout.block_bytes < SMALL_BYTES
    if superblock.inode_bytes and (is_small or superblock.inode_bytes != USUAL_INODE_BYTES):
        yield f"-I {superblock.inode_bytes}"
    reserved, blocks = superblock.reserved_blocks, superblock.size_blocks
    usual = blocks * USUAL_RESERVED_PERCENT / 100
    if reserved is not None and abs(reserved - usual) > max(blocks * ROUNDED_SHARE, 1):
        yield f"-m {f'{min(reserved * 100 / blocks, 50):.4f}'.rstrip('0').rstrip('.')}"
    if superblock.errors in ERRORS:
        yield f"-e {superblock.errors}"
    # Smaller groups leave less free space for a journal.
    made = advised(described(layout, sizes_of(superblock)), advice, layout.device_bytes)
    yield from _journal(superblock, largest_journal_blocks(made) * made.block_bytes)
    yield from (f"-L {label}" for label in quotable(superblock.label or "") if superblock.label)


def _journal(superblock: Superblock, largest_bytes: int) -> Iterator[str]:
    """Yield the device of an external journal, or a journal size that was chosen explicitly.

    A size is chosen unless it is the default of mke2fs, of an older mke2fs, or for the size before
    the filesystem grew; if growth leaves no trace, the default of a smaller filesystem counts as
    chosen. With fast_commit, the known size includes both parts: mke2fs 1.47.0 adds a 64th of its
    default size.
    """
    if superblock.external_journal:
        yield f"-J device=UUID={quote(superblock.journal_uuid or '')}"
    size, block = superblock.journal_bytes, superblock.block_bytes
    if not size or not block:
        return
    usual = {journal_blocks_of(superblock.size_blocks)}
    fast_bytes = fast_commit_blocks_of(superblock.size_blocks, superblock.features) * block
    # dumpe2fs rounds to MiB, which drops a part that is smaller.
    size -= 0 if (size - fast_bytes) % MIB else fast_bytes
    before = _before_growth(superblock)
    steps = (*before[:1], *(blocks for blocks, _ in JOURNAL_BLOCKS if blocks in before))
    usual |= {journal_blocks_of(blocks) for blocks in steps}
    if superblock.size_blocks >= LEAST_BLOCKS_OF_LARGEST_OLD_JOURNAL:
        usual.add(LARGEST_OLD_JOURNAL_BLOCKS)
    if size > 0 and size % MIB == 0 and size not in {blocks * block for blocks in usual}:
        yield f"-J size={max(min(size, largest_bytes) // MIB, 1)}"


def _before_growth(superblock: Superblock) -> range:
    """Return the numbers of blocks that it may have grown from, by its descriptors and journal.

    What -E resize reserves looks like growth, but the journal is then in the middle.
    """
    sizes, journal = sizes_of(superblock), superblock.journal_first_block
    found = sizes_before_growth(sizes)
    if journal is None:
        return found
    middle = sizes_of_middle(sizes, journal)
    return range(max(found.start, middle.start), min(found.stop, middle.stop))


def _implied(layout: MetadataLayout, *, packs: bool) -> frozenset[str]:
    """Return the features that -G and -C require."""
    clusters = {"bigalloc"} if layout.cluster_blocks > 1 else set()
    return frozenset(clusters | ({"flex_bg"} if packs else set()))


def _features(features: frozenset[str]) -> Iterator[str]:
    """Yield -O with the features that differ from the defaults of mke2fs."""
    words = [
        *sorted(features & CHOSEN_FEATURES),
        *(f"^{name}" for name in sorted(LEFT_OUT_FEATURES - features)),
    ]
    if words:
        yield f"-O {','.join(words)}"


def _kept_sizes(layout: MetadataLayout, superblock: Superblock) -> Iterator[str]:
    """Yield options for cluster size and inode density, which determine where metadata is."""
    if layout.cluster_blocks > 1:
        yield f"-C {layout.cluster_blocks * layout.block_bytes}"
    ratio, count = density_of(described(layout, sizes_of(superblock)))
    yield f"-N {count}" if ratio is None else f"-i {ratio}"


def _grow(layout: MetadataLayout, geometry: StripeGeometry, sizes: Sizes) -> Iterator[Remedy]:
    """Yield advice to grow to the next number of members that evens out the layout, if near."""
    grown = growth_for(layout, sizes)
    if grown is None:
        return
    now, width = len(geometry.members), grown.members * geometry.chunk_bytes // layout.block_bytes
    yield Remedy(
        summary=f"Grow the array from {now} to {grown.members} members with mdadm, online.",
        disruption=Disruption.ONLINE,
        trade_off="The reshape rewrites the whole array: back up first. Then set the stripe width "
        f"of the superblock to {width} blocks.",
    )

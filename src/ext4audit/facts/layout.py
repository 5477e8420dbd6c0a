"""Types for the layout of block-group metadata on the members of a stripe, and for the advice."""

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import Literal, NamedTuple, TypeAlias

from ext4audit.evidence import Evidence, Known, Unknown, derive
from ext4audit.facts.superblock import Superblock

EVEN = 0.95
"""The lowest Jain's index of an even layout. Almost no geometry with N of 2 to 32 and chunks of
64K to 1M is between 0.55 and 0.95."""


class MkfsAdvice(NamedTuple):
    """Options for mke2fs that make the bitmaps even on a stripe, and the resulting Jain's index.

    `blocks_per_group_option` is the value for -g, which counts clusters with bigalloc.
    `flex_bg_groups` is the value for -G. `is_default` means that mke2fs uses them without -g.
    `attainable` is the best index for the sizes of the members.
    """

    blocks_per_group_option: int
    flex_bg_groups: int
    evenness: float
    is_default: bool
    attainable: float = 1.0

    @property
    def options(self) -> str:
        """The options of mke2fs: "-g 32744 -G 16".

        Without flex_bg packing, a stride moves the bitmaps: -G 1 -g 32760 on 4 disks with chunks
        of 32 KiB used 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
        """
        stride = " -E stride=0" if self.flex_bg_groups == 1 else ""
        return f"-g {self.blocks_per_group_option} -G {self.flex_bg_groups}{stride}"


class Growth(NamedTuple):
    """A number of members for which the existing bitmaps are even, and the resulting index."""

    members: int
    evenness: float


class LayoutAdvice(NamedTuple):
    """The complete advice for an existing filesystem, as sentences to print.

    `sentence` is how many members are effectively used, `curable` what -g improves and `incurable`
    what it cannot. `in_place` and `recreate` are the two remedies, None if there is none. `no_help`
    lists common attempts that change nothing, `mitigations` what reduces hot writes without
    changing the layout.
    """

    sentence: str
    is_even: bool
    curable: str
    incurable: str
    advice: MkfsAdvice | None
    growth: Growth | None
    recreate: str | None
    in_place: str | None
    no_help: tuple[str, ...]
    mitigations: tuple[str, ...]


Basis: TypeAlias = Literal["descriptors", "computed", "simulated"]
"""The source of the metadata locations: the group descriptors, a computation from the filesystem's
parameters, or the descriptors of a filesystem that mke2fs made in a simulation."""

MOST_STRIDE_BLOCKS = (1 << 16) - 1
"""The largest RAID stride: its field has 16 bits (s_raid_stride), the stripe width has 32."""


CLUSTERS_LIMIT_STRIPE_SINCE = (6, 6)


def stripe_at_mount(superblock: Superblock, linux: Evidence[tuple[int, ...]]) -> Evidence[int]:
    """Return the stripe, in blocks, of a mount without stripe= (ext4_get_stripe_size); 0 for none.

    It is the width, else the stride; the kernel skips values larger than a block group. A stripe of
    one block is none: mke2fs writes it for disks that report 4 KiB as their optimal I/O size.
    Linux 6.6 and later turn off a stripe that is not a multiple of a cluster ("stripe is disabled";
    5.10 and 6.1 do not).
    """
    most = superblock.blocks_per_group
    fields = superblock.stripe_width_blocks, superblock.stride_blocks
    taken = next((blocks for blocks in fields if blocks and (most is None or blocks <= most)), 0)
    if taken > 1 and taken % (superblock.cluster_blocks or 1):
        return derive("stripe", lambda found: taken * (found < CLUSTERS_LIMIT_STRIPE_SINCE), linux)
    return Known(taken if taken > 1 else 0, "superblock")


class StripeGeometry(NamedTuple):
    """A stripe: its members in slot order, and how bytes of the top device map to them.

    `offset_bytes` is where the filesystem starts on the striped device (partitions, LVM).
    `device` is the name of the striped device ("md127"). `layout` is md's number for the order of
    copies or parity (`md/layout`), None if the level has none or it is not set. `components` are
    the direct devices of the stripe, empty if they are the members: a stripe over two mirrors has
    two components and four members. `member_bytes` is how much the stripe uses of each component,
    empty if all are equal: beyond the smallest, it continues on the others.
    """

    device: str
    level: str
    chunk_bytes: int
    offset_bytes: int
    members: tuple[str, ...]
    layout: int | None = None
    components: tuple["StripeComponent", ...] = ()
    member_bytes: tuple[int, ...] = ()

    @property
    def is_zoned(self) -> bool:
        """Whether members have different sizes, so that the end of the array is not on all."""
        return bool(self.member_bytes)

    @property
    def columns(self) -> int:
        """The number of devices over which the chunks are striped, including parity."""
        return len(self.components or self.members)

    @property
    def data_columns(self) -> int:
        """The number of devices with data in each stripe, without copies and parity (mke2fs(8)).

        If the number of devices is not a multiple of a RAID10's copies, it is the number of
        devices, like the optimal I/O size of md (raid10.c: raid10_set_io_opt).
        """
        if self.level == "raid10":
            copies = NEAR_COPIES if self.layout is None else self.layout & NEAR_COPIES_MASK
            return self.columns // copies if copies and self.columns % copies == 0 else self.columns
        return self.columns - PARITY_MEMBERS.get(self.level, 0)

    @property
    def is_described(self) -> bool:
        """Whether it determines the place of each byte: no empty component, no zones of arrays."""
        below = (each for each in self.components if isinstance(each, StripeGeometry))
        is_whole = all(self.components) and not (self.is_zoned and self.components)
        return is_whole and all(each.is_described for each in below)

    @property
    def run_bytes(self) -> int:
        """The length of the aligned runs of bytes that are on the same members."""
        below = (each for each in self.components if isinstance(each, StripeGeometry))
        return gcd(self.chunk_bytes, *(gcd(each.run_bytes, each.offset_bytes) for each in below))


StripeComponent: TypeAlias = StripeGeometry | tuple[str, ...]
"""A component of a stripe: another stripe, whose `offset_bytes` is where the upper one begins on
it, or the members that mirror the component. An empty tuple is a device that is neither."""

PARITY_MEMBERS = {"raid4": 1, "raid5": 1, "raid6": 2}
"""The number of members' worth of parity of each level."""
REDUNDANT_LEVELS = frozenset({"raid1", "raid10", *PARITY_MEMBERS})
"""The md levels that survive the loss of a member."""
NEAR_COPIES = 2
"""The copies in md's default RAID10 layout, near=2 (md(4))."""
NEAR_COPIES_MASK = 0xFF
"""The bits of md's RAID10 layout number with the near copies."""


_FIXED_PARITY: Mapping[tuple[str, int | None], tuple[int, ...]] = {
    ("raid4", None): (-1,),
    ("raid5", 4): (0,),
    ("raid5", 5): (-1,),
    ("raid6", 5): (-2, -1),
    **{("raid6", layout): (-1,) for layout in range(16, 20)},
    ("raid6", 20): (0, -1),
}
"""The components with nothing but parity, by md's layout number. LVM makes such layouts when it
converts a stripe (raid5_n, raid6_n_6). In RAID4 it is the last one (drivers/md/raid5.c, 6.1)."""


def judged_members(geometry: StripeGeometry) -> tuple[int, ...]:
    """Return the slots of the members that can hold metadata, without those with parity only.

    A component with nothing but parity may be a mirror or an array of several members, and each
    array below a stripe may have one.
    """
    uses = set(_uses(geometry))
    parity = {name for name, is_parity in uses if is_parity and (name, False) not in uses}
    return tuple(slot for slot, name in enumerate(geometry.members) if name not in parity)


def _uses(geometry: StripeGeometry) -> Iterator[tuple[str, bool]]:
    """Yield members, each with whether it holds nothing but parity of one of the stripes."""
    below = geometry.components or tuple((name,) for name in geometry.members)
    layout = None if geometry.level == "raid4" else geometry.layout
    fixed = _FIXED_PARITY.get((geometry.level, layout), ())
    parity = {index % len(below) for index in fixed}
    for index, each in enumerate(below):
        if isinstance(each, StripeGeometry):
            found: Iterable[tuple[str, bool]] = _uses(each)
        else:
            found = ((name, False) for name in each)
        yield from ((name, only_parity or index in parity) for name, only_parity in found)


class Spread(NamedTuple):
    """How evenly a load is spread over the member devices; `loads` are in slot order.

    `attainable` is the evenness of loads in proportion to the sizes of the members: below 1 only
    if these differ.
    """

    loads: tuple[int, ...]
    attainable: float = 1.0

    @property
    def skew(self) -> float:
        """The busiest member's load divided by the mean load: 1.0 is even."""
        total = sum(self.loads)
        return max(self.loads) * len(self.loads) / total if total else 1.0

    @property
    def effective_members(self) -> float:
        """N_eff = (Σx)²/Σx²: how many members are effectively in use."""
        squares = sum(load * load for load in self.loads)
        return sum(self.loads) ** 2 / squares if squares else float(len(self.loads))

    @property
    def evenness(self) -> float:
        """Jain's index, N_eff / N: 1.0 is even, 1/N is all on one member."""
        return self.effective_members / len(self.loads)

    @property
    def achieved(self) -> float:
        """The evenness divided by the attainable one; above 1 if small members have more load."""
        return self.evenness / self.attainable

    @property
    def hottest_share(self) -> float:
        """The busiest member's share of the load: 1/N is even, 1.0 is all on one member."""
        return self.skew / len(self.loads)


class MemberLoad(NamedTuple):
    """The metadata on one member device; each copy of a mirrored block counts.

    `inode_tables` counts the tables that start here. `descriptor_blocks` are blocks of the
    primary group descriptor table, `described_groups` the groups that they describe.
    `bitmap_parity` are the parity blocks that are written with the bitmaps, and `touch_parity`
    those written with everything that `touches` counts; `descriptor_parity` is the part of
    `touch_parity` that belongs to `described_groups`.
    """

    name: str
    block_bitmaps: int
    inode_bitmaps: int
    inode_tables: int
    descriptor_blocks: int = 0
    described_groups: int = 0
    bitmap_parity: int = 0
    touch_parity: int = 0
    descriptor_parity: int = 0

    @property
    def bitmaps(self) -> int:
        """Block and inode bitmaps together: the blocks that allocations write."""
        return self.block_bitmaps + self.inode_bitmaps

    @property
    def bitmap_writes(self) -> int:
        """The blocks written here when each bitmap of the filesystem is written once."""
        return self.bitmaps + self.bitmap_parity

    @property
    def touches(self) -> int:
        """The blocks written here when one file is created in each group.

        They are the group's block bitmap, its inode bitmap, the first block of its inode table
        and the block of its descriptor. With these four at equal weight, the predicted shares
        of ten real md arrays under churn of small files were right within 6 percentage points.
        """
        return self.bitmaps + self.inode_tables + self.described_groups + self.touch_parity

    def churn(self, descriptor_writes: float) -> float:
        """Return the writes here, with `descriptor_writes` descriptor writes per changed group."""
        described = self.described_groups + self.descriptor_parity
        return self.touches - described + descriptor_writes * described


class MetadataLayout(NamedTuple):
    """The metadata of one filesystem, counted per member device of its stack.

    `geometry` is the stripe, None if nothing stripes (one disk, a mirror, a concatenation).
    `basis` is the source of the locations. `doubts` are unknowns that make them only likely: a
    stripe that was guessed from I/O sizes, a group table that was predicted. `descriptor_writes`
    are the writes of descriptor blocks per changed group (`layout/bitmap_placement.py`).
    `attainable` is the evenness of bitmaps in proportion to the sizes of the members.
    `device_bytes` is the space for a new filesystem, None if it is equal to the present size: it
    is the size of the device, of which mke2fs does not use a last group that is too small.
    """

    geometry: StripeGeometry | None
    block_bytes: int
    blocks_per_group: int
    groups: int
    flex_bg_groups: int
    size_blocks: int
    cluster_blocks: int
    members: tuple[MemberLoad, ...]
    basis: Basis = "descriptors"
    doubts: tuple[Unknown, ...] = ()
    descriptor_writes: float = 1.0
    attainable: float = 1.0
    device_bytes: int | None = None

    @property
    def judged(self) -> tuple[MemberLoad, ...]:
        """The members over which the bitmaps can be spread.

        Disks that are not in the stripe, which hold another part of the volume, and the parity
        disk of a RAID4 are excluded, because no layout changes their load.
        """
        if self.geometry is None:
            return self.members
        names = {self.geometry.members[slot] for slot in judged_members(self.geometry)}
        return tuple(member for member in self.members if member.name in names)

    @property
    def bitmaps(self) -> Spread:
        """All writes of the bitmaps: data, mirrors and parity. LAY001 judges this spread."""
        return Spread(tuple(member.bitmap_writes for member in self.judged), self.attainable)

    @property
    def goes_beyond_stripe(self) -> bool:
        """Whether other parts of the volume are on disks that are not members of the stripe."""
        return self.geometry is not None and len(self.members) > len(self.geometry.members)

    @property
    def bitmap_data(self) -> Spread:
        """The bitmaps without parity, which is how they are read."""
        return Spread(tuple(member.bitmaps for member in self.members))

    @property
    def inode_tables(self) -> Spread:
        """The starts of the inode tables."""
        return Spread(tuple(member.inode_tables for member in self.members))

    @property
    def descriptors(self) -> Spread:
        """The primary group descriptor table, each block weighted by the groups it describes."""
        return Spread(tuple(member.described_groups for member in self.members))

    @property
    def touches(self) -> Spread:
        """The blocks written when each group changes by itself (see `MemberLoad.touches`)."""
        return Spread(tuple(member.touches for member in self.members))

    @property
    def churn(self) -> Spread:
        """The modelled load of small-file churn, in thousandths of a write."""
        loads = (member.churn(self.descriptor_writes) for member in self.members)
        return Spread(tuple(round(1000 * load) for load in loads))

    @property
    def skew(self) -> float:
        """The busiest member's bitmaps divided by the mean: 1.0 is even."""
        return self.bitmaps.skew

    @property
    def effective_members(self) -> float:
        """N_eff of the bitmaps: how many members effectively hold them."""
        return self.bitmaps.effective_members

    @property
    def evenness(self) -> float:
        """Jain's index of the bitmaps, N_eff / N: 1.0 is even, 1/N is all on one member."""
        return self.bitmaps.evenness


class LayoutPage(NamedTuple):
    """The layout of a filesystem on its members, and the advice for it.

    `target` is the device or image, as dumpe2fs accepts it. `path` is the device or file in which
    mke2fs would create the filesystem at `start_bytes`, None if it cannot; `keeps_size` means that
    the image holds more than the filesystem. `stack` is the source of the members (a sysfs path or
    an option), `origin` the source of the metadata locations. `advice` is None if nothing stripes.
    `mkfs` is the command that recreates it as advised, None if there is nothing to recreate.
    """

    target: str
    path: str | None
    start_bytes: int
    superblock: Superblock
    layout: MetadataLayout
    advice: LayoutAdvice | None
    stack: str
    origin: str
    keeps_size: bool = False
    mkfs: str | None = None

"""The layout of block-group metadata on the member devices of a stripe, and the advice for it."""

from collections.abc import Mapping
from math import gcd
from typing import Literal, NamedTuple, TypeAlias

from ext4audit.evidence import Unknown
from ext4audit.facts.superblock import Superblock

EVEN = 0.95
"""Jain's index from which a layout counts as even. Almost no geometry of N 2-32, chunk 64K-1M,
lies between 0.55 and 0.95."""


class MkfsAdvice(NamedTuple):
    """Options for mke2fs that make the bitmaps even on a stripe, and Jain's index with them.

    `blocks_per_group_option` is the value for -g, which counts clusters with bigalloc.
    `flex_bg_groups` is the one for -G. `is_default` means that mke2fs chooses them without -g.
    `attainable` is the index that members of these sizes allow.
    """

    blocks_per_group_option: int
    flex_bg_groups: int
    evenness: float
    is_default: bool
    attainable: float = 1.0

    @property
    def options(self) -> str:
        """The options of mke2fs: "-g 32744 -G 16".

        Without packing a stride moves the bitmaps: -G 1 -g 32760 on 4 disks with chunks of 32 KiB
        served 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
        """
        stride = " -E stride=0" if self.flex_bg_groups == 1 else ""
        return f"-g {self.blocks_per_group_option} -G {self.flex_bg_groups}{stride}"


class Growth(NamedTuple):
    """A number of members that makes the present bitmaps even, and Jain's index with it."""

    members: int
    evenness: float


class LayoutAdvice(NamedTuple):
    """The whole advice for an existing filesystem, as sentences to print.

    `sentence` states how many members serve it, `curable` what -g cures and `incurable` what it
    does not. `in_place` and `recreate` are the two remedies, None where there is none. `no_help`
    lists common attempts that change nothing, `mitigations` what makes hot writes fewer without
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
"""How the places of the metadata are known: read off the group descriptors, computed from the
filesystem's parameters, or read off a filesystem that mke2fs made in a simulation."""


class StripeGeometry(NamedTuple):
    """A stripe: its members in slot order, and how a byte of the top device finds one.

    `offset_bytes` is where the filesystem starts on the striped device (partitions, LVM).
    `device` names the striped device ("md127"). `layout` is md's number for the order of copies
    or parity (`md/layout`), None where the level has none or it is not set. `components` are the
    devices that the stripe itself has, empty where they are the members: a stripe over two mirrors
    has four members. `member_bytes` is how much the stripe uses of each device that it has, empty
    where that is the same of all: beyond the smallest, it goes on over the others.
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
        """Whether members have different sizes, so that not all of them reach to the end."""
        return bool(self.member_bytes)

    @property
    def columns(self) -> int:
        """The number of devices that the chunks of a stripe take turns on, parity included."""
        return len(self.components or self.members)

    @property
    def data_columns(self) -> int:
        """The devices that hold data in each stripe, without copies and parity (mke2fs(8)).

        Where the copies of a RAID10 do not fill a stripe, each device holds data of its own; md
        offers the optimal I/O size by it (raid10.c: raid10_set_io_opt).
        """
        if self.level == "raid10":
            copies = NEAR_COPIES if self.layout is None else self.layout & NEAR_COPIES_MASK
            return self.columns // copies if copies and self.columns % copies == 0 else self.columns
        return self.columns - PARITY_MEMBERS.get(self.level, 0)

    @property
    def is_described(self) -> bool:
        """Whether the place of each byte follows: not with an empty one, or zones over arrays."""
        below = (each for each in self.components if isinstance(each, StripeGeometry))
        is_whole = all(self.components) and not (self.is_zoned and self.components)
        return is_whole and all(each.is_described for each in below)

    @property
    def run_bytes(self) -> int:
        """The length of the aligned runs of the stripe that lie on the same members."""
        below = (each for each in self.components if isinstance(each, StripeGeometry))
        return gcd(self.chunk_bytes, *(gcd(each.run_bytes, each.offset_bytes) for each in below))


StripeComponent: TypeAlias = StripeGeometry | tuple[str, ...]
"""A device of a stripe: a stripe itself, whose `offset_bytes` is where the upper one begins on it,
or the members that each hold all of it. It is empty for a device that is neither."""

PARITY_MEMBERS = {"raid4": 1, "raid5": 1, "raid6": 2}
"""How many members' worth of parity each level has."""
REDUNDANT_LEVELS = frozenset({"raid1", "raid10", *PARITY_MEMBERS})
"""The levels of md that survive the loss of a member."""
NEAR_COPIES = 2
"""Of md's default RAID10 layout, near=2 (md(4))."""
NEAR_COPIES_MASK = 0xFF
"""The bits of md's number of a RAID10 layout with the near copies."""


_FIXED_PARITY: Mapping[tuple[str, int | None], tuple[int, ...]] = {
    ("raid4", None): (-1,),
    ("raid5", 4): (0,),
    ("raid5", 5): (-1,),
    ("raid6", 5): (-2, -1),
    **{("raid6", layout): (-1,) for layout in range(16, 20)},
    ("raid6", 20): (0, -1),
}
"""The devices of a stripe that hold nothing but parity, by md's numbers of layouts; LVM makes such
of a stripe (raid5_n, raid6_n_6). The one of RAID4 is always the last (drivers/md/raid5.c, 6.1)."""


def judged_members(geometry: StripeGeometry) -> tuple[int, ...]:
    """Return the slots of the members that a layout can spread metadata over.

    A device with nothing but parity may be a mirror or an array, and have several members.
    """
    below = geometry.components or tuple((name,) for name in geometry.members)
    names = [each.members if isinstance(each, StripeGeometry) else each for each in below]
    layout = None if geometry.level == "raid4" else geometry.layout
    fixed = _FIXED_PARITY.get((geometry.level, layout), ())
    parity = {name for index in fixed for name in names[index]}
    return tuple(slot for slot, name in enumerate(geometry.members) if name not in parity)


class Spread(NamedTuple):
    """How evenly something is spread over the member devices: its amount on each, by slot.

    `attainable` is the evenness of amounts in proportion to the sizes of the members: below 1
    only where those differ.
    """

    loads: tuple[int, ...]
    attainable: float = 1.0

    @property
    def skew(self) -> float:
        """The busiest member's load over the mean of all members: 1.0 is even."""
        total = sum(self.loads)
        return max(self.loads) * len(self.loads) / total if total else 1.0

    @property
    def effective_members(self) -> float:
        """N_eff = (Σx)²/Σx²: how many members are effectively in use."""
        squares = sum(load * load for load in self.loads)
        return sum(self.loads) ** 2 / squares if squares else float(len(self.loads))

    @property
    def evenness(self) -> float:
        """Jain's index, N_eff over N: 1.0 is even, 1/N is all on one member."""
        return self.effective_members / len(self.loads)

    @property
    def achieved(self) -> float:
        """The evenness as a share of the attainable one; above 1 where small members get more."""
        return self.evenness / self.attainable

    @property
    def hottest_share(self) -> float:
        """The busiest member's share of all: 1/N is even, 1.0 is all on one member."""
        return self.skew / len(self.loads)


class MemberLoad(NamedTuple):
    """The metadata on one member device; a mirrored block counts on each of its copies.

    `inode_tables` counts the tables that start here. `descriptor_blocks` are blocks of the
    primary group descriptor table, `described_groups` the groups that they describe.
    `bitmap_parity` are the parity blocks that are written when the bitmaps are, and
    `touch_parity` the same for all that `touches` counts; `descriptor_parity` is the part of it
    that belongs to `described_groups`.
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
        """The blocks written here when one file is made in each group.

        They are the group's block bitmap, its inode bitmap, the first block of its inode table
        and the block of its descriptor. With these four at equal weight, the predicted shares
        of ten real md arrays under churn of small files were right within 6 percentage points.
        """
        return self.bitmaps + self.inode_tables + self.described_groups + self.touch_parity

    def churn(self, descriptor_writes: float) -> float:
        """Return the writes here where a descriptor block is not written for each change."""
        described = self.described_groups + self.descriptor_parity
        return self.touches - described + descriptor_writes * described


class MetadataLayout(NamedTuple):
    """The metadata of one filesystem, counted per member device of its stack.

    `geometry` is the stripe, None where nothing stripes (one disk, a mirror, a concatenation).
    `basis` is how the places are known. `doubts` are the unknowns that make them only likely:
    a stripe that was guessed from I/O sizes, a group table that was predicted. `descriptor_writes`
    are the writes of descriptor blocks for each group that changes (`layout/bitmap_placement.py`).
    `attainable` is the evenness of bitmaps in proportion to the sizes of the members.
    `device_bytes` is what mke2fs has for a new filesystem, None where that is as much as for this
    one: the device, of which mke2fs leaves out a last group that is too small.
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

        Only members of the stripe count: not a disk that holds another part of a volume, nor the
        parity disk of a RAID4. No layout changes what these get.
        """
        if self.geometry is None:
            return self.members
        names = {self.geometry.members[slot] for slot in judged_members(self.geometry)}
        return tuple(member for member in self.members if member.name in names)

    @property
    def bitmaps(self) -> Spread:
        """All writes of the bitmaps: data, mirrors and parity. This is what LAY001 judges."""
        return Spread(tuple(member.bitmap_writes for member in self.judged), self.attainable)

    @property
    def goes_beyond_stripe(self) -> bool:
        """Whether other parts of the volume lie on disks that are no members of the stripe."""
        return self.geometry is not None and len(self.members) > len(self.geometry.members)

    @property
    def bitmap_data(self) -> Spread:
        """The bitmaps without parity: where they are read from."""
        return Spread(tuple(member.bitmaps for member in self.members))

    @property
    def inode_tables(self) -> Spread:
        """The starts of the inode tables."""
        return Spread(tuple(member.inode_tables for member in self.members))

    @property
    def descriptors(self) -> Spread:
        """The primary group descriptor table, each block by the groups that it describes."""
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
        """The busiest member's bitmaps over the mean of all members: 1.0 is even."""
        return self.bitmaps.skew

    @property
    def effective_members(self) -> float:
        """N_eff of the bitmaps: how many members effectively hold them."""
        return self.bitmaps.effective_members

    @property
    def evenness(self) -> float:
        """Jain's index of the bitmaps, N_eff over N: 1.0 is even, 1/N is all on one member."""
        return self.bitmaps.evenness


class LayoutPage(NamedTuple):
    """The layout of a filesystem on its members, and the advice for it.

    `target` is the device or the image, as dumpe2fs takes it. `path` is the device or file in which
    mke2fs would make the filesystem, from `start_bytes` on, None where it cannot; it `keeps_size`
    where an image has more. `stack` is where the members are known from (a sysfs path, or an
    option), `origin` where the places of the metadata were read. `advice` is None where nothing
    stripes. `mkfs` is the command that recreates it as advised, None where there is nothing to
    recreate.
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

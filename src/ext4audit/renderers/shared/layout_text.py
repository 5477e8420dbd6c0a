"""Text and bars for a metadata layout: the stripe, the block groups, and the load of each member.

`ext4audit layout` and the HTML report show the same figures.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.facts.layout import LayoutPage, MemberLoad, MetadataLayout
from ext4audit.renderers.shared import binary_size, counted

MOST_ROWS = 32
"""With more members, the rest is folded: the busiest of 60 disks show the imbalance."""
_BUSIEST_ROWS = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"
"""Left blocks of the Unicode range Block Elements (U+2588 to U+258F), by eighths filled."""
_PARTS = 8


def stripe_text(page: LayoutPage) -> str:
    """Return the stripe below the filesystem: "raid0 of 12 members, 512 KiB chunk (…)"."""
    geometry = page.layout.geometry
    if geometry is None:
        return f"{counted(len(page.layout.members), 'member')}, no stripe"
    chunk = binary_size(geometry.chunk_bytes)
    start = geometry.offset_bytes
    begins = f", begins {binary_size(start)} into it" if start else ""
    members = counted(len(geometry.members), "member")
    return f"{geometry.level} of {members}, {chunk} chunk{begins} ({page.stack})"


def groups_text(layout: MetadataLayout) -> str:
    """Return the block groups and the flex_bg size in one line."""
    return (
        f"{counted(layout.groups, 'block group')} of {layout.blocks_per_group} blocks of "
        f"{layout.block_bytes} bytes, flex_bg size {layout.flex_bg_groups}"
    )


def basis_text(page: LayoutPage) -> str:
    """Return how the locations of the metadata are known, and their source."""
    if page.layout.basis == "descriptors":
        return f"read from: {page.origin}"
    return f"{page.layout.basis}: {page.origin}"


def spread_text(layout: MetadataLayout) -> str:
    """Return figures for how evenly bitmaps and small-file churn are spread over the members."""
    bitmaps, churn = layout.bitmaps, layout.churn
    most = f" (at most {bitmaps.attainable:.2f} for disks of these sizes)"
    limit = most if bitmaps.attainable < 1 else ""
    return (
        f"Bitmaps: N_eff {bitmaps.effective_members:.2f} of {len(bitmaps.loads)}, evenness "
        f"{bitmaps.evenness:.2f}{limit}, busiest {bitmaps.skew:.2f} times the mean. "
        f"Churn of small files, modelled: the busiest member gets {churn.hottest_share:.0%} of the "
        f"metadata writes, {1 / len(churn.loads):.0%} would be even."
    )


class MemberRows(NamedTuple):
    """Members that have a row each, in slot order, and a sentence about the others."""

    shown: tuple[MemberLoad, ...]
    folded: str


def member_rows(members: Sequence[MemberLoad]) -> MemberRows:
    """Return a row for every member if there are up to 32, else for the 16 most touched."""
    if len(members) <= MOST_ROWS:
        return MemberRows(tuple(members), "")
    by_load = sorted(range(len(members)), key=lambda slot: (-members[slot].touches, slot))
    busiest = sorted(by_load[:_BUSIEST_ROWS])
    rest = [members[slot].bitmap_writes for slot in by_load[_BUSIEST_ROWS:]]
    least, most = min(rest), max(rest)
    each = f"{least} bitmaps each" if least == most else f"{least} to {most} bitmaps each"
    return MemberRows(tuple(members[slot] for slot in busiest), f"and {len(rest)} more with {each}")


class TouchParts(NamedTuple):
    """The touches of a member by kind of metadata; parity counts with the bitmaps."""

    bitmaps: int
    tables: int
    descriptors: int


def touch_parts(member: MemberLoad) -> TouchParts:
    """Return the touches of a member by kind of metadata."""
    tables, described = member.inode_tables, member.described_groups
    return TouchParts(member.touches - tables - described, tables, described)


def bar(value: float, largest: float, columns: int, *, ascii_only: bool) -> str:
    """Return a bar of at most `columns` columns, proportional to `value` / `largest`.

    A value above zero gets at least the smallest mark: a member with one bitmap is not idle.
    With `ascii_only` the bar consists of whole columns of `#`.
    """
    if value <= 0 or largest <= 0:
        return ""
    share = min(value / largest, 1.0)
    if ascii_only:
        return "#" * max(round(share * columns), 1)
    eighths = max(round(share * columns * _PARTS), 1)
    whole, rest = divmod(eighths, _PARTS)
    return _EIGHTHS[_PARTS] * whole + (_EIGHTHS[rest] if rest else "")

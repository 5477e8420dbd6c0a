"""Where block-group metadata lies on the member devices of a stripe."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StripeGeometry:
    """A stripe: its members in slot order, and how a byte of the top device finds one.

    `offset_bytes` is where the filesystem starts on the striped device (partitions, LVM).
    `device` names the striped device ("md127"). `layout` is md's number for the order of copies
    or parity (`md/layout`), None where the level has none or it is not set.
    """

    device: str
    level: str
    chunk_bytes: int
    offset_bytes: int
    members: tuple[str, ...]
    layout: int | None = None


@dataclass(frozen=True, slots=True)
class MemberLoad:
    """How many block bitmaps, inode bitmaps and inode tables start on one member device."""

    name: str
    block_bitmaps: int
    inode_bitmaps: int
    inode_tables: int

    @property
    def bitmaps(self) -> int:
        """Block and inode bitmaps together: the blocks that every allocation writes."""
        return self.block_bitmaps + self.inode_bitmaps


@dataclass(frozen=True, slots=True)
class MetadataLayout:
    """The metadata of one real filesystem, counted per member device of its stripe."""

    geometry: StripeGeometry
    block_bytes: int
    blocks_per_group: int
    groups: int
    flex_bg_groups: int
    size_blocks: int
    cluster_blocks: int
    members: tuple[MemberLoad, ...]

    @property
    def skew(self) -> float:
        """The busiest member's bitmaps over the mean of all members: 1.0 is even."""
        loads = [member.bitmaps for member in self.members]
        return max(loads) * len(loads) / sum(loads)

    @property
    def effective_members(self) -> float:
        """N_eff = (Σx)²/Σx²: how many members' worth of bitmaps are really in use."""
        loads = [member.bitmaps for member in self.members]
        return sum(loads) ** 2 / sum(load * load for load in loads)

    @property
    def evenness(self) -> float:
        """Jain's index, N_eff over N: 1.0 is even, 1/N is all on one member."""
        return self.effective_members / len(self.members)

"""The ext4 superblock, with dumpe2fs's names and the unit in each name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Superblock:
    """What a superblock says. A field is None where the reader that was used cannot see it.

    `default_mount_options` are the words of the bit field (`Default mount options:` of
    dumpe2fs); `mount_option_string` is the separate s_mount_opts (`Mount options:`).
    `errors` is continue, remount-ro or panic. `stride_blocks` is RAID stride and
    `stripe_width_blocks` RAID stripe width, 0 when not set. `size_blocks` counts blocks.
    """

    default_mount_options: tuple[str, ...]
    mount_option_string: str
    features: frozenset[str]
    errors: str
    stride_blocks: int
    stripe_width_blocks: int
    size_blocks: int
    uuid: str | None = None
    label: str | None = None
    block_bytes: int | None = None
    first_block: int | None = None
    blocks_per_group: int | None = None
    inodes_per_group: int | None = None
    inode_bytes: int | None = None
    inode_count: int | None = None
    flex_bg_groups: int | None = None
    cluster_blocks: int | None = None
    journal_bytes: int | None = None
    state: str | None = None
    last_mounted_on: str | None = None

    @property
    def has_journal(self) -> bool:
        """Whether the has_journal feature is set (the journal may be on another device)."""
        return "has_journal" in self.features

    @property
    def groups(self) -> int | None:
        """The number of block groups."""
        if self.blocks_per_group is None or self.first_block is None:
            return None
        return -(-(self.size_blocks - self.first_block) // self.blocks_per_group)

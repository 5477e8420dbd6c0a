"""The ext4 superblock, with dumpe2fs's names and the unit in each name."""

from __future__ import annotations

from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class RecordedError:
    """An error that the kernel found and recorded (s_first_error_*, s_last_error_*).

    `function` and `line` are of the kernel's source; `inode` and `block` are 0 where the error
    was about none. `at` is a time as in `Superblock`.
    """

    at: int | None
    function: str
    line: int
    inode: int
    block: int


@dataclass(frozen=True, slots=True)
class Superblock:
    """What a superblock says. A field is None where the reader that was used cannot see it.

    `default_mount_options` are the words of the bit field (`Default mount options:` of
    dumpe2fs); `mount_option_string` is the separate s_mount_opts (`Mount options:`).
    `errors` is continue, remount-ro or panic. `stride_blocks` is RAID stride and
    `stripe_width_blocks` RAID stripe width, 0 when not set. `size_blocks` counts blocks.

    Times (`..._at`) are seconds since 1970, None for never. dumpe2fs prints them in the time
    zone of its host and does not name it: read from its text they are right where that was UTC,
    and up to 14 hours off elsewhere.

    `backup_bgs` are the groups of the backups that sparse_super2 has, at most two.
    `max_mount_count` is -1 or 0 where mounts force no check, `check_interval_seconds` 0 where no
    time does. `kbytes_written` and `journal_bytes` are rounded where dumpe2fs rounds them.
    `hash_version`, `creator_os`, `state` and `flags` are dumpe2fs's words.
    `journal_first_block` is where the journal begins, as the superblock's copy of its inode says.
    Fields: Documentation/filesystems/ext4/super.rst.
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
    descriptor_bytes: int | None = None
    reserved_gdt_blocks: int | None = None
    first_meta_bg: int | None = None
    backup_bgs: tuple[int, ...] | None = None
    reserved_blocks: int | None = None
    free_blocks: int | None = None
    free_inodes: int | None = None
    first_inode: int | None = None
    revision: int | None = None
    creator_os: str | None = None
    flags: tuple[str, ...] | None = None
    hash_version: str | None = None
    mount_count: int | None = None
    max_mount_count: int | None = None
    check_interval_seconds: int | None = None
    created_at: int | None = None
    last_mounted_at: int | None = None
    last_written_at: int | None = None
    last_checked_at: int | None = None
    kbytes_written: int | None = None
    journal_inode: int | None = None
    journal_device: int | None = None
    journal_uuid: str | None = None
    error_count: int | None = None
    first_error: RecordedError | None = None
    last_error: RecordedError | None = None
    journal_first_block: int | None = None

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

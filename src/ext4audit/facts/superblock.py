"""The ext4 superblock and the group table, and the identifiers by which devices are named.

Fields have the names of dumpe2fs, and the unit in each name.
"""

import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ext4audit.evidence import Evidence, Unknown, Why

EXT3_FEATURES = frozenset(
    "dir_prealloc imagic_inodes has_journal ext_attr resize_inode dir_index filetype "
    "needs_recovery meta_bg sparse_super large_file".split()
)
"""What the ext3 driver could mount (libblkid, ext.c: EXT3_FEATURE_..._SUPP)."""

JOURNAL_SUPERBLOCK_BYTES = 1024
MOST_CLUSTERS_PER_GROUP = 65528
"""16 bits of free-cluster count, a multiple of 8: the cap from blocks of 8 KiB on."""


SETTINGS = tuple(
    "err_ratelimit_burst err_ratelimit_interval_ms extent_max_zeroout_kb inode_goal "
    "mb_best_avail_max_trim_order mb_group_prealloc mb_max_inode_prealloc mb_max_linear_groups "
    "mb_max_to_scan mb_min_to_scan mb_order2_req mb_prefetch mb_prefetch_limit mb_stats "
    "mb_stream_req msg_ratelimit_burst msg_ratelimit_interval_ms reserved_clusters sb_update_kb "
    "sb_update_sec warning_ratelimit_burst warning_ratelimit_interval_ms".split()
)
"""What can be set in /sys/fs/ext4/<device> and is no mount option."""


class RecordedError(NamedTuple):
    """An error that the kernel found and recorded (s_first_error_*, s_last_error_*).

    `function` and `line` are of the kernel's source; `inode` and `block` are 0 where the error
    was about none. `at` is a time as in `Superblock`.
    """

    at: int | None
    function: str
    line: int
    inode: int
    block: int


class Sizes(NamedTuple):
    """The sizes of a filesystem, which decide where its metadata lies: none is unknown.

    `Superblock.sizes` gives them. `flex_bg_groups` is 1 without flex_bg, `cluster_blocks` 1
    without bigalloc, and `reserved_gdt_blocks` 0 without resize_inode.
    """

    features: frozenset[str]
    size_blocks: int
    block_bytes: int
    first_block: int
    blocks_per_group: int
    inodes_per_group: int
    inode_bytes: int
    inode_count: int
    flex_bg_groups: int
    cluster_blocks: int
    descriptor_bytes: int
    reserved_gdt_blocks: int
    first_meta_bg: int
    backup_bgs: tuple[int, ...]
    stride_blocks: int

    @property
    def groups(self) -> int:
        """The number of block groups."""
        return -(-(self.size_blocks - self.first_block) // self.blocks_per_group)

    @property
    def size_bytes(self) -> int:
        """The size of the filesystem."""
        return self.size_blocks * self.block_bytes

    @property
    def exist(self) -> bool:
        """Whether a filesystem can have them: it has a group, with blocks and inodes."""
        blocks = (self.block_bytes, self.blocks_per_group, self.flex_bg_groups, self.cluster_blocks)
        inodes = (self.inode_bytes, self.inodes_per_group, self.inode_count)
        return min(*blocks, *inodes, self.descriptor_bytes) > 0 and self.groups > 0


class Superblock(NamedTuple):
    """The fields of a superblock. A field is None where the reader that was used cannot see it.

    `default_mount_options` are the names of the bit field (`Default mount options:` of
    dumpe2fs); `mount_option_string` is the separate s_mount_opts (`Mount options:`).
    `errors` is continue, remount-ro or panic. `stride_blocks` is RAID stride and
    `stripe_width_blocks` RAID stripe width, 0 when not set. `size_blocks` counts blocks.

    Times (`..._at`) are seconds since 1970, None for never. dumpe2fs prints them in the time
    zone of its host and does not name it: read from its text they are right where that was UTC,
    and up to 14 hours off elsewhere.

    `backup_bgs` are the groups of the backups that sparse_super2 has, at most two.
    `max_mount_count` is -1 or 0 where mounts force no check, `check_interval_seconds` 0 where no
    time does. `journal_bytes` is rounded where dumpe2fs rounds it, and `state` as it prints it.
    `journal_first_block` is where the journal begins, by the superblock's copy of its inode;
    `journal_index_block` the block with the extents of a journal of more than four.
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
    descriptor_bytes: int | None = None
    reserved_gdt_blocks: int | None = None
    first_meta_bg: int | None = None
    backup_bgs: tuple[int, ...] | None = None
    reserved_blocks: int | None = None
    free_blocks: int | None = None
    free_inodes: int | None = None
    revision: int | None = None
    max_mount_count: int | None = None
    check_interval_seconds: int | None = None
    last_mounted_at: int | None = None
    last_checked_at: int | None = None
    journal_inode: int | None = None
    journal_device: int | None = None
    journal_uuid: str | None = None
    error_count: int | None = None
    first_error: RecordedError | None = None
    last_error: RecordedError | None = None
    journal_first_block: int | None = None
    journal_index_block: int | None = None
    reserved_uid: int | None = None
    reserved_gid: int | None = None

    @property
    def has_journal(self) -> bool:
        """Whether the has_journal feature is set (the journal may be on another device)."""
        return "has_journal" in self.features

    @property
    def is_journal(self) -> bool:
        """Whether it is the superblock of an external journal, and of no filesystem."""
        return "journal_dev" in self.features

    @property
    def inode_of_journal(self) -> int | None:
        """The number of the inode that holds the journal, None where none does."""
        return self.journal_inode if self.has_journal else None

    @property
    def external_journal(self) -> int | None:
        """The encoded number of the device with the journal, None where it lies inside."""
        inside = self.journal_inode or self.journal_bytes
        return self.journal_device if self.has_journal and not inside else None

    @property
    def journal_at_bytes(self) -> int | None:
        """Where the journal begins on its device, None where that is not known."""
        first, block_bytes = self.journal_first_block, self.block_bytes
        return None if first is None or block_bytes is None else first * block_bytes

    @property
    def fstype(self) -> str:
        """The type by its features, as blkid(8) names it: ext4, or ext3 and ext2 by the journal."""
        if self.features - EXT3_FEATURES:
            return "ext4"
        return "ext3" if self.has_journal else "ext2"

    @property
    def sizes(self) -> Sizes | None:
        """The sizes; None where the reader sees none (the ioctl), or no filesystem has them."""
        fields = [getattr(self, name) for name in Sizes._fields]
        sizes = None if None in fields else Sizes(*fields)
        return sizes if sizes and sizes.exist else None

    @property
    def size_bytes(self) -> int | None:
        """The size of the filesystem."""
        return self.block_bytes and self.size_blocks * self.block_bytes

    @property
    def groups(self) -> int | None:
        """The number of block groups."""
        if self.blocks_per_group is None or self.first_block is None:
            return None
        return -(-(self.size_blocks - self.first_block) // self.blocks_per_group)


def sizes_of(superblock: Superblock) -> Sizes:
    """Return the sizes of a filesystem; ValueError where they are not known."""
    sizes = superblock.sizes
    if sizes is None:
        raise ValueError("the superblock's sizes are not known")
    return sizes


class PrimarySuperblock(NamedTuple):
    """The primary superblock as it is on the device, where the next mount looks for it.

    `damage` is why no kernel mounts it, empty where it is whole. `failed` is why dumpe2fs could
    not read it although its bytes can be. `kernel` is what the kernel still answers of a damaged
    one, None where there is no damage.
    """

    damage: str = ""
    failed: Unknown | None = None
    kernel: Evidence[Superblock] | None = None


class GroupTable(NamedTuple):
    """All block groups, in order: three columns of block numbers, one entry a group.

    `inode_tables` are where the tables start. With flex_bg none of the three needs to lie inside
    the group itself (struct ext4_group_desc).
    Columns, because 64 TiB have 524,288 groups: an object for each would take ten times the
    memory of the descriptors themselves.
    """

    block_bitmaps: Sequence[int]
    inode_bitmaps: Sequence[int]
    inode_tables: Sequence[int]

    @property
    def groups(self) -> int:
        """The number of block groups."""
        return len(self.block_bitmaps)

    @classmethod
    def joined(cls, tables: "Sequence[GroupTable]") -> "GroupTable":
        """Return one table of the groups of several, in order."""
        if len(tables) == 1:
            return tables[0]
        columns = (array("Q"), array("Q"), array("Q"))
        for table in tables:
            for column, more in zip(columns, table, strict=True):
                column.extend(more)
        return cls(*columns)

    def first(self, groups: int) -> "GroupTable":
        """Return the table of the first groups only: those that a filesystem had before it grew.

        Growth adds groups at the end and moves none (fs/ext4/resize.c).
        """
        if groups >= self.groups:
            return self
        return GroupTable(*(column[:groups] for column in self))

    def checked(self, groups: int, first_block: int, size_blocks: int) -> "GroupTable":
        """Return the table itself; ValueError unless it fits a filesystem of these sizes.

        A descriptor of zeros is missing data, not metadata in block 0: the first block is the
        superblock's.
        """
        for column in self:
            if len(column) != groups:
                raise ValueError(f"{len(column)} group descriptors of {groups} are seen")
            if not first_block < min(column, default=0) <= max(column) < size_blocks:
                raise ValueError(f"metadata of a group lies outside of {size_blocks} blocks")
        return self


LINKS = "/dev/disk/by-"
"""Where udev makes links to devices by what identifies them."""
NO_LINKS = Unknown(
    f"links {LINKS}*", Why.UNSUPPORTED, "without udev there are none", "run where udev runs"
)
SUPERBLOCK_KEYS = ("UUID", "LABEL")
"""The identifiers that a superblock stores; partition tables store the others."""
_LINKED = re.compile(rf"{LINKS}(uuid|label|partuuid|partlabel)/(.+)")


_QUOTED = re.compile(r"""(["'])(?P<value>.*)\1.*""", re.DOTALL)


def split_spec(spec: str) -> tuple[str, str] | None:
    """Return the key and value of an identifier such as `UUID=…`, None for a path.

    A value in quotes of either kind ends at the last one, as in blkid_parse_tag_string() of
    libblkid 2.38.1 (by test).
    """
    key, equals, value = spec.partition("=")
    quoted = _QUOTED.fullmatch(value)
    return (key, quoted["value"] if quoted else value) if equals and "/" not in key else None


def split_link(path: str) -> tuple[str, str] | None:
    r"""Return the key and value of a link by what a device stores, None for any other path.

    udev writes what no name of a link may hold as `\x20`.
    """
    found = _LINKED.fullmatch(path)
    if found is None:
        return None
    return found[1].upper(), re.sub(r"\\x([0-9a-f]{2})", lambda c: chr(int(c[1], 16)), found[2])


def comparable(key: str, value: str) -> tuple[str, str]:
    """Return an identifier as it compares with others of its key; only UUIDs ignore case.

    mount(8) of util-linux compares UUIDs as text, that of busybox does not.
    """
    return key, value.lower() if key in {"UUID", "PARTUUID"} else value

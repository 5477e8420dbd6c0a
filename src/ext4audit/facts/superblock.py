"""The ext4 superblock, the group descriptor table, and identifiers of devices such as UUIDs.

Fields have the names that dumpe2fs prints, with the unit as a suffix.
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
"""The features that the ext3 driver supported (libblkid, ext.c: EXT3_FEATURE_..._SUPP)."""

JOURNAL_SUPERBLOCK_BYTES = 1024
MOST_CLUSTERS_PER_GROUP = 65528
"""The largest multiple of 8 for the 16-bit free-cluster count: the cap from 8 KiB blocks on."""


SETTINGS = tuple(
    "err_ratelimit_burst err_ratelimit_interval_ms extent_max_zeroout_kb inode_goal "
    "mb_best_avail_max_trim_order mb_group_prealloc mb_max_inode_prealloc mb_max_linear_groups "
    "mb_max_to_scan mb_min_to_scan mb_order2_req mb_prefetch mb_prefetch_limit mb_stats "
    "mb_stream_req msg_ratelimit_burst msg_ratelimit_interval_ms reserved_clusters sb_update_kb "
    "sb_update_sec warning_ratelimit_burst warning_ratelimit_interval_ms".split()
)
"""The settings in /sys/fs/ext4/<device> that are not mount options."""


class RecordedError(NamedTuple):
    """An error that the kernel recorded in the superblock (s_first_error_*, s_last_error_*).

    `function` and `line` are those of the kernel's source; `inode` and `block` are 0 if the error
    is not about one. `at` is a time as in `Superblock`.
    """

    at: int | None
    function: str
    line: int
    inode: int
    block: int


class Sizes(NamedTuple):
    """The sizes of a filesystem that decide where its metadata is; all of them are known.

    `Superblock.sizes` returns them. `flex_bg_groups` is 1 without flex_bg, `cluster_blocks` 1
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
        """The size of the filesystem in bytes."""
        return self.size_blocks * self.block_bytes

    @property
    def exist(self) -> bool:
        """Whether a filesystem can have these sizes: it has groups with blocks and inodes."""
        blocks = (self.block_bytes, self.blocks_per_group, self.flex_bg_groups, self.cluster_blocks)
        inodes = (self.inode_bytes, self.inodes_per_group, self.inode_count)
        return min(*blocks, *inodes, self.descriptor_bytes) > 0 and self.groups > 0


ERROR_MARK = "with errors"
"""What e2fsprogs appends to the state of a superblock with recorded errors."""


class Superblock(NamedTuple):
    """The fields of a superblock. A field is None if the reader that was used cannot see it.

    `default_mount_options` are the names of the bit field (`Default mount options:` of
    dumpe2fs); `mount_option_string` is the separate s_mount_opts (`Mount options:`).
    `errors` is continue, remount-ro or panic. `stride_blocks` is RAID stride and
    `stripe_width_blocks` RAID stripe width, 0 when not set. `size_blocks` counts blocks.

    Times (`..._at`) are seconds since 1970, None for never. dumpe2fs prints them in the time
    zone of its host without naming it: times parsed from its output are correct if that zone was
    UTC, and otherwise up to 14 hours off.

    `backup_bgs` are the groups with the backups of sparse_super2, at most two.
    `max_mount_count` is -1 or 0 if no number of mounts forces a check, `check_interval_seconds` 0
    if no time does. `journal_bytes` is rounded as in dumpe2fs, and `state` is as it prints it.
    `journal_first_block` is the first block of the journal, by the superblock's copy of its inode;
    `journal_index_block` is the block with the extents of a journal that has more than four.
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
        """Whether it is the superblock of an external journal and not of a filesystem."""
        return "journal_dev" in self.features

    @property
    def inode_of_journal(self) -> int | None:
        """The inode number of the journal, None if there is no journal inode."""
        return self.journal_inode if self.has_journal else None

    @property
    def external_journal(self) -> int | None:
        """The encoded device number of an external journal, None without an external journal."""
        inside = self.journal_inode or self.journal_bytes
        return self.journal_device if self.has_journal and not inside else None

    @property
    def journal_at_bytes(self) -> int | None:
        """The byte of the device at which the journal begins, None if unknown."""
        first, block_bytes = self.journal_first_block, self.block_bytes
        return None if first is None or block_bytes is None else first * block_bytes

    @property
    def fstype(self) -> str:
        """The type that blkid(8) derives from the features: ext4, ext3 or ext2."""
        if self.features - EXT3_FEATURES:
            return "ext4"
        return "ext3" if self.has_journal else "ext2"

    @property
    def sizes(self) -> Sizes | None:
        """The sizes; None if the reader cannot see them (the ioctl) or they are not possible."""
        fields = [getattr(self, name) for name in Sizes._fields]
        sizes = None if None in fields else Sizes(*fields)
        return sizes if sizes and sizes.exist else None

    @property
    def size_bytes(self) -> int | None:
        """The size of the filesystem in bytes, None if unknown."""
        return self.block_bytes and self.size_blocks * self.block_bytes

    @property
    def is_marked(self) -> bool:
        """Whether the state is known and records errors."""
        return ERROR_MARK in (self.state or "")

    @property
    def groups(self) -> int | None:
        """The number of block groups, None if unknown."""
        if self.blocks_per_group is None or self.first_block is None:
            return None
        return -(-(self.size_blocks - self.first_block) // self.blocks_per_group)


def sizes_of(superblock: Superblock) -> Sizes:
    """Return the sizes of a filesystem; raises ValueError if they are not known."""
    sizes = superblock.sizes
    if sizes is None:
        raise ValueError("the superblock's sizes are not known")
    return sizes


class PrimarySuperblock(NamedTuple):
    """The primary superblock as it is on the device, where the next mount reads it.

    `damage` is why no kernel can mount it, empty if it is intact. `failed` is why dumpe2fs could
    not read it although its bytes are readable. `kernel` is the superblock that the kernel still
    reports for a damaged one, None if there is no damage. `is_printed` is whether dumpe2fs prints
    it, with a journal size that it lacks itself.
    """

    damage: str = ""
    failed: Unknown | None = None
    kernel: Evidence[Superblock] | None = None
    is_printed: bool = False


class GroupTable(NamedTuple):
    """All block groups, in order: three columns of block numbers, one entry per group.

    `inode_tables` are the first blocks of the tables. With flex_bg none of the three needs to be
    in the group itself (struct ext4_group_desc).
    Columns are used because 64 TiB have 524,288 groups: an object for each group would take ten
    times the memory of the descriptors themselves.
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
        """Return one table with the groups of several tables, in order."""
        if len(tables) == 1:
            return tables[0]
        columns = (array("Q"), array("Q"), array("Q"))
        for table in tables:
            for column, more in zip(columns, table, strict=True):
                column.extend(more)
        return cls(*columns)

    def first(self, groups: int) -> "GroupTable":
        """Return the table of the first groups only, as before a resize to a larger size.

        A resize adds groups at the end and does not move others (fs/ext4/resize.c).
        """
        if groups >= self.groups:
            return self
        return GroupTable(*(column[:groups] for column in self))

    def checked(self, groups: int, first_block: int, size_blocks: int) -> "GroupTable":
        """Return the table; raises ValueError unless it fits a filesystem of these sizes.

        A descriptor of zeros is missing data, not metadata in block 0: the first block is the
        superblock's.
        """
        for column in self:
            if len(column) != groups:
                raise ValueError(f"{len(column)} group descriptors of {groups} are seen")
            if not first_block < min(column, default=0) <= max(column) < size_blocks:
                raise ValueError(f"metadata of a group lies outside of {size_blocks} blocks")
        return self


_COMPAT = (
    "dir_prealloc imagic_inodes has_journal ext_attr resize_inode dir_index lazy_bg FEATURE_C7 "
    "snapshot_bitmap sparse_super2 fast_commit stable_inodes orphan_file"
).split()
_INCOMPAT = (
    "compression filetype needs_recovery journal_dev meta_bg FEATURE_I5 extent 64bit mmp flex_bg "
    "ea_inode FEATURE_I11 dirdata metadata_csum_seed large_dir inline_data encrypt casefold"
).split()
_RO_COMPAT = (
    "sparse_super large_file FEATURE_R2 huge_file uninit_bg dir_nlink extra_isize FEATURE_R7 "
    "quota bigalloc metadata_csum replica read-only project shared_blocks verity orphan_present"
).split()
_JOURNAL_MODES = {
    0x20: "journal_data",
    0x40: "journal_data_ordered",
    0x60: "journal_data_writeback",
}
_JOURNAL_MODE_MASK = 0x60
_MOUNT_OPTIONS = {
    **dict(enumerate("debug bsdgroups user_xattr acl uid16".split())),
    **dict(enumerate("nobarrier block_validity discard nodelalloc".split(), start=8)),
}
_ERRORS = {1: "continue", 3: "panic"}
_CLEAN, _WITH_ERRORS = 1, 2


def feature_names(compat: int, incompat: int, ro_compat: int) -> frozenset[str]:
    """Name the features; an unknown bit 12 of the compatible ones is "FEATURE_C12"."""
    kinds = ((compat, _COMPAT, "C"), (incompat, _INCOMPAT, "I"), (ro_compat, _RO_COMPAT, "R"))
    return frozenset(
        names[bit] if bit < len(names) else f"FEATURE_{letter}{bit}"
        for bits, names, letter in kinds
        for bit in _bits(bits)
    )


def mount_option_names(bits: int) -> tuple[str, ...]:
    """Name the default mount options: the journal mode, then bit by bit."""
    mode = bits & _JOURNAL_MODE_MASK
    names = [_JOURNAL_MODES[mode]] if mode else []
    names += [_MOUNT_OPTIONS.get(bit, f"MNTOPT_{bit}") for bit in _bits(bits & ~_JOURNAL_MODE_MASK)]
    return tuple(names)


def spelt_out(word: str) -> str:
    """Name what a dumpe2fs older than the feature prints by its bit: FEATURE_C12, MNTOPT_8."""
    if not word.startswith(("FEATURE_", "MNTOPT_")):
        return word
    found = re.fullmatch(r"(?:FEATURE_([CIR])|MNTOPT_)([12]?[0-9]|3[01])", word)
    if found is None:
        return word
    bit = 1 << int(found[2])
    if found[1] is None:
        return mount_option_names(bit)[0]
    return next(iter(feature_names(*(bit * (letter == found[1]) for letter in "CIR"))))


def errors_behaviour(number: int) -> str:
    """Name the errors behaviour as ext4_fill_super() takes it: any other value is remount-ro."""
    return _ERRORS.get(number, "remount-ro")


def state_text(bits: int) -> str:
    """Name the state: whether it was unmounted cleanly, and whether errors were found."""
    clean = "clean" if bits & _CLEAN else "not clean"
    return f"{clean} {ERROR_MARK}" if bits & _WITH_ERRORS else clean


def _bits(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, lowest first."""
    return [bit for bit in range(32) if bits >> bit & 1]


LINKS = "/dev/disk/by-"
"""The prefix of the directories in which udev links to devices by UUID, label and so on."""
NO_LINKS = Unknown(
    f"links {LINKS}*", Why.UNSUPPORTED, "without udev there are none", "run where udev runs"
)
SUPERBLOCK_KEYS = ("UUID", "LABEL")
"""The identifiers that are in a superblock; the others are in partition tables."""
_LINKED = rf"{LINKS}(uuid|label|partuuid|partlabel)/(.+)"
_QUOTED = r"""(?s)(["'])(?P<value>.*)\1.*"""


def split_spec(spec: str) -> tuple[str, str] | None:
    """Split an identifier such as `UUID=…` into key and value; return None for a path.

    A value in single or double quotes ends at the last quote, as in blkid_parse_tag_string() of
    libblkid 2.38.1 (by test).
    """
    key, equals, value = spec.partition("=")
    quoted = re.fullmatch(_QUOTED, value) if value[:1] in {'"', "'"} else None
    return (key, quoted["value"] if quoted else value) if equals and "/" not in key else None


def split_link(path: str) -> tuple[str, str] | None:
    r"""Split a link such as /dev/disk/by-label/data into key and value; None for other paths.

    udev escapes characters that are not allowed in link names, such as a space as `\x20`.
    """
    found = re.fullmatch(_LINKED, path) if path.startswith(LINKS) else None
    if found is None:
        return None
    return found[1].upper(), re.sub(r"\\x([0-9a-f]{2})", lambda c: chr(int(c[1], 16)), found[2])


def comparable(key: str, value: str) -> tuple[str, str]:
    """Normalize an identifier for comparison: UUIDs are compared without regard to case.

    mount(8) of util-linux compares UUIDs as text, that of busybox does not.
    """
    return key, value.lower() if key in {"UUID", "PARTUUID"} else value

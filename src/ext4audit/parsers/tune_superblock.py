"""EXT4_IOC_GET_TUNE_SB_PARAM: the superblock's tunable fields, answered without root.

struct ext4_tune_sb_params of include/uapi/linux/ext4.h, Linux 6.18. Names of features and
default mount options are dumpe2fs's (lib/e2p/feature.c and mntopts.c of e2fsprogs 1.47.0), so
that both readers of a superblock say the same.
"""

from __future__ import annotations

import struct

from ext4audit.facts.superblock import Superblock

# Native byte order and explicit padding: an ioctl answers in this machine's order, and the
# 232 bytes of 64-bit systems end in 4 bytes that the compiler (later the header) adds.
_PARAMETERS = struct.Struct("=IIHHHHQQQIIIIHHBBHIII24x64s64x4x")
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
    0: "debug",
    1: "bsdgroups",
    2: "user_xattr",
    3: "acl",
    4: "uid16",
    8: "nobarrier",
    9: "block_validity",
    10: "discard",
    11: "nodelalloc",
}
_ERRORS = {1: "continue", 3: "panic"}


def parse_tune_superblock(data: bytes) -> Superblock:
    """Parse the answer of the ioctl; the fields that it does not show stay None.

    ValueError for any other length than 232 bytes, or a filesystem without blocks.
    """
    if len(data) != _PARAMETERS.size:
        raise ValueError(f"{len(data)} bytes instead of {_PARAMETERS.size}")
    fields = _PARAMETERS.unpack(data)
    errors, stride, size_blocks, mount_options = fields[2], fields[5], fields[8], fields[9]
    stripe_width, string = fields[12], fields[21]
    if size_blocks == 0:
        raise ValueError("a filesystem of no blocks")
    return Superblock(
        default_mount_options=_mount_option_words(mount_options),
        mount_option_string=string.partition(b"\0")[0].decode("utf-8", "surrogateescape"),
        features=_features(*fields[18:21]),
        # As ext4_fill_super() reads it: whatever is neither continue nor panic is remount-ro.
        errors=_ERRORS.get(errors, "remount-ro"),
        stride_blocks=stride,
        stripe_width_blocks=stripe_width,
        size_blocks=size_blocks,
    )


def _bits(word: int) -> list[int]:
    """Return the numbers of the bits that are set, lowest first."""
    return [bit for bit in range(32) if word >> bit & 1]


def _features(compat: int, incompat: int, ro_compat: int) -> frozenset[str]:
    """Name the features; an unknown bit 12 of the compatible ones is "FEATURE_C12"."""
    kinds = ((compat, _COMPAT, "C"), (incompat, _INCOMPAT, "I"), (ro_compat, _RO_COMPAT, "R"))
    return frozenset(
        names[bit] if bit < len(names) else f"FEATURE_{letter}{bit}"
        for word, names, letter in kinds
        for bit in _bits(word)
    )


def _mount_option_words(word: int) -> tuple[str, ...]:
    """Name the default mount options as dumpe2fs does: the journal mode, then bit by bit."""
    mode = word & _JOURNAL_MODE_MASK
    words = [_JOURNAL_MODES[mode]] if mode else []
    words += [_MOUNT_OPTIONS.get(bit, f"MNTOPT_{bit}") for bit in _bits(word & ~_JOURNAL_MODE_MASK)]
    return tuple(words)

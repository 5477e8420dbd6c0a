"""EXT4_IOC_GET_TUNE_SB_PARAM: the superblock's tunable fields, answered without root.

struct ext4_tune_sb_params of include/uapi/linux/ext4.h, Linux 6.18.
"""

from __future__ import annotations

import struct

from ext4audit.facts.superblock import Superblock
from ext4audit.parsers.superblock_words import errors_word, feature_words, mount_option_words

# Native byte order and explicit padding: an ioctl answers in this machine's order, and the
# 232 bytes of 64-bit systems end in 4 bytes that the compiler (later the header) adds.
_PARAMETERS = struct.Struct("=IIHHHHQQQIIIIHHBBHIII24x64s64x4x")


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
        default_mount_options=mount_option_words(mount_options),
        mount_option_string=string.partition(b"\0")[0].decode("utf-8", "surrogateescape"),
        features=feature_words(*fields[18:21]),
        errors=errors_word(errors),
        stride_blocks=stride,
        stripe_width_blocks=stripe_width,
        size_blocks=size_blocks,
    )

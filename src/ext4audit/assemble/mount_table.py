"""What a mount table tells of ext4's options, and what its silence proves.

Source: `_ext4_show_options` of fs/ext4/super.c, Linux 3.10 to 7.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ext4audit.facts.option_table import MOUNT_TABLE_LIES_WITHOUT_JOURNAL, OptionSpec, Version
from ext4audit.facts.options import Layer, Setter

PRINTED_UNLESS_COMPILED_DEFAULT = frozenset(
    (
        "commit min_batch_time max_batch_time stripe inode_readahead_blks max_dir_size_kb "
        "resuid resgid"
    ).split()
)
"""Values that are printed whoever set them: the superblock's string and fields included."""

WITHOUT_A_LAYER = frozenset({"resuid", "resgid"})
"""Values that a superblock field sets too, and no reader of superblocks here shows that field."""

DATA_ORDERED = "data=ordered"
DATA_ORDERED_PRINTED_BEFORE: Version = (4, 17)
"""Until then the data mode that the kernel chose by itself is printed like a given one."""

WORDS_OF_A_LIE = frozenset({"block_validity", "user_xattr", "acl"})
"""Defaults that only a lying table prints, as a rule: stable kernels (4.19.222) have the cure."""


def table_lies(
    shown: Mapping[str, str], upstream: Version | None, *, has_journal: bool | None
) -> bool:
    """Whether the table's switches are those of 4.4 to 5.1 without a journal.

    It then prints what is on and drops what is off, as if every default were off: `barrier` is
    no explicit opposite there, and a missing `nobarrier` proves nothing (1e381f60dad9).
    """
    since, before = MOUNT_TABLE_LIES_WITHOUT_JOURNAL
    in_range = upstream is None or since <= upstream < before
    return in_range and not has_journal and not WORDS_OF_A_LIE.isdisjoint(shown.values())


def silent_layer(spec: OptionSpec, layers: Sequence[Layer]) -> Layer | None:
    """Return the layer that is in force where the table does not mention an option.

    A switch and the data mode are printed where they differ from what kernel and superblock set
    together; `errors=` where it differs from the superblock's field; other values where they
    differ from the compiled default: `-o commit=5` over a string `commit=30` prints nothing.
    None where silence proves nothing.
    """
    by_setter = {layer.setter: layer for layer in layers}
    default = by_setter.get(Setter.KERNEL_DEFAULT)
    if spec.name in PRINTED_UNLESS_COMPILED_DEFAULT:
        return default
    if spec.name == "errors":
        return by_setter.get(Setter.SUPERBLOCK_FIELD)
    if spec.name == "data" or (not spec.has_value and (spec.off or spec.defaults)):
        return layers[-1] if layers else None
    if default is None or any(layer.token != default.token for layer in layers):
        return None
    return default


def setter_of_shown(
    spec: OptionSpec | None,
    token: str,
    upstream: Version | None,
    *,
    superblock_read: bool,
    is_default: bool,
) -> Setter:
    """Say who set an option that the table shows and no superblock layer names.

    Not always the mount: data=ordered of the kernel's own choice was printed for years, and a
    value may come from a superblock that could not be read.
    """
    if spec is None or not spec.has_value:
        return Setter.MOUNT
    if spec.name == "data":
        old = upstream is None or upstream < DATA_ORDERED_PRINTED_BEFORE
        if token != DATA_ORDERED or not old:
            return Setter.MOUNT
        return Setter.KERNEL_DEFAULT if is_default else Setter.UNKNOWN
    seen = superblock_read and spec.name not in WITHOUT_A_LAYER
    return Setter.MOUNT if seen else Setter.UNKNOWN

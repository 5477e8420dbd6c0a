"""What mke2fs makes of a plan, as far as it is computed: where metadata lies, and the journal.

On a machine without mke2fs all of it is computed, by the rules of upstream mke2fs 1.47.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.superblock import Superblock, sizes_of
from ext4audit.layout.groups import is_exact, predict_table
from ext4audit.layout.mkfs_parameters import (
    DEFAULT_FEATURES,
    DESCRIPTOR_BYTES,
    MkfsOptions,
    blocks_for_root,
    fast_commit_blocks_of,
    mke2fs_sizes,
    parameters,
    reserved_by_resize,
)

CLOSED_FORM = "closed form of mke2fs's placement"
NO_MKE2FS = "install e2fsprogs"
PACKED = "packed_meta_blocks"
BASE_FEATURES = frozenset(
    "dir_index ext_attr filetype large_file resize_inode sparse_super".split()
)
"""base_features of mke2fs.conf, which ext2 has; ext3 also has a journal."""
MOST_PERCENT = 50
LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES = 1024, 65536
DESCRIPTOR_SIZE = "desc_size"
NEEDED = (("64bit", "extent"), ("bigalloc", "extent"), ("resize_inode", "sparse_super"))
"""A feature, and another without which mke2fs refuses it."""
_NAMES = {"extents": "extent", "uninit_groups": "uninit_bg"}
"""What mke2fs calls some features by as well (lib/e2p/feature.c)."""
_WITH_UNITS = frozenset({"-b", "-C", "-i", "-E resize"})
_BINARY_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
SMALLER = "use a machine with more memory, or a smaller -G"


def without_mke2fs(plan: Plan, unknown: Unknown) -> Prediction:
    """Compute superblock and table by the rules of upstream mke2fs 1.47, with a doubt."""
    usage = plan.mkfs.value("-T")
    if usage is not None:
        detail = f"what -T {usage} means is in mke2fs.conf: {unknown.detail}"
        missing = Unknown("planned superblock", Why.UNSUPPORTED, detail, NO_MKE2FS)
        return Prediction(missing, missing, "computed", (), ())
    superblock = derive(
        "planned superblock",
        lambda: _with_reserves(plan, _upstream(plan)),
        origin=f"rules of mke2fs 1.47, {CLOSED_FORM}",
    )
    doubt = Unknown("planned block groups", unknown.why, unknown.detail, unknown.hint or NO_MKE2FS)
    return placed(superblock, CLOSED_FORM, (doubt,), packed_by(plan.mkfs, unknown))


def _with_reserves(plan: Plan, options: MkfsOptions) -> Superblock:
    """Return the superblock with its journal and the blocks for root, which -J and -m give."""
    text = plan.mkfs.value("-m") or "5"
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?", text) or float(text) > MOST_PERCENT:
        raise ValueError(f"-m {text}: not a percentage of at most {MOST_PERCENT}")
    made = parameters(plan.size_bytes, options)
    reserved = blocks_for_root(plan.size_bytes, options, float(text))
    return made._replace(journal_bytes=journal_bytes_of(plan.mkfs, made), reserved_blocks=reserved)


def _upstream(plan: Plan) -> MkfsOptions:
    """Return the options of the plan, completed by the mke2fs.conf of upstream."""
    words = plan.mkfs
    features = set(DEFAULT_FEATURES if plan.fstype == "ext4" else BASE_FEATURES)
    features |= {"has_journal"} if plan.fstype == "ext3" else set()
    for word in words.features:
        if word == "none":
            features.clear()
        elif word.startswith("^"):
            features.discard(_NAMES.get(word[1:], word[1:]))
        else:
            name = word.removeprefix("+")
            features.add(_NAMES.get(name, name))
    features |= {"has_journal"} if journal_mib(words) else set()
    _refuse_combined(features)
    backups = _extended(words, "num_backup_sb")
    options = MkfsOptions(
        features=frozenset(features),
        block_bytes=_block_bytes(words),
        group_option=_number(words, "-g"),
        flex_bg_groups=_number(words, "-G") or 16,
        bytes_per_inode=_number(words, "-i"),
        inode_count=_number(words, "-N"),
        inode_bytes=_number(words, "-I") or 256,
        cluster_bytes=_number(words, "-C"),
        backup_superblocks=MkfsOptions().backup_superblocks if backups is None else backups,
        descriptor_bytes=_descriptor_bytes(words, features),
    )
    options = _resizable(plan, options)
    block_bytes = mke2fs_sizes(plan.size_bytes, options).block_bytes
    words = words.with_extended(*plan.stripe_options(block_bytes))
    return replace(
        options,
        stride_blocks=_extended(words, "stride") or 0,
        stripe_width_blocks=_extended(words, "stripe_width") or 0,
    )


def _resizable(plan: Plan, options: MkfsOptions) -> MkfsOptions:
    """Return the options with what -E resize reserves; it sets resize_inode whatever -O says."""
    text = plan.mkfs.extended_value("resize")
    if text is None:
        return options
    block_bytes = mke2fs_sizes(plan.size_bytes, options).block_bytes
    most = _parsed("-E resize", text)
    most_blocks = most if text.isdecimal() else most // block_bytes
    keys = [each.partition("=")[0].replace("-", "_") for each in plan.mkfs.extended]
    is_late = DESCRIPTOR_SIZE in keys[keys.index("resize") :]
    seen = replace(options, descriptor_bytes=DESCRIPTOR_BYTES) if is_late else options
    reserved = reserved_by_resize(plan.size_bytes, seen, most_blocks)
    if reserved is None:
        return options
    if is_late:
        raise ValueError("-E desc_size must be before resize")
    features = options.features | {"resize_inode"}
    _refuse_combined(features)
    return replace(options, features=features, reserved_gdt_blocks=reserved)


def _refuse_combined(features: AbstractSet[str]) -> None:
    """Raise ValueError for features that mke2fs does not combine."""
    for feature, needed in NEEDED:
        if feature in features and needed not in features:
            raise ValueError(f"-O {feature} needs {needed}")
    if {"meta_bg", "resize_inode"} <= features:
        raise ValueError("meta_bg and resize_inode exclude each other")


def _descriptor_bytes(words: MkfsArguments, features: AbstractSet[str]) -> int:
    size = _extended(words, DESCRIPTOR_SIZE)
    if size is not None and "64bit" not in features:
        raise ValueError(f"-E {DESCRIPTOR_SIZE} needs 64bit")
    if size and (size & (size - 1) or not DESCRIPTOR_BYTES <= size <= LEAST_BLOCK_BYTES):
        raise ValueError(f"{size} is not a size of group descriptors")
    return size or DESCRIPTOR_BYTES


def _block_bytes(words: MkfsArguments) -> int | None:
    found = _number(words, "-b")
    is_power = found is None or not found & (found - 1)
    if found is not None and not (is_power and LEAST_BLOCK_BYTES <= found <= MOST_BLOCK_BYTES):
        raise ValueError(f"{found} is not a size of blocks")
    return found


def _number(words: MkfsArguments, flag: str) -> int | None:
    value = words.value(flag)
    return None if value is None else _parsed(flag, value)


def _extended(words: MkfsArguments, key: str) -> int | None:
    value = words.extended_value(key)
    return None if value is None else _parsed(f"-E {key}=", value)


def _parsed(flag: str, value: str) -> int:
    """Return a number of mke2fs, which may have a unit: "16k"."""
    match = re.fullmatch(r"([0-9]{1,19})([kmg]?)", value, re.IGNORECASE)
    if match is None or (match[2] and flag not in _WITH_UNITS):
        raise ValueError(f"{flag} {value}: not a number")
    return int(match[1]) << _BINARY_UNITS[match[2].lower()]


def placed(
    superblock: Evidence[Superblock], origin: str, doubts: tuple[Unknown, ...], packed: str
) -> Prediction:
    """Place the metadata by the closed form; what has `packed` the bitmaps is a doubt.

    Where all bitmaps are packed together, they lie elsewhere.
    """
    if packed:
        detail = f"{packed} moves metadata in a way that the closed form does not model"
        missing = Unknown("planned block groups", Why.UNSUPPORTED, detail, SMALLER)
        return Prediction(superblock, missing, "computed", (missing, *doubts), ())
    sizes = derive("planned block groups", sizes_of, superblock)
    table = derive("planned block groups", predict_table, sizes, origin=origin)
    if isinstance(sizes, Known) and not is_exact(sizes.value):
        doubts = (
            *doubts,
            placement_doubt(
                "inode tables reach backups of the superblock: the closed form is approximate"
            ),
        )
    return Prediction(superblock, table, "computed", doubts, ())


def packed_by(words: MkfsArguments, foreseen: Evidence[bool]) -> str:
    """Return what packs all bitmaps together: an option, or mke2fs.conf by a small filesystem."""
    value = words.extended_value(PACKED)
    if value not in {None, "0"}:
        return f"-E {PACKED}={value or 1}"
    return "mke2fs.conf" if isinstance(foreseen, Known) and not foreseen.value else ""


def placement_doubt(detail: str) -> Unknown:
    """Return why the places are only likely."""
    return Unknown("planned block groups", Why.UNSUPPORTED, detail, SMALLER)


def journal_bytes_of(words: MkfsArguments, made: Superblock) -> int | None:
    """Return the size of the journal, by -J in MiB where it is given."""
    mib = journal_mib(words)
    if not mib or not made.has_journal:
        return made.journal_bytes
    fast_blocks = fast_commit_blocks_of(made.size_blocks, made.features)
    return (int(mib) << 20) + fast_blocks * sizes_of(made).block_bytes


def journal_mib(words: MkfsArguments) -> str:
    """Return the size of -J, empty where it gives a place or the size of fast commits only."""
    sizes = re.findall(r"(?:^|,)size=([0-9]+)(?=,|$)", words.value("-J") or "")
    return sizes[-1] if sizes else ""

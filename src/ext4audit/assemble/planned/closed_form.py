"""What mke2fs makes of a plan, as far as it is computed: where metadata lies, and the journal.

On a machine without mke2fs all of it is computed, by the rules of upstream mke2fs 1.47.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts import KIB, MIB
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.superblock import Sizes, Superblock, sizes_of
from ext4audit.layout import journal_blocks_of
from ext4audit.layout.group_search import BYTES_PER_INODE
from ext4audit.layout.groups import inode_table_blocks, is_exact, predict_table
from ext4audit.layout.mkfs_parameters import (
    DEFAULT_FEATURES,
    DESCRIPTOR_BYTES,
    MkfsOptions,
    block_bytes_of,
    blocks_for_root,
    cleared_features,
    cluster_blocks_of,
    fast_commit_blocks_of,
    metadata_blocks,
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
LEAST_INODE_BYTES, USUAL_INODE_BYTES = 128, 256
MOST_CLUSTER_BYTES = 1 << 29
MOST_FLEX_GROUPS = 1 << 31
JOURNAL_LIMITS = range(1024, 10240001)
"""The blocks of a journal that -J can make."""
DESCRIPTOR_SIZE = "desc_size"
LEAST_CLUSTERS = 16
"""With fewer, mke2fs may find no room for directories, the journal and quota files: filesystems of
up to 10 clusters were refused (1.47.0)."""
WITH_VALUE = frozenset(
    "desc-size desc_size encoding encoding_flags hash_seed mmp_update_interval num_backup_sb "
    "orphan_file_size quotatype resize stride stripe-width stripe_width".split()
)
EXTENDED = WITH_VALUE | frozenset(
    "assume_storage_prezeroed discard lazy_itable_init lazy_journal_init no_copy_xattrs nodiscard "
    "packed_meta_blocks root_owner test_fs".split()
)
"""The parameters that -E of mke2fs 1.47.0 takes on a device, and those that need a value."""
NEEDED = (
    ("64bit", "extent"),
    ("bigalloc", "extent"),
    ("resize_inode", "sparse_super"),
    ("metadata_csum_seed", "metadata_csum"),
    ("orphan_file", "has_journal"),
)
"""A feature, and another without which mke2fs refuses it."""
LARGE_INODES = frozenset({"inline_data", "project"})
"""Features that inodes of 128 bytes have no room for."""
SETTABLE = DEFAULT_FEATURES | frozenset(
    "bigalloc casefold ea_inode encrypt fast_commit inline_data large_dir meta_bg "
    "metadata_csum_seed mmp orphan_file project quota sparse_super2 stable_inodes uninit_bg "
    "verity".split()
)
"""The features that -O of mke2fs 1.47.0 takes, apart from journal_dev."""
_NAMES = {"extents": "extent", "uninit_groups": "uninit_bg"}
"""What mke2fs calls some features by as well (lib/e2p/feature.c)."""
_WITH_UNITS = frozenset({"-b", "-C", "-i", "-E resize"})
_BINARY_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
SMALLER = "use a machine with more memory, or a smaller -G"


def without_mke2fs(plan: Plan, unknown: Unknown) -> Prediction:
    """Compute superblock and table by the rules of upstream mke2fs 1.47, with a doubt."""
    unlisted = _not_computed(plan.mkfs)
    if unlisted:
        detail = f"{unlisted}: {unknown.detail}"
        missing = Unknown("planned superblock", Why.UNSUPPORTED, detail, NO_MKE2FS)
        return Prediction(missing, missing, "computed", (), ())
    superblock = derive(
        "planned superblock",
        lambda: _with_reserves(plan, _upstream(plan)),
        origin=f"rules of mke2fs 1.47, {CLOSED_FORM}",
    )
    doubt = Unknown("planned block groups", unknown.why, unknown.detail, unknown.hint or NO_MKE2FS)
    return placed(superblock, CLOSED_FORM, (doubt,), packed_by(plan.mkfs, unknown))


def _not_computed(words: MkfsArguments) -> str:
    """Return which option has an effect that only mke2fs knows, empty if there is none."""
    usage, revision = words.value("-T"), words.value("-r")
    if usage is not None:
        return f"what -T {usage} means is in mke2fs.conf"
    return "" if revision in {None, "1"} else f"what -r {revision} makes is not computed"


def _with_reserves(plan: Plan, options: MkfsOptions) -> Superblock:
    """Return the superblock with its journal and the blocks for root, which -J and -m give."""
    text = plan.mkfs.value("-m") or "5"
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?", text) or float(text) > MOST_PERCENT:
        raise ValueError(f"-m {text}: not a percentage of at most {MOST_PERCENT}")
    made = parameters(plan.size_bytes, options)
    _refuse_few_clusters(sizes_of(made))
    _refuse_journal(plan.mkfs, made)
    reserved = blocks_for_root(plan.size_bytes, options, float(text))
    return made._replace(journal_bytes=journal_bytes_of(plan.mkfs, made), reserved_blocks=reserved)


def _upstream(plan: Plan) -> MkfsOptions:
    """Return the options of the plan, completed by the mke2fs.conf of upstream."""
    words = plan.mkfs
    _refuse_extended(words)
    features = _features(plan)
    backups = _extended(words, "num_backup_sb")
    options = MkfsOptions(
        features=frozenset(features),
        block_bytes=_block_bytes(words),
        group_option=_number(words, "-g"),
        flex_bg_groups=_flex_groups(words, features),
        bytes_per_inode=_bytes_per_inode(words),
        inode_count=_number(words, "-N"),
        inode_bytes=_number(words, "-I") or USUAL_INODE_BYTES,
        cluster_bytes=_cluster_bytes(words, features),
        backup_superblocks=MkfsOptions().backup_superblocks if backups is None else backups,
        descriptor_bytes=_descriptor_bytes(words, features),
    )
    block_bytes = block_bytes_of(plan.size_bytes, options)
    _refuse_sizes(options, block_bytes)
    features -= cleared_features(plan.size_bytes, options)
    _refuse_combined(features, options.inode_bytes)
    options = replace(options, features=frozenset(features))
    options = _resizable(plan, options)
    cluster_blocks = cluster_blocks_of(options, block_bytes)
    words = words.with_extended(*plan.stripe_options(block_bytes, cluster_blocks))
    return replace(
        options,
        stride_blocks=_extended(words, "stride") or 0,
        stripe_width_blocks=_extended(words, "stripe_width") or 0,
    )


def _features(plan: Plan) -> set[str]:
    """Return the features of the type with those that -O, -J and -E set or clear."""
    words = plan.mkfs
    features = set(DEFAULT_FEATURES if plan.fstype == "ext4" else BASE_FEATURES)
    features |= {"has_journal"} if plan.fstype == "ext3" else set()
    for word in words.features:
        if word == "none":
            features.clear()
            continue
        name = word.removeprefix("^").removeprefix("+").lower()
        name = _NAMES.get(name, name)
        if name not in SETTABLE:
            raise ValueError(f"-O {word}: not a feature that mke2fs sets")
        features = features - {name} if word.startswith("^") else features | {name}
    features |= {"has_journal"} if journal_mib(words) else set()
    features |= {"casefold"} if words.has_extended("encoding") else set()
    if "prj" in (words.extended_value("quotatype") or ""):
        features.add("project")
    return features - ({"uninit_bg"} if "metadata_csum" in features else set())


def _resizable(plan: Plan, options: MkfsOptions) -> MkfsOptions:
    """Return the options with what -E resize reserves; it sets resize_inode whatever -O says."""
    text = plan.mkfs.extended_value("resize")
    if text is None:
        return options
    block_bytes = block_bytes_of(plan.size_bytes, options)
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
    _refuse_combined(features, options.inode_bytes)
    return replace(options, features=features, reserved_gdt_blocks=reserved)


def _refuse_extended(words: MkfsArguments) -> None:
    """Raise ValueError for a parameter of -E that mke2fs does not take, or that lacks its value."""
    for parameter in words.extended:
        name, _, value = parameter.partition("=")
        if name not in EXTENDED or (name in WITH_VALUE and not value):
            raise ValueError(f"-E {parameter}: not a parameter that mke2fs takes")


def _refuse_few_clusters(sizes: Sizes) -> None:
    """Raise ValueError where only mke2fs knows whether there is room for its own files."""
    clusters = sizes.size_blocks // sizes.cluster_blocks
    if sizes.cluster_blocks > 1 and clusters < LEAST_CLUSTERS:
        raise ValueError(f"{clusters} clusters may be too few for a filesystem")


def _refuse_combined(features: AbstractSet[str], inode_bytes: int) -> None:
    """Raise ValueError for features that mke2fs does not combine."""
    for feature, needed in NEEDED:
        if feature in features and needed not in features:
            raise ValueError(f"-O {feature} needs {needed}")
    if {"meta_bg", "resize_inode"} <= features:
        raise ValueError("meta_bg and resize_inode exclude each other")
    for feature in sorted(LARGE_INODES & features):
        if inode_bytes == LEAST_INODE_BYTES:
            raise ValueError(f"-O {feature}: inodes of {inode_bytes} bytes are too small")


def _refuse_sizes(options: MkfsOptions, block_bytes: int) -> None:
    """Raise ValueError for sizes that do not fit the blocks."""
    inode_bytes = options.inode_bytes
    if not _is_power(inode_bytes, LEAST_INODE_BYTES, block_bytes):
        raise ValueError(f"-I {inode_bytes}: not a power of two from 128 to {block_bytes}")
    if options.cluster_bytes and options.cluster_bytes < block_bytes:
        raise ValueError(f"-C {options.cluster_bytes}: a cluster is not smaller than a block")
    if not 0 <= options.backup_superblocks <= MkfsOptions().backup_superblocks:
        raise ValueError(f"-E num_backup_sb={options.backup_superblocks}: not 0, 1 or 2")


def _refuse_journal(words: MkfsArguments, made: Superblock) -> None:
    """Raise ValueError for a journal that has no room, or for which -J gives too much.

    A size of -J is at most half of what is free before bitmaps and inode tables are made (1.47.0).
    """
    if not made.journal_bytes:
        return
    sizes, mib = sizes_of(made), journal_mib(words)
    chosen = int(mib or 0) * MIB // sizes.block_bytes
    if chosen and chosen not in JOURNAL_LIMITS:
        raise ValueError(f"-J size: {chosen} blocks are not 1024 to {JOURNAL_LIMITS[-1]}")
    room = sizes.size_blocks - metadata_blocks(sizes)
    tables = sizes.groups * (2 + inode_table_blocks(sizes))
    blocks = chosen or made.journal_bytes // sizes.block_bytes
    if blocks > room or chosen > (room + tables) // 2:
        raise ValueError(f"a journal of {blocks} blocks is too large: {room} are free")


def _is_power(number: int, least: int, most: int) -> bool:
    return least <= number <= most and not number & (number - 1)


def _flex_groups(words: MkfsArguments, features: AbstractSet[str]) -> int:
    groups = _number(words, "-G")
    if groups is not None and "flex_bg" not in features:
        raise ValueError("-G needs flex_bg")
    if groups is not None and not _is_power(groups, 1, MOST_FLEX_GROUPS):
        raise ValueError(f"-G {groups}: not a power of two")
    return groups or MkfsOptions().flex_bg_groups


def _bytes_per_inode(words: MkfsArguments) -> int | None:
    ratio = _number(words, "-i")
    if ratio is not None and ratio not in BYTES_PER_INODE:
        raise ValueError(f"-i {ratio}: not a ratio from 1024 to {BYTES_PER_INODE[-1]}")
    return ratio


def _cluster_bytes(words: MkfsArguments, features: AbstractSet[str]) -> int | None:
    size = _number(words, "-C")
    if size is not None and "bigalloc" not in features:
        raise ValueError("-C needs bigalloc")
    if size is not None and not LEAST_BLOCK_BYTES < size <= MOST_CLUSTER_BYTES:
        raise ValueError(f"{size} is not a size of clusters")
    return size


def _descriptor_bytes(words: MkfsArguments, features: AbstractSet[str]) -> int:
    size = _extended(words, DESCRIPTOR_SIZE)
    if size is not None and "64bit" not in features:
        raise ValueError(f"-E {DESCRIPTOR_SIZE} needs 64bit")
    if size and not _is_power(size, DESCRIPTOR_BYTES, MOST_BLOCK_BYTES):
        raise ValueError(f"{size} is not a size of group descriptors")
    return size or DESCRIPTOR_BYTES


def _block_bytes(words: MkfsArguments) -> int | None:
    found = _number(words, "-b")
    if found is not None and not _is_power(found, LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES):
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
    """Return the size of the journal, by -J where it is given.

    `size` is in MiB, and does not count fast commits; `fast_commit_size` is in KiB (1.47.0).
    """
    mib, fast_kib = journal_mib(words), _journal_option(words, "fast_commit_size")
    if not made.has_journal or not (mib or fast_kib):
        return made.journal_bytes
    block_bytes, blocks = sizes_of(made).block_bytes, journal_blocks_of(made.size_blocks)
    fast_blocks = fast_commit_blocks_of(made.size_blocks, made.features)
    if fast_blocks and fast_kib:
        fast_blocks = int(fast_kib) * KIB // block_bytes
    return (int(mib) * MIB if int(mib or 0) else blocks * block_bytes) + fast_blocks * block_bytes


def journal_mib(words: MkfsArguments) -> str:
    """Return the size of -J, empty where it gives a place or the size of fast commits only."""
    return _journal_option(words, "size")


def _journal_option(words: MkfsArguments, name: str) -> str:
    """Return the last number of an option of -J, empty without one."""
    found = re.findall(rf"(?:^|,){name}=([0-9]+)(?=,|$)", words.value("-J") or "")
    return found[-1] if found else ""

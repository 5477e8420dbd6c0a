"""`predict_superblock`: the superblock and group table that mke2fs will make for a plan.

A simulation by mke2fs on a sparse file in memory is exact. It needs the memory of all copies of
the group descriptors: 15 MB for each TiB with the defaults. On a machine with less memory, mke2fs
chooses the parameters (`-n` at the real size) and the features (at a small size), and a closed form
gives the places of the metadata. Without mke2fs, everything follows the rules of upstream 1.47.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ext4audit.assemble import ask
from ext4audit.assemble.planned.simulation import (
    Prediction,
    is_foreseen,
    made_superblock,
    run_mke2fs,
    simulated,
)
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording
from ext4audit.facts.features_and_bugs import (
    OLDEST,
    E2fsprogsVersion,
    feature_arguments,
    features_to_add,
    parse_banner,
    parse_version,
)
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.superblock import Superblock, sizes_of
from ext4audit.layout.groups import is_exact, predict_table
from ext4audit.layout.mkfs_parameters import (
    DEFAULT_FEATURES,
    DESCRIPTOR_BYTES,
    MOST_OF_32_BITS,
    MkfsOptions,
    fast_commit_blocks_of,
    mke2fs_sizes,
    parameters,
)
from ext4audit.parsers.mke2fs import DryRun, parse_dry_run, parse_warnings
from ext4audit.sources import RunCommand, Source

SMALL_BYTES = 1 << 30
"""The size of the simulation that finds the features if the real size cannot be simulated."""
CLOSED_FORM = "closed form of mke2fs's placement"
BROKEN_CONFIGURATION = "mke2fs config file"
"""Text that mke2fs prints if it cannot parse mke2fs.conf; it then makes no filesystem."""
NO_MKE2FS = "install e2fsprogs"
PACKED = "packed_meta_blocks"
AT_REAL_SIZE_ONLY = ("-N", "-i", "-J"), ("resize", "orphan_file_size")
"""Flags and -E parameters that may not fit a smaller size; they do not affect the features."""
BASE_FEATURES = frozenset(
    "dir_index ext_attr filetype large_file resize_inode sparse_super".split()
)
"""The features of ext2, base_features in mke2fs.conf; ext3 also has a journal."""
MOST_PERCENT = 50
LEAST_BLOCK_BYTES, MOST_BLOCK_BYTES = 1024, 65536
_WITH_UNITS = frozenset({"-b", "-C", "-i"})
_BINARY_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}
SMALLER = "use a machine with more memory, or a smaller -G"


def predict_superblock(source: Source, plan: Plan) -> Prediction:
    """Predict the filesystem of a plan; `source` runs mke2fs and reads the result."""
    local = ask(source, RunCommand(("mke2fs", "-V")), parse_banner, "version of mke2fs")
    if isinstance(local, Unknown) and BROKEN_CONFIGURATION in local.detail:
        return Prediction(local, local, "simulated", (), ())
    if isinstance(local, Unknown):
        return _complete(plan, without_mke2fs(plan, local), local)
    mkfs = _for_target(plan, local.value)
    dry = run_mke2fs(source, plan, mkfs, "-n", "-v")
    found = derive("parameters of mke2fs", parse_dry_run, dry)
    if isinstance(found, Unknown):
        failed = Prediction(found, found, "simulated", (), ())
        return _complete(plan, failed, local)
    mkfs = mkfs.with_extended(*plan.stripe_options(found.value.block_bytes))
    made = simulated(source, plan, mkfs, found.value)
    if made is None:
        made = computed(source, plan, mkfs, found.value)
    warnings = tuple(f"mke2fs warns: {each}" for each in parse_warnings(for_wording(dry, "")))
    return _complete(plan, made._replace(assumed=warnings), local)


def _for_target(plan: Plan, local: E2fsprogsVersion) -> MkfsArguments:
    """Return the mke2fs options of the plan, preceded by the target version's features."""
    target = _target(plan)
    if target is None or target == local:
        return plan.mkfs
    return plan.mkfs.with_features_first(*feature_arguments(local, target))


def _target(plan: Plan) -> E2fsprogsVersion | None:
    """Return the planned e2fsprogs version, None if a configuration file defines the features."""
    host = plan.host
    if host.e2fsprogs is None or host.configuration is not None:
        return None
    return parse_version(host.e2fsprogs)


def _complete(plan: Plan, made: Prediction, local: Evidence[E2fsprogsVersion]) -> Prediction:
    """Add the target version's features, doubts and assumptions to a prediction."""
    target = _target(plan)
    superblock = derive(
        "planned superblock", lambda known: _as_planned(known, plan, local, target), made.superblock
    )
    doubts = made.doubts
    if target is not None and target < OLDEST:
        detail = f"what e2fsprogs {plan.host.e2fsprogs} creates is not known in detail"
        doubts = (*doubts, Unknown("planned superblock", Why.UNSUPPORTED, detail))
    return made._replace(
        superblock=superblock,
        doubts=doubts,
        assumed=(*_assumed(plan, made.basis, local), *made.assumed),
    )


def _as_planned(
    superblock: Superblock,
    plan: Plan,
    local: Evidence[E2fsprogsVersion],
    target: E2fsprogsVersion | None,
) -> Superblock:
    """Return the superblock without a random UUID, and with the features of the target version."""
    made_by = for_wording(local, None)
    added = features_to_add(made_by, target) if made_by and target else set()
    uuid = plan.mkfs.value("-U")
    return superblock._replace(
        uuid=superblock.uuid if uuid not in {None, "random", "time", "clear"} else None,
        features=superblock.features | added,
    )


def _assumed(plan: Plan, basis: str, local: Evidence[E2fsprogsVersion]) -> list[str]:
    if isinstance(local, Unknown):
        return [f"computed by the rules of upstream mke2fs 1.47: {local.detail}"]
    version = ".".join(map(str, local.value))
    file = plan.host.configuration or "/etc/mke2fs.conf of this machine"
    how = {
        "simulated": f"simulated in memory by mke2fs {version} with {file}",
        "computed": f"parameters by mke2fs {version} with {file}, places of the metadata by the "
        "closed form: a simulation would take too much memory",
    }
    assumed = [how[basis]]
    target = _target(plan)
    if target is not None and target != local.value:
        assumed.append(f"features as upstream e2fsprogs {plan.host.e2fsprogs} sets them by default")
    return assumed


def computed(source: Source, plan: Plan, mkfs: MkfsArguments, dry: DryRun) -> Prediction:
    """Compute the prediction from parameters at the real size and features at a small size."""
    usage = mkfs
    if mkfs.value("-T") is None and len(dry.usage_types):
        usage = mkfs.with_value("-T", ",".join(dry.usage_types))
    size_bytes = min(SMALL_BYTES, plan.size_bytes)
    flags, parameters_of_size = AT_REAL_SIZE_ONLY
    for flag in flags:
        usage = usage.without_value(flag)
    usage = usage.without_extended(*parameters_of_size)
    if _journal_mib(mkfs):  # -J size= makes a journal regardless of -O
        usage = replace(usage, features=(*usage.features, "has_journal"))
    done = run_mke2fs(source, plan, usage, "-q", size_bytes=size_bytes)
    small = made_superblock(source, plan.device, done, "mke2fs at a smaller size")
    origin = f"mke2fs -n, features of {size_bytes >> 20} MiB, {CLOSED_FORM}"
    superblock = derive(
        "planned superblock", lambda known: _scaled(known, plan, mkfs, dry), small, origin=origin
    )
    foreseen = is_foreseen(source, plan, usage, size_bytes)
    doubts = _disagreement(superblock, dry)
    return _place(superblock, origin, doubts, _packing(mkfs, foreseen))


def _scaled(small: Superblock, plan: Plan, mkfs: MkfsArguments, dry: DryRun) -> Superblock:
    """Return the superblock for the real size, with the features of the small one."""
    sizes = sizes_of(small)
    # auto_64-bit_support of mke2fs.conf: only 64bit filesystems can have that many blocks.
    features = small.features | ({"64bit"} if dry.blocks > MOST_OF_32_BITS else set())
    if dry.most_blocks:
        # -E resize, which may not fit the smaller size, sets resize_inode regardless of -O. Without
        # it, small groups have no room for the usual reserve, and mke2fs uses meta_bg instead.
        features = features - {"meta_bg"} | {"resize_inode"}
    options = MkfsOptions(
        features=features,
        block_bytes=dry.block_bytes,
        group_option=dry.blocks_per_group // sizes.cluster_blocks,
        flex_bg_groups=sizes.flex_bg_groups,
        inode_count=dry.inodes,
        inode_bytes=sizes.inode_bytes,
        cluster_bytes=sizes.cluster_blocks * dry.block_bytes,
        backup_superblocks=dry.backups,
        most_blocks=dry.most_blocks,
        descriptor_bytes=max(sizes.descriptor_bytes, DESCRIPTOR_BYTES),
        stride_blocks=small.stride_blocks,
        stripe_width_blocks=small.stripe_width_blocks,
    )
    made = parameters(plan.size_bytes, options)
    return small._replace(
        **sizes_of(made)._asdict(),
        journal_bytes=_journal_bytes(mkfs, made),
        reserved_blocks=dry.reserved_blocks,
        free_blocks=None,
        free_inodes=None,
    )


def _journal_bytes(mkfs: MkfsArguments, made: Superblock) -> int | None:
    """Return the size of the journal in bytes, computed from -J if that gives a size in MiB."""
    mib = _journal_mib(mkfs)
    if not mib or not made.has_journal:
        return made.journal_bytes
    fast_blocks = fast_commit_blocks_of(made.size_blocks, made.features)
    return (int(mib) << 20) + fast_blocks * sizes_of(made).block_bytes


def _journal_mib(mkfs: MkfsArguments) -> str:
    """Return the MiB of -J size=, empty without one (only a location or fast commit size)."""
    sizes = re.findall(r"(?:^|,)size=([0-9]+)(?=,|$)", mkfs.value("-J") or "")
    return sizes[-1] if sizes else ""


def _place(
    superblock: Evidence[Superblock], origin: str, doubts: tuple[Unknown, ...], packed: str
) -> Prediction:
    """Return the prediction with the metadata placed by the closed form.

    The closed form does not model packed bitmaps; `packed` names what packs them, or is empty.
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
            _doubt("inode tables reach backups of the superblock: the closed form is approximate"),
        )
    return Prediction(superblock, table, "computed", doubts, ())


def _packing(mkfs: MkfsArguments, foreseen: Evidence[bool]) -> str:
    """Return what packs all bitmaps: -E, or mke2fs.conf as a small filesystem shows; else ""."""
    value = mkfs.extended_value(PACKED)
    if value not in {None, "0"}:
        return f"-E {PACKED}={value or 1}"
    return "mke2fs.conf" if isinstance(foreseen, Known) and not foreseen.value else ""


def _doubt(detail: str) -> Unknown:
    return Unknown("planned block groups", Why.UNSUPPORTED, detail, SMALLER)


def _disagreement(superblock: Evidence[Superblock], dry: DryRun) -> tuple[Unknown, ...]:
    """Return a doubt if our parameters differ from those of mke2fs."""
    if isinstance(superblock, Unknown):
        return ()
    ours = superblock.value
    pairs = {
        "block groups": (ours.groups, dry.groups),
        "blocks per group": (ours.blocks_per_group, dry.blocks_per_group),
        "inodes per group": (ours.inodes_per_group, dry.inodes_per_group),
    }
    wrong = [f"{name} {one}, mke2fs says {two}" for name, (one, two) in pairs.items() if one != two]
    return (_doubt("; ".join(wrong)),) if wrong else ()


def without_mke2fs(plan: Plan, unknown: Unknown) -> Prediction:
    """Compute the superblock and the table by the rules of upstream mke2fs 1.47, with a doubt."""
    usage = plan.mkfs.value("-T")
    if usage is not None:
        detail = f"what -T {usage} means is in mke2fs.conf: {unknown.detail}"
        missing = Unknown("planned superblock", Why.UNSUPPORTED, detail, NO_MKE2FS)
        return Prediction(missing, missing, "computed", (), ())
    superblock = derive(
        "planned superblock",
        lambda: _with_reserves(plan, parameters(plan.size_bytes, _upstream(plan))),
        origin=f"rules of mke2fs 1.47, {CLOSED_FORM}",
    )
    doubt = Unknown("planned block groups", unknown.why, unknown.detail, unknown.hint or NO_MKE2FS)
    return _place(superblock, CLOSED_FORM, (doubt,), _packing(plan.mkfs, unknown))


def _with_reserves(plan: Plan, made: Superblock) -> Superblock:
    """Add the journal size (-J) and the reserved blocks (-m); raise ValueError for a bad -m."""
    text = plan.mkfs.value("-m") or "5"
    if not re.fullmatch(r"[0-9]{1,2}(\.[0-9]+)?", text) or float(text) > MOST_PERCENT:
        raise ValueError(f"-m {text}: not a percentage of at most {MOST_PERCENT}")
    reserved = int(float(text) * made.size_blocks / 100)
    return made._replace(journal_bytes=_journal_bytes(plan.mkfs, made), reserved_blocks=reserved)


def _upstream(plan: Plan) -> MkfsOptions:
    """Return the options of the plan, completed with the defaults of upstream's mke2fs.conf."""
    mkfs = plan.mkfs
    features = set(DEFAULT_FEATURES if plan.fstype == "ext4" else BASE_FEATURES)
    features |= {"has_journal"} if plan.fstype == "ext3" else set()
    for word in mkfs.features:
        if word == "none":
            features.clear()
        elif word.startswith("^"):
            features.discard(word[1:])
        else:
            features.add(word.removeprefix("+"))
    features |= {"has_journal"} if _journal_mib(mkfs) else set()
    backups = _extended(mkfs, "num_backup_sb")
    options = MkfsOptions(
        features=frozenset(features),
        block_bytes=_block_bytes(mkfs),
        group_option=_number(mkfs, "-g"),
        flex_bg_groups=_number(mkfs, "-G") or 16,
        bytes_per_inode=_number(mkfs, "-i"),
        inode_count=_number(mkfs, "-N"),
        inode_bytes=_number(mkfs, "-I") or 256,
        cluster_bytes=_number(mkfs, "-C"),
        backup_superblocks=MkfsOptions().backup_superblocks if backups is None else backups,
    )
    block_bytes = mke2fs_sizes(plan.size_bytes, options).block_bytes
    mkfs = mkfs.with_extended(*plan.stripe_options(block_bytes))
    return replace(
        options,
        stride_blocks=_extended(mkfs, "stride") or 0,
        stripe_width_blocks=_extended(mkfs, "stripe_width") or 0,
    )


def _block_bytes(mkfs: MkfsArguments) -> int | None:
    found = _number(mkfs, "-b")
    is_power = found is None or not found & (found - 1)
    if found is not None and not (is_power and LEAST_BLOCK_BYTES <= found <= MOST_BLOCK_BYTES):
        raise ValueError(f"{found} is not a size of blocks")
    return found


def _number(mkfs: MkfsArguments, flag: str) -> int | None:
    value = mkfs.value(flag)
    return None if value is None else _parsed(flag, value)


def _extended(mkfs: MkfsArguments, key: str) -> int | None:
    value = mkfs.extended_value(key)
    return None if value is None else _parsed(f"-E {key}=", value)


def _parsed(flag: str, value: str) -> int:
    """Parse an mke2fs number, which may have a unit ("16k"); raise ValueError if it is invalid."""
    match = re.fullmatch(r"([0-9]{1,19})([kmg]?)", value, re.IGNORECASE)
    if match is None or (match[2] and flag not in _WITH_UNITS):
        raise ValueError(f"{flag} {value}: not a number")
    return int(match[1]) << _BINARY_UNITS[match[2].lower()]

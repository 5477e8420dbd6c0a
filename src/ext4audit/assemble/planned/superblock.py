"""`predict_superblock`: the superblock and group table that mke2fs will make for a plan.

A simulation by mke2fs on a sparse file in memory is exact. It needs the memory of all copies of
the group descriptors: 15 MB for each TiB with the defaults. On a machine with less memory, mke2fs
chooses the parameters (`-n` at the real size) and the features (at a small size), and a closed form
gives the places of the metadata. Without mke2fs, everything follows the rules of upstream 1.47.
"""

from __future__ import annotations

from dataclasses import replace

from ext4audit.assemble import ask
from ext4audit.assemble.planned.closed_form import (
    CLOSED_FORM,
    journal_bytes_of,
    journal_mib,
    packed_by,
    placed,
    placement_doubt,
    without_mke2fs,
)
from ext4audit.assemble.planned.simulation import (
    Prediction,
    is_foreseen,
    made_superblock,
    run_mke2fs,
    simulated,
)
from ext4audit.evidence import Evidence, Unknown, Why, derive, for_wording
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
from ext4audit.layout.mkfs_parameters import (
    DESCRIPTOR_BYTES,
    MOST_OF_32_BITS,
    MkfsOptions,
    parameters,
)
from ext4audit.parsers.mke2fs import DryRun, parse_dry_run, parse_warnings
from ext4audit.sources import RunCommand, Source

SMALL_BYTES = 1 << 30
"""The size of the simulation that finds the features if the real size cannot be simulated."""
BROKEN_CONFIGURATION = "mke2fs config file"
"""Text that mke2fs prints if it cannot parse mke2fs.conf; it then makes no filesystem."""
AT_REAL_SIZE_ONLY = ("-N", "-J"), ("resize", "orphan_file_size")
"""Flags and -E parameters that may not fit a smaller size; they do not affect the features."""
FITTING_RATIO = str(1 << 20)
"""The -i of the small size: the inodes of any -I fit, which those of a type (-T news) may not."""


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
    stripe = plan.stripe_options(found.value.block_bytes, found.value.cluster_blocks)
    mkfs = mkfs.with_extended(*stripe)
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
    usage = usage.with_value("-i", FITTING_RATIO).without_extended(*parameters_of_size)
    if journal_mib(mkfs):  # -J size= makes a journal regardless of -O
        usage = replace(usage, features=(*usage.features, "has_journal"))
    if dry.blocks > MOST_OF_32_BITS:  # mke2fs clears it before it refuses what needs it absent
        usage = replace(usage, features=(*usage.features, "^resize_inode"))
    done = run_mke2fs(source, plan, usage, "-q", size_bytes=size_bytes)
    small = made_superblock(source, plan.device, done, "mke2fs at a smaller size")
    origin = f"mke2fs -n, features of {size_bytes >> 20} MiB, {CLOSED_FORM}"
    superblock = derive(
        "planned superblock", lambda known: _scaled(known, plan, mkfs, dry), small, origin=origin
    )
    foreseen = is_foreseen(source, plan, usage, size_bytes)
    doubts = _disagreement(superblock, dry)
    return placed(superblock, origin, doubts, packed_by(mkfs, foreseen))


def _scaled(small: Superblock, plan: Plan, mkfs: MkfsArguments, dry: DryRun) -> Superblock:
    """Return the superblock for the real size, with the features of the small one."""
    sizes = sizes_of(small)
    # auto_64-bit_support of mke2fs.conf: only 64bit filesystems can have that many blocks.
    features = small.features | ({"64bit"} if dry.blocks > MOST_OF_32_BITS else set())
    if dry.most_blocks:
        # -E resize, which may not fit the smaller size, sets resize_inode regardless of -O. Without
        # it, small groups have no room for the usual reserve, and mke2fs uses meta_bg instead.
        features = features - {"meta_bg"} | {"resize_inode"}
    least_bytes = DESCRIPTOR_BYTES if "64bit" in features else 0
    descriptor_bytes = max(sizes.descriptor_bytes, least_bytes)
    options = MkfsOptions(
        features=features,
        block_bytes=dry.block_bytes,
        group_option=dry.blocks_per_group // sizes.cluster_blocks,
        flex_bg_groups=sizes.flex_bg_groups,
        inode_count=dry.inodes,
        inode_bytes=sizes.inode_bytes,
        cluster_bytes=sizes.cluster_blocks * dry.block_bytes,
        backup_superblocks=dry.backups,
        reserved_gdt_blocks=_reserved_gdt_blocks(dry, descriptor_bytes),
        descriptor_bytes=descriptor_bytes,
        stride_blocks=small.stride_blocks,
        stripe_width_blocks=small.stripe_width_blocks,
    )
    made = parameters(plan.size_bytes, options)
    return small._replace(
        **sizes_of(made)._asdict(),
        journal_bytes=journal_bytes_of(mkfs, made),
        reserved_blocks=dry.reserved_blocks,
        free_blocks=None,
        free_inodes=None,
    )


def _reserved_gdt_blocks(dry: DryRun, descriptor_bytes: int) -> int | None:
    """Return what is reserved beside the descriptors in use, None for nothing."""
    if not dry.most_blocks:
        return None
    described = dry.block_bytes // descriptor_bytes
    return dry.most_blocks // (dry.blocks_per_group * described) - -(-dry.groups // described)


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
    return (placement_doubt("; ".join(wrong)),) if wrong else ()

"""Hosts with one planned filesystem: its device stack, mount, fstab entry and usage."""

from __future__ import annotations

from functools import partial

from ext4audit.assemble.options import resolve_options, stripe_of
from ext4audit.assemble.options.listings import OptionSources
from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording, origin_of
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, MdArray, MdMember, QueueLimits
from ext4audit.facts.host import ErrorCounters, Filesystem, Host, Usage
from ext4audit.facts.layout import NEAR_COPIES, MetadataLayout
from ext4audit.facts.mount import (
    SUPERBLOCK_FLAGS,
    DeviceNumber,
    FstabEntry,
    FstabLine,
    Mount,
    flags_of,
)
from ext4audit.facts.options import IMPLIED_BY_DATA_JOURNAL, recognize
from ext4audit.facts.plan import DISK, Plan
from ext4audit.facts.superblock import PrimarySuperblock, Superblock, sizes_of
from ext4audit.layout.bitmap_placement import measure
from ext4audit.layout.levels import map_of

PLAN_ORIGIN = "the plan"
OPTIONS_ORIGIN = "planned mount options"
NOT_RUNNING = "no kernel has mounted it yet"
ARRAY = DeviceNumber(9, 0)
EXTENDED_MAJOR = 259
"""The major number of devices without a fixed one (Documentation/admin-guide/devices.txt)."""
_FIRST_INODES = 11
"""The inodes in use in a fresh filesystem: the reserved inodes of ext4, and lost+found."""


def planned_host(plan: Plan, predicted: Prediction, taken_at: str) -> Host:
    """Return the host of a plan; facts that the plan does not contain are unknown, with a hint."""
    fs = _filesystem(plan, predicted)
    return Host(
        name=plan.host.name,
        taken_at=taken_at,
        kernel=plan.host.kernel,
        os=plan.host.os,
        virtualization=Known(plan.host.virtualization, PLAN_ORIGIN),
        container=Known(None, PLAN_ORIGIN),
        kernel_arguments=Known((), PLAN_ORIGIN),
        memory=plan.host.memory,
        mounts=Known(fs.mounts, PLAN_ORIGIN),
        fstab=fs.fstab,
        filesystems=(fs,),
        gaps=predicted.doubts,
        planned=True,
        devices=Known((), PLAN_ORIGIN),
        unmounted=Known((), PLAN_ORIGIN),
        boot_loader=_not_planned("boot loader"),
        md_arrays=Known((), PLAN_ORIGIN),
        fstrim=_not_planned("fstrim.timer"),
        trims_all=_not_planned("fstrim.service"),
        raid0_default_layout=Known(0, PLAN_ORIGIN),
        page_bytes=plan.host.page_bytes,
    )


def _not_planned(what: str) -> Unknown:
    return Unknown(what, Why.NOT_CAPTURED, "a plan does not contain it", "scan the finished host")


def _filesystem(plan: Plan, predicted: Prediction) -> Filesystem:
    stack = planned_stack(plan)
    superblock = derive(
        "planned superblock", lambda made: _cleared(made, plan), predicted.superblock
    )
    known = for_wording(superblock, None)
    mount = planned_mount(plan, stack.device_number, known)
    shown = Known(mount, OPTIONS_ORIGIN)
    return Filesystem(
        device_number=stack.device_number,
        name=plan.name,
        device=plan.device,
        fstype=Known(plan.fstype, PLAN_ORIGIN),
        alive=True,
        mounts=(mount,),
        read_only=Known("ro" in mount.super_options[:1], OPTIONS_ORIGIN),
        superblock=superblock,
        uuid=known.uuid if known else None,
        label=known.label if known else None,
        options=resolve_options(
            OptionSources(_no_options_file(plan), shown, superblock, plan.host.kernel)
        ),
        fstab=Known((planned_entry(plan, stack.device_number),), PLAN_ORIGIN),
        stack=Known(stack, PLAN_ORIGIN),
        layout=_layout(plan, predicted),
        usage=derive("planned usage", planned_usage, superblock),
        errors=Known(ErrorCounters(0), PLAN_ORIGIN),
        journal_errno=Known(0, PLAN_ORIGIN),
        unzeroed_groups=Known(0, PLAN_ORIGIN),
        primary=Known(PrimarySuperblock(), PLAN_ORIGIN),
    )


def _cleared(superblock: Superblock, plan: Plan) -> Superblock:
    """Return the superblock without the default mount options that the plan clears with tune2fs."""
    kept = tuple(each for each in superblock.default_mount_options if each not in plan.cleared)
    return superblock._replace(default_mount_options=kept)


def _no_options_file(plan: Plan) -> Unknown:
    """Return the options file as Unknown, with a hint to the missing argument."""
    hint = "set it in --mount-options"
    if isinstance(plan.host.kernel, Unknown):
        hint = plan.host.kernel.hint
    return Unknown("options in force", Why.NOT_CAPTURED, NOT_RUNNING, hint)


def _layout(plan: Plan, predicted: Prediction) -> Evidence[MetadataLayout] | None:
    """Return the metadata counted by member device, None if the plan has no striped array."""
    geometry = plan.geometry
    if geometry is None:
        return None
    what, basis, doubts = "planned metadata layout", predicted.basis, predicted.doubts
    count = partial(measure, basis=basis, doubts=doubts, device_bytes=plan.size_bytes)
    sizes = derive(what, sizes_of, predicted.superblock)
    stripe = derive(what, map_of, Known(geometry, PLAN_ORIGIN))
    return derive(what, count, predicted.table, sizes, stripe, origin=origin_of(predicted.table))


def planned_stack(plan: Plan) -> BlockDevice:
    """Return the device of the plan with its members."""
    if plan.level == DISK:
        return _disk(plan, 0, plan.name, plan.device, plan.size_bytes)
    size_bytes = _member_bytes(plan)
    members = tuple(
        _disk(plan, slot, name, f"/dev/{name}", size_bytes)
        for slot, name in enumerate(plan.member_names)
    )
    return BlockDevice(
        name=plan.name,
        path=plan.device,
        device_number=ARRAY,
        kind=plan.level,
        size_sectors=Known(plan.size_bytes // SECTOR_BYTES, PLAN_ORIGIN),
        queue=_array_queue(plan),
        below=Known(members, PLAN_ORIGIN),
        md=Known(_array(plan, size_bytes), PLAN_ORIGIN),
    )


def _disk(plan: Plan, slot: int, name: str, path: str, size_bytes: int) -> BlockDevice:
    return BlockDevice(
        name=name,
        path=path,
        device_number=DeviceNumber(EXTENDED_MAJOR, slot),
        kind="disk",
        size_sectors=Known(size_bytes // SECTOR_BYTES, PLAN_ORIGIN),
        queue=plan.queue,
        below=Known((), PLAN_ORIGIN),
    )


def _member_bytes(plan: Plan) -> int:
    """Return the used size of each member in bytes, rounded up to whole chunks."""
    copies = {"raid1": plan.members, "raid10": NEAR_COPIES}.get(plan.level, 1)
    columns = plan.members if copies > 1 else plan.data_members
    unit = plan.chunk_bytes or SECTOR_BYTES
    return -(-plan.size_bytes * copies // (columns * unit)) * unit


def _array(plan: Plan, member_bytes: int) -> MdArray:
    return MdArray(
        level=plan.level,
        chunk_bytes=plan.chunk_bytes,
        raid_disks=plan.members,
        layout=None,
        reshape_position=None,
        members=tuple(
            MdMember(slot, name, 0, member_bytes // SECTOR_BYTES)
            for slot, name in enumerate(plan.member_names)
        ),
    )


def _array_queue(plan: Plan) -> QueueLimits:
    """Return the queue limits of an array: those of a member, with the I/O sizes of the stripe."""
    stripe_bytes = plan.chunk_bytes * plan.data_members
    return plan.queue._replace(
        minimum_io_bytes=_if_striped(plan.chunk_bytes, plan.queue.minimum_io_bytes),
        optimal_io_bytes=_if_striped(stripe_bytes, plan.queue.optimal_io_bytes),
        nr_requests=_none("nr_requests"),
        wbt_latency_usec=_none("wbt_lat_usec"),
    )


def _if_striped(size_bytes: int, otherwise: Evidence[int]) -> Evidence[int]:
    return Known(size_bytes, PLAN_ORIGIN) if size_bytes else otherwise


def _none(name: str) -> Unknown:
    return Unknown(f"queue/{name} of an array", Why.ABSENT, "an array has no queue")


def planned_mount(plan: Plan, number: DeviceNumber, superblock: Superblock | None = None) -> Mount:
    """Return the mountinfo line of the planned mount.

    It lists all ext4 options of the plan, including defaults that a mount table hides, because
    the plan sets them explicitly, and the stripe that the kernel takes from the superblock.
    """
    options = _tokens(plan.mount_options)
    stripe = stripe_of(superblock, plan.host.kernel) if superblock else None
    if stripe and not any(token.startswith("stripe=") for token in options):
        options = (*options, stripe)
    flags = flags_of(plan.mount_options)
    state = "ro" if "ro" in flags else "rw"
    shared = tuple(flag for flag in flags if flag in SUPERBLOCK_FLAGS)
    # mountinfo does not list strictatime.
    own = tuple(flag for flag in flags if flag not in SUPERBLOCK_FLAGS | {"ro", "strictatime"})
    return Mount(
        mount_id=1,
        parent_id=0,
        device_number=number,
        root="/",
        mount_point=plan.mount_point,
        mount_options=(state, *own),
        fstype=plan.fstype,
        source=plan.device,
        super_options=(state, *shared, *options),
    )


def planned_entry(plan: Plan, number: DeviceNumber) -> FstabEntry:
    """Return the fstab entry of the planned mount."""
    options = plan.mount_options or ("defaults",)
    line = FstabLine(
        line_number=1,
        spec=plan.device,
        mount_point=plan.mount_point,
        fstype=plan.fstype,
        options=options,
        raw_options=",".join(options),
        dump_frequency=0,
        fsck_pass=1 if plan.mount_point == "/" else 2,
    )
    return FstabEntry(line, Known(number, PLAN_ORIGIN), plan.mount_point)


def _tokens(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the canonical tokens of the ext4 options and those that data=journal implies."""
    tokens = {}
    for option in options:
        known = recognize(option)
        if known is not None:
            tokens[known[0].name] = known[1]
    if tokens.get("data") == "data=journal":
        tokens |= IMPLIED_BY_DATA_JOURNAL
    return tuple(token for token in tokens.values() if token)


def planned_usage(superblock: Superblock) -> Usage:
    """Return the usage of a fresh filesystem; its size excludes the metadata.

    If the superblock is predicted, its free blocks are unknown: only inode tables and the journal
    are subtracted, and the rest, about 0.1 %, is neglected. Raises ValueError if a size is unknown.
    """
    sizes, reserved = sizes_of(superblock), superblock.reserved_blocks
    if reserved is None:
        raise ValueError("the superblock's reserved blocks are not known")
    free, free_inodes = superblock.free_blocks, superblock.free_inodes
    if free is None:
        metadata = filter(None, (sizes.inode_count * sizes.inode_bytes, superblock.journal_bytes))
        free = sizes.size_blocks - sum(metadata) // sizes.block_bytes
    return Usage(
        block_bytes=sizes.block_bytes,
        size_blocks=free,
        free_blocks=free,
        available_blocks=max(0, free - reserved),
        inodes=sizes.inode_count,
        free_inodes=sizes.inode_count - _FIRST_INODES if free_inodes is None else free_inodes,
    )

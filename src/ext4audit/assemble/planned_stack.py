"""The devices below a planned filesystem: an array of disks that have no names yet, or one disk."""

from __future__ import annotations

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.block import SECTOR_BYTES, BlockDevice, MdArray, MdMember, QueueLimits
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.plan import DISK, NEAR_COPIES, Plan

ORIGIN = "the plan"
ARRAY = DeviceNumber(9, 0)
EXTENDED_MAJOR = 259
"""Of block devices beyond the fixed numbers (Documentation/admin-guide/devices.txt)."""


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
        size_sectors=Known(plan.size_bytes // SECTOR_BYTES, ORIGIN),
        read_only=Known(value=False, origin=ORIGIN),
        queue=_array_queue(plan),
        below=Known(members, ORIGIN),
        md=Known(_array(plan, size_bytes), ORIGIN),
    )


def _disk(plan: Plan, slot: int, name: str, path: str, size_bytes: int) -> BlockDevice:
    return BlockDevice(
        name=name,
        path=path,
        device_number=DeviceNumber(EXTENDED_MAJOR, slot),
        kind="disk",
        size_sectors=Known(size_bytes // SECTOR_BYTES, ORIGIN),
        read_only=Known(value=False, origin=ORIGIN),
        queue=plan.queue,
        below=Known((), ORIGIN),
    )


def _member_bytes(plan: Plan) -> int:
    """Return what the array uses of each member, rounded up to whole chunks."""
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
    """Return the queue of an array, which passes requests on: what is known are its I/O sizes."""
    stripe_bytes = plan.chunk_bytes * plan.data_members
    return QueueLimits(
        write_cache=plan.queue.write_cache,
        fua=plan.queue.fua,
        rotational=plan.queue.rotational,
        discard_max_bytes=plan.queue.discard_max_bytes,
        minimum_io_bytes=_if_striped(plan.chunk_bytes, plan.queue.minimum_io_bytes),
        optimal_io_bytes=_if_striped(stripe_bytes, plan.queue.optimal_io_bytes),
        logical_block_bytes=plan.queue.logical_block_bytes,
        physical_block_bytes=plan.queue.physical_block_bytes,
        nr_requests=_none("nr_requests"),
        max_sectors_kb=plan.queue.max_sectors_kb,
        wbt_latency_usec=_none("wbt_lat_usec"),
    )


def _if_striped(size_bytes: int, otherwise: Evidence[int]) -> Evidence[int]:
    return Known(size_bytes, ORIGIN) if size_bytes else otherwise


def _none(name: str) -> Unknown:
    return Unknown(f"queue/{name} of an array", Why.ABSENT, "an array has no queue of its own")

"""The input of a plan: conversion of the settings of flags and files to a `Plan`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from ext4audit.cli.options import flag_of
from ext4audit.cli.output import refused
from ext4audit.cli.plans.host import not_set, planned_host
from ext4audit.cli.plans.values import (
    LEAST_MEMBERS,
    capacity_of,
    check_members,
    chunk_of,
    count_of,
    mount_options_of,
    path_of,
    size_of,
    whole_number_of,
)
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.devices import QueueLimits
from ext4audit.facts.host import Kernel
from ext4audit.facts.plan import DISK, STRIPED, DiskKind, Plan, PlannedHost, Property, disk_kind
from ext4audit.parsers.mke2fs import parse_mkfs_arguments

T = TypeVar("T")

SOME_DISK = "/dev/sdX"
DEVICES = {False: SOME_DISK, True: "/dev/md0"}
MOUNT_POINT = "/data"
CACHES = {"back": "write back", "through": "write through"}
KEYS = (
    *LEAST_MEMBERS,
    *"chunk size mkfs mount_options mount_point device kernel os memory target_e2fsprogs "
    "mke2fs_conf virtualization rotational write_cache nr_requests max_sectors_kb "
    "wbt_lat_usec page_size on".split(),
)
"""The keys of a plan file; each is also the name of a flag."""
VIRTUALIZATION = "virtualization"
SMALL_BYTES = 512 << 20
"""Below this size, blocks are 1 KiB (mke2fs.conf, small), or a sector if that is larger."""


def plan_of(settings: Mapping[str, Any]) -> Plan:
    """Return the plan that the settings describe; raises UsageError for invalid ones."""
    level, members = _array(settings)
    _check_complete(settings, level)
    disks = planned_disks(settings)
    host = planned_host(with_virtualization(settings, disks))
    settings, assumed = with_disks(settings, disks, host)
    given = (*assumed, *_unit_note(settings), *_sector_note(settings), *host.assumed)
    plan = Plan(
        device=_value(settings, "device", path_of, DEVICES[level != DISK]),
        size_bytes=_value(settings, "size", capacity_of),
        level=level,
        members=members,
        chunk_bytes=_chunk_bytes(settings, level),
        mkfs=_value(settings, "mkfs", parse_mkfs_arguments),
        mount_options=_value(settings, "mount_options", mount_options_of),
        mount_point=_value(settings, "mount_point", path_of, MOUNT_POINT),
        queue=_queue(settings),
        host=replace(host, assumed=given),
    )
    if plan.chunk_bytes * plan.data_members > plan.size_bytes:
        raise click.UsageError(f"--chunk {settings['chunk']}: the array has no whole stripe")
    return plan


def _check_complete(settings: Mapping[str, Any], level: str) -> None:
    """Raise UsageError with the names of all required flags that are missing."""
    needed = ("size", "chunk") if level in STRIPED else ("size",)
    missing = [flag_of(key) for key in needed if settings.get(key) is None]
    if missing:
        raise click.UsageError(f"a plan needs {' and '.join(missing)}")


def _unit_note(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a note about a size in decimal units: TB is less than the T of mke2fs."""
    text = str(settings.get("size", ""))
    if not re.search(r"[KMGTP]B$", text.strip(), re.IGNORECASE):
        return ()
    size_bytes = _value(settings, "size", size_of)
    return (f"--size {text} is {size_bytes} bytes, {size_bytes / (1 << 30):.1f} GiB",)


def _sector_note(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a note about the assumed sector size if it determines the block size (no -b)."""
    size_bytes = _value(settings, "size", capacity_of)
    block_size = _value(settings, "mkfs", parse_mkfs_arguments).value("-b")
    if size_bytes >= SMALL_BYTES or block_size:
        return ()
    return ("sectors of 512 bytes; with sectors of 4096, mke2fs makes blocks of 4096 (-b 4096)",)


def _array(settings: Mapping[str, Any]) -> tuple[str, int]:
    levels = [level for level in LEAST_MEMBERS if settings.get(level) is not None]
    if len(levels) > 1:
        raise click.UsageError(f"--{levels[0]} and --{levels[1]} exclude each other")
    if not levels:
        return DISK, 1
    level = levels[0]
    members = _parsed(settings, level, whole_number_of)
    check_members(level, members, f"--{level}")
    return level, members


def _chunk_bytes(settings: Mapping[str, Any], level: str) -> int:
    if level not in STRIPED:
        if settings.get("chunk") is not None:
            raise click.UsageError("--chunk needs --raid0, --raid10, --raid5 or --raid6")
        return 0
    chunk_bytes = _value(settings, "chunk", chunk_of)
    # The chunk size must be a power of two for all levels except RAID0 (md(4)).
    if level != "raid0" and chunk_bytes & (chunk_bytes - 1):
        raise click.UsageError(
            f"--chunk {settings['chunk']}: md does not support this chunk size for {level}"
        )
    return chunk_bytes


def _queue(settings: Mapping[str, Any]) -> QueueLimits:
    """Return the queue of each member; values that are not set are Unknowns with the flag."""
    zero = Known(0, "the plan")
    return QueueLimits(
        write_cache=_evidence(settings, "write_cache", _cache, "back"),
        fua=_unsettable("fua"),
        rotational=_evidence(settings, "rotational", _boolean, ""),
        discard_max_bytes=_unsettable("discard_max_bytes"),
        minimum_io_bytes=zero,
        optimal_io_bytes=zero,
        logical_block_bytes=_unsettable("logical_block_size"),
        physical_block_bytes=_unsettable("physical_block_size"),
        nr_requests=_evidence(settings, "nr_requests", count_of, "256"),
        max_sectors_kb=_evidence(settings, "max_sectors_kb", count_of, "1280"),
        wbt_latency_usec=_evidence(settings, "wbt_lat_usec", count_of, "75000"),
    )


def _unsettable(name: str) -> Unknown:
    """Return the Unknown for a property that no option of a plan sets."""
    return Unknown(
        f"queue/{name} of the planned disks", Why.NOT_CAPTURED, "no option of plan sets it"
    )


def _evidence(
    settings: Mapping[str, Any], key: str, parse: Callable[[Any], T], example: str
) -> Evidence[T]:
    if settings.get(key) is None:
        return not_set(key, example)
    origin = settings.get("origins", {}).get(key, flag_of(key))
    return Known(_parsed(settings, key, parse), origin)


def _cache(text: str) -> str:
    if text not in CACHES:
        raise ValueError(f"{text!r} is neither back nor through")
    return CACHES[text]


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")  # noqa: TRY004 - as for all values
    return value


def _value(
    settings: Mapping[str, Any], key: str, parse: Callable[[str], T], default: str = ""
) -> T:
    value = settings.get(key)
    return _parsed({key: default if value is None else value}, key, lambda v: parse(str(v)))


def _parsed(settings: Mapping[str, Any], key: str, parse: Callable[[Any], T]) -> T:
    with refused(flag_of(key)):
        return parse(settings[key])


def planned_disks(settings: Mapping[str, Any]) -> DiskKind | None:
    """Return the kind of disk that a plan names, if any; raises UsageError for an unknown one."""
    name = settings.get("on")
    if name is None:
        return None
    try:
        return disk_kind(str(name))
    except KeyError:
        raise click.UsageError(f"--on {name}: no such kind of disk") from None


def with_virtualization(settings: Mapping[str, Any], disks: DiskKind | None) -> Mapping[str, Any]:
    """Return the settings with the virtualization that a kind of disk implies, if not set."""
    found = _unset(settings, disks).get(VIRTUALIZATION)
    return {**settings, VIRTUALIZATION: found.value} if found else settings


def with_disks(
    settings: Mapping[str, Any], disks: DiskKind | None, host: PlannedHost
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the settings completed by a kind of disk, and a sentence about the assumptions."""
    if disks is None:
        return settings, ()
    kernels = _kernels(host)
    taken = {key: (each, each.on(kernels)) for key, each in _unset(settings, disks).items()}
    texts = ", ".join(_property_text(key, each, value) for key, (each, value) in taken.items())
    sentence = f"{disks.name}: {disks.says}{f'; {texts}' if texts else ''}"
    supplied = {key: value for key, (_, value) in taken.items() if value is not None}
    origins = dict.fromkeys(supplied, f"--on {disks.name}")
    return {**settings, **supplied, "origins": origins}, (sentence,)


def _unset(settings: Mapping[str, Any], disks: DiskKind | None) -> dict[str, Property]:
    """Return the properties of the kind of disk that the settings do not set."""
    properties = disks.properties if disks else {}
    return {key: each for key, each in properties.items() if settings.get(key) is None}


def _kernels(host: PlannedHost) -> tuple[Kernel, ...]:
    """Return the kernels that the plan is audited for, or none if any of them is unknown."""
    every = (host.kernel, *host.other_kernels)
    known = tuple(each.value for each in every if isinstance(each, Known))
    return known if len(known) == len(every) else ()


def _property_text(key: str, found: Property, value: object) -> str:
    if value is not None:
        return f"{key} = {_toml(value)} ({found.cited()})"
    by_kernel = f"{_toml(found.value)}, from kernel {found.since} on {_toml(found.later)}"
    return f"{key} is left open: {by_kernel} ({found.cited()})"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""From the words of a plan, by flags or by file, to the plan; raises UsageError for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from ext4audit.cli.plan_host import not_said, planned_host
from ext4audit.cli.plan_values import count_of, path_of, size_of, words_of
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.block import QueueLimits
from ext4audit.facts.plan import DISK, STRIPED, Plan
from ext4audit.parsers.mkfs_words import parse_mkfs_words

T = TypeVar("T")

LEAST_MEMBERS = {"raid0": 2, "raid1": 2, "raid10": 2, "raid5": 3, "raid6": 4}
MOST_MEMBERS = 1920
"""Of an array with version-1 metadata (md(4))."""
PAGE_BYTES = 4096
"""md's smallest chunk; for all levels but RAID0 it must be a power of two (md(4))."""
DEVICES = {False: "/dev/sdX", True: "/dev/md0"}
MOUNT_POINT = "/data"
CACHES = {"back": "write back", "through": "write through"}
KEYS = (
    *LEAST_MEMBERS,
    *"chunk size mkfs mount_options mount_point device kernel os memory target_e2fsprogs "
    "mke2fs_conf virtualization rotational write_cache nr_requests max_sectors_kb "
    "wbt_lat_usec".split(),
)


def plan_of(said: Mapping[str, Any]) -> Plan:
    """Return the plan that was said."""
    level, members = _array(said)
    return Plan(
        device=_value(said, "device", path_of, DEVICES[level != DISK]),
        size_bytes=_required(said, "size", size_of),
        level=level,
        members=members,
        chunk_bytes=_chunk_bytes(said, level),
        mkfs=_value(said, "mkfs", parse_mkfs_words, ""),
        mount_options=_value(said, "mount_options", words_of, ""),
        mount_point=_value(said, "mount_point", path_of, MOUNT_POINT),
        queue=_queue(said),
        host=planned_host(said),
    )


def _array(said: Mapping[str, Any]) -> tuple[str, int]:
    levels = [level for level in LEAST_MEMBERS if said.get(level) is not None]
    if len(levels) > 1:
        raise click.UsageError(f"--{levels[0]} and --{levels[1]} exclude each other")
    if not levels:
        return DISK, 1
    level = levels[0]
    members = _whole(said, level)
    if not LEAST_MEMBERS[level] <= members <= MOST_MEMBERS:
        raise click.UsageError(f"--{level} takes {LEAST_MEMBERS[level]} to {MOST_MEMBERS} members")
    return level, members


def _chunk_bytes(said: Mapping[str, Any], level: str) -> int:
    if level not in STRIPED:
        if said.get("chunk") is not None:
            raise click.UsageError("--chunk is of an array that stripes")
        return 0
    chunk_bytes = _required(said, "chunk", size_of)
    odd = chunk_bytes & (chunk_bytes - 1) if level != "raid0" else chunk_bytes % PAGE_BYTES
    if chunk_bytes < PAGE_BYTES or odd:
        raise click.UsageError(f"--chunk {said['chunk']}: md makes no {level} of such chunks")
    return chunk_bytes


def _queue(said: Mapping[str, Any]) -> QueueLimits:
    """Return the queue of each member: what was said, and holes that name the flag."""
    zero = Known(0, "the plan")
    return QueueLimits(
        write_cache=_evidence(said, "write_cache", _cache, "back"),
        fua=_left_open("fua"),
        rotational=_evidence(said, "rotational", _truth, ""),
        discard_max_bytes=_left_open("discard_max_bytes"),
        minimum_io_bytes=zero,
        optimal_io_bytes=zero,
        logical_block_bytes=_left_open("logical_block_size"),
        physical_block_bytes=_left_open("physical_block_size"),
        nr_requests=_evidence(said, "nr_requests", count_of, "256"),
        max_sectors_kb=_evidence(said, "max_sectors_kb", count_of, "1280"),
        wbt_latency_usec=_evidence(said, "wbt_lat_usec", count_of, "75000"),
    )


def _left_open(name: str) -> Unknown:
    """Return the hole of what no word of a plan says."""
    return Unknown(f"queue/{name} of the planned disks", Why.NOT_CAPTURED, "no plan says it")


def _evidence(
    said: Mapping[str, Any], key: str, parse: Callable[[Any], T], example: str
) -> Evidence[T]:
    if said.get(key) is None:
        return not_said(key, example)
    return Known(_parsed(said, key, parse), _flag(key))


def _cache(text: str) -> str:
    if text not in CACHES:
        raise ValueError(f"{text!r} is neither back nor through")
    return CACHES[text]


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")  # noqa: TRY004 - as any value
    return value


def _whole(said: Mapping[str, Any], key: str) -> int:
    return _parsed(said, key, int)


def _required(said: Mapping[str, Any], key: str, parse: Callable[[str], T]) -> T:
    if said.get(key) is None:
        raise click.UsageError(f"a plan needs {_flag(key)}")
    return _parsed(said, key, lambda value: parse(str(value)))


def _value(said: Mapping[str, Any], key: str, parse: Callable[[str], T], default: str) -> T:
    value = said.get(key)
    return _parsed({key: default if value is None else value}, key, lambda v: parse(str(v)))


def _parsed(said: Mapping[str, Any], key: str, parse: Callable[[Any], T]) -> T:
    try:
        return parse(said[key])
    except ValueError as error:
        raise click.UsageError(f"{_flag(key)}: {error}") from None


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"

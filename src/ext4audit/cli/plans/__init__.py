"""The input of a plan: flags or a TOML file, their values, and the host they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from pathlib import Path
from posixpath import normpath
from typing import Any, TypeVar

import click

from ext4audit.assemble.host import assemble_host
from ext4audit.cli import did_you_mean
from ext4audit.cli.files import read_bytes
from ext4audit.cli.places import utf8
from ext4audit.evidence import Evidence, Known, Unknown, Why, for_wording
from ext4audit.facts import parse_toml
from ext4audit.facts.devices import QueueLimits
from ext4audit.facts.features_and_bugs import parse_version
from ext4audit.facts.host import Host, Kernel, Memory, OperatingSystem
from ext4audit.facts.plan import DISK, STRIPED, Plan, PlannedHost
from ext4audit.parsers.kernel_files import parse_kernel
from ext4audit.parsers.mke2fs import parse_mkfs_arguments
from ext4audit.sources.captured import open_captured
from ext4audit.sources.containers import ArchiveError

_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*(?:([KMGTP])(iB|B)?|B)?", re.IGNORECASE)
_POWERS = "KMGTP"
_SECTOR_BYTES = 512
_CHOICES = {
    "data": ("journal", "ordered", "writeback"),
    "errors": ("continue", "remount-ro", "panic"),
}
"""Values of options that every kernel checks (fs/ext4/super.c, Linux 3.10 to 7.2). A plan with
data=bogus must not get a mount line that fails."""
LARGEST_BYTES = 1 << 50
"""More than mke2fs 1.47 can make in memory or on a disk of today: it gives up at 16 PiB."""


def size_of(text: str) -> int:
    """Return bytes of "512K", "1.5T", "2TB", "314376192"; ValueError otherwise.

    K and KiB are 1024 bytes, as for mke2fs and mdadm; KB is 1000 bytes, as on a disk's label.
    A size with a fraction is rounded down to a sector.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a size (512K, 1.5T or a number of bytes; T is TiB, and TB is 10^12)"
        )
    base = 1000 if (match[3] or "").upper() == "B" else 1024
    power = _POWERS.index(match[2].upper()) + 1 if match[2] else 0
    size = Fraction(match[1]) * base**power
    size_bytes = int(size)
    if "." in match[1] or base == 1000:  # noqa: PLR2004 - the base of decimal units
        size_bytes -= size_bytes % _SECTOR_BYTES
    if not 0 < size_bytes <= LARGEST_BYTES:
        raise ValueError(f"{text} is not between 1 byte and 1 PiB")
    return size_bytes


def count_of(value: object) -> int:
    """Return a number that is not negative, such as the kernel's limits; ValueError otherwise."""
    number = int(str(value))
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def path_of(text: str) -> str:
    """Return an absolute path that can be printed in a command; ValueError otherwise.

    As the kernel spells mount points: no "//", no "." and no slash at the end.
    """
    if not text.startswith("/") or not text.isprintable():
        raise ValueError(f"{text!r} is not an absolute path of printable characters")
    return normpath(f"/{text.lstrip('/')}")


def words_of(text: str) -> tuple[str, ...]:
    """Split mount options at the commas outside quotes; ValueError for what fstab cannot hold."""
    if not text.isprintable() or " " in text:
        raise ValueError("mount options cannot contain blanks or control characters")
    parts = re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', text)
    for word in parts:
        name, _, value = word.partition("=")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise ValueError(f"{word}: the kernel refuses it ({', '.join(_CHOICES[name])})")
    return tuple(word for word in parts if word and word != "defaults")


_LARGEST_BYTES = 1 << 20


def read_plan_file(path: str, keys: Collection[str]) -> Mapping[str, Any]:
    """Return the settings of the file by key, `-` spelled `_`; raises UsageError for wrong ones."""
    try:
        settings = parse_toml(read_bytes(path, _LARGEST_BYTES).decode("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise click.UsageError(f"{path}: {error}") from None
    found = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name not in keys:
            raise click.UsageError(f"{path}: unknown key {key!r}{did_you_mean(key, keys)}")
        if isinstance(value, dict | list | float) or not isinstance(value, str | int):
            raise click.UsageError(f"{path}: {key} is not a string, number or boolean")
        found[name] = value
    return found


T = TypeVar("T")

DIRTY_RATIO_PERCENT = 20
DIRTY_BACKGROUND_RATIO_PERCENT = 10
"""The kernel's defaults of vm.dirty_ratio and vm.dirty_background_ratio (mm/page-writeback.c)."""
MEMORY_ORIGIN = "--memory, vm.dirty_* at the kernel's defaults"


def planned_host(settings: Mapping[str, Any]) -> PlannedHost:
    """Return the host of a plan; raises UsageError."""
    base = _captured(settings["from"]) if settings.get("from") else None
    return PlannedHost(
        name=base.name if base else "planned",
        kernel=_setting(
            settings, "kernel", _kernel, base.kernel if base else None, "6.1.0-18-amd64"
        ),
        os=_setting(settings, "os", _system, base.os if base else None, "debian:12"),
        memory=_setting(settings, "memory", _memory, base.memory if base else None, "64G"),
        virtualization=settings.get("virtualization")
        or (for_wording(base.virtualization, None) if base else None),
        e2fsprogs=_version(settings.get("target_e2fsprogs")),
        configuration=_configuration(settings.get("mke2fs_conf")),
    )


def not_set(key: str, example: str) -> Unknown:
    """Return the Unknown of a setting that a plan leaves open; the hint names the flag."""
    flag = f"--{key.replace('_', '-')}"
    hint = f"{flag} {example}".rstrip()
    return Unknown(f"{key} of the plan", Why.NOT_CAPTURED, "not set in the plan", hint)


def _setting(
    settings: Mapping[str, Any],
    key: str,
    parse: Callable[[str], T],
    base: Evidence[T] | None,
    example: str,
) -> Evidence[T]:
    """Return a setting, else the value of the base host, else the Unknown that names the flag."""
    if settings.get(key) is None:
        return not_set(key, example) if base is None else base
    try:
        value = parse(str(settings[key]))
    except ValueError as error:
        raise click.UsageError(f"--{key}: {error}") from None
    return Known(value, MEMORY_ORIGIN if key == "memory" else f"--{key}")


def _kernel(text: str) -> Kernel:
    if not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not a release (uname -r)")
    return parse_kernel(f"{text}\n\n\n\n")


def _system(text: str) -> OperatingSystem:
    name, _, version = text.partition(":")
    return OperatingSystem(name, version, f"{name} {version}".strip())


def _memory(text: str) -> Memory:
    total_bytes = size_of(text)
    return Memory(
        total_bytes=total_bytes,
        available_bytes=total_bytes,
        dirty_bytes=0,
        dirty_ratio_percent=DIRTY_RATIO_PERCENT,
        dirty_background_bytes=0,
        dirty_background_ratio_percent=DIRTY_BACKGROUND_RATIO_PERCENT,
    )


def _version(text: str | None) -> str | None:
    if text is not None:
        try:
            parse_version(str(text))
        except ValueError as error:
            raise click.UsageError(f"--target-e2fsprogs {text}: {error}") from None
    return None if text is None else str(text)


def _configuration(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        text = read_bytes(path, _LARGEST_BYTES)
    except OSError as error:
        raise click.UsageError(f"--mke2fs-conf {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise click.UsageError(f"--mke2fs-conf {path}: {error}") from None
    if b"ext4" not in text:
        # mke2fs only warns, and makes an "ext4" without a journal.
        raise click.UsageError(f"--mke2fs-conf {path}: does not define ext4")
    return str(Path(path).resolve())


def _captured(path: object) -> Host:
    """Return a captured host without its filesystems."""
    try:
        captured = open_captured(utf8(str(path)))
    except ArchiveError as error:
        raise click.UsageError(f"--from {error}") from None
    return assemble_host(captured.source, captured.taken_at, only=frozenset())


LEAST_MEMBERS = {"raid0": 2, "raid1": 2, "raid10": 2, "raid5": 3, "raid6": 4}
MOST_MEMBERS = 1920
"""Of an array with version-1 metadata (md(4))."""


def check_members(level: str, members: int, option: str = "--members") -> None:
    """Refuse a number of members of which md makes no array of this level; raises UsageError."""
    least = LEAST_MEMBERS.get(level, 3)
    if not least <= members <= MOST_MEMBERS:
        what = f"{level} takes {least} to {MOST_MEMBERS} members"
        raise click.UsageError(f"{option} {members}: {what}")


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


def plan_of(settings: Mapping[str, Any]) -> Plan:
    """Return the plan that the settings describe."""
    level, members = _array(settings)
    return Plan(
        device=_value(settings, "device", path_of, DEVICES[level != DISK]),
        size_bytes=_required(settings, "size", size_of),
        level=level,
        members=members,
        chunk_bytes=_chunk_bytes(settings, level),
        mkfs=_value(settings, "mkfs", parse_mkfs_arguments, ""),
        mount_options=_value(settings, "mount_options", words_of, ""),
        mount_point=_value(settings, "mount_point", path_of, MOUNT_POINT),
        queue=_queue(settings),
        host=planned_host(settings),
    )


def _array(settings: Mapping[str, Any]) -> tuple[str, int]:
    levels = [level for level in LEAST_MEMBERS if settings.get(level) is not None]
    if len(levels) > 1:
        raise click.UsageError(f"--{levels[0]} and --{levels[1]} exclude each other")
    if not levels:
        return DISK, 1
    level = levels[0]
    members = _whole(settings, level)
    check_members(level, members, f"--{level}")
    return level, members


def _chunk_bytes(settings: Mapping[str, Any], level: str) -> int:
    if level not in STRIPED:
        if settings.get("chunk") is not None:
            raise click.UsageError("--chunk needs --raid0, --raid10, --raid5 or --raid6")
        return 0
    chunk_bytes = _required(settings, "chunk", size_of)
    odd = chunk_bytes & (chunk_bytes - 1) if level != "raid0" else chunk_bytes % PAGE_BYTES
    if chunk_bytes < PAGE_BYTES or odd:
        raise click.UsageError(
            f"--chunk {settings['chunk']}: md does not support this chunk size for {level}"
        )
    return chunk_bytes


def _queue(settings: Mapping[str, Any]) -> QueueLimits:
    """Return the queue of each member: the settings, and Unknowns that name the flag."""
    zero = Known(0, "the plan")
    return QueueLimits(
        write_cache=_evidence(settings, "write_cache", _cache, "back"),
        fua=_left_open("fua"),
        rotational=_evidence(settings, "rotational", _truth, ""),
        discard_max_bytes=_left_open("discard_max_bytes"),
        minimum_io_bytes=zero,
        optimal_io_bytes=zero,
        logical_block_bytes=_left_open("logical_block_size"),
        physical_block_bytes=_left_open("physical_block_size"),
        nr_requests=_evidence(settings, "nr_requests", count_of, "256"),
        max_sectors_kb=_evidence(settings, "max_sectors_kb", count_of, "1280"),
        wbt_latency_usec=_evidence(settings, "wbt_lat_usec", count_of, "75000"),
    )


def _left_open(name: str) -> Unknown:
    """Return the Unknown of a property that no setting of a plan describes."""
    return Unknown(
        f"queue/{name} of the planned disks", Why.NOT_CAPTURED, "no option of plan sets it"
    )


def _evidence(
    settings: Mapping[str, Any], key: str, parse: Callable[[Any], T], example: str
) -> Evidence[T]:
    if settings.get(key) is None:
        return not_set(key, example)
    return Known(_parsed(settings, key, parse), _flag(key))


def _cache(text: str) -> str:
    if text not in CACHES:
        raise ValueError(f"{text!r} is neither back nor through")
    return CACHES[text]


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")  # noqa: TRY004 - as any value
    return value


def _whole(settings: Mapping[str, Any], key: str) -> int:
    return _parsed(settings, key, int)


def _required(settings: Mapping[str, Any], key: str, parse: Callable[[str], T]) -> T:
    if settings.get(key) is None:
        raise click.UsageError(f"a plan needs {_flag(key)}")
    return _parsed(settings, key, lambda value: parse(str(value)))


def _value(settings: Mapping[str, Any], key: str, parse: Callable[[str], T], default: str) -> T:
    value = settings.get(key)
    return _parsed({key: default if value is None else value}, key, lambda v: parse(str(v)))


def _parsed(settings: Mapping[str, Any], key: str, parse: Callable[[Any], T]) -> T:
    try:
        return parse(settings[key])
    except ValueError as error:
        raise click.UsageError(f"{_flag(key)}: {error}") from None


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"

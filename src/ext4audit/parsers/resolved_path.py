"""The answer of the ResolvePath ask: KEY=value lines."""

from __future__ import annotations

from ext4audit.facts.resolved_path import ResolvedPath
from ext4audit.parsers.sysfs import parse_device_number, parse_integer, parse_key_values

_TYPES = frozenset({"file", "directory", "block", "other"})


def parse_resolved_path(text: str) -> ResolvedPath:
    """Parse what a path leads to; ValueError where a key is missing or holds something else."""
    values = parse_key_values(text)
    missing = {"mount_id", "device_number", "type"} - values.keys()
    if missing:
        raise ValueError(f"the answer lacks {', '.join(sorted(missing))}")
    if values["type"] not in _TYPES:
        raise ValueError(f"{values['type'][:40]!r} is no type of a path")
    represents = values.get("represents")
    return ResolvedPath(
        mount_id=parse_integer(values["mount_id"]),
        device_number=parse_device_number(values["device_number"]),
        type=values["type"],
        represents=parse_device_number(represents) if represents else None,
    )

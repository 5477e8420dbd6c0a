"""JSON, version 1: a filesystem with its options, its device stack and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ext4audit.evidence import Evidence, Known, Unknown, value_or
from ext4audit.facts.block import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.renderers.chunk import chunk_bytes
from ext4audit.renderers.json_v1_layout import layout_object
from ext4audit.renderers.json_v1_options import options_object
from ext4audit.renderers.json_v1_verdict import unknown_object


def filesystem_object(fs: Filesystem) -> dict[str, Any]:
    """Return one filesystem; `unknowns` tells a null that is unknown from one without a value."""
    layout = None if fs.layout is None else value_or(fs.layout, None)
    return {
        "id": fs.id,
        "device": fs.device,
        "device_number": str(fs.device_number),
        "uuid": fs.uuid,
        "label": fs.label,
        "fstype": value_or(fs.fstype, None),
        "mounted": fs.alive,
        "mount_points": list(fs.mount_points),
        "read_only": value_or(fs.read_only, None),
        "options": options_object(fs),
        "stack": _stack(fs),
        "layout": None if layout is None else layout_object(layout),
        "superblock_source": _origin(fs.superblock),
        "unknowns": [unknown_object(unknown) for unknown in _unknowns(fs)],
    }


def _origin(evidence: Evidence[object]) -> str | None:
    return evidence.origin if isinstance(evidence, Known) else None


def _unknowns(fs: Filesystem) -> Sequence[Unknown]:
    """Return the holes of the filesystem itself, each once, in the order of the keys."""
    asked = (fs.fstype, fs.read_only, fs.superblock, fs.options, fs.fstab, fs.stack, fs.layout)
    return tuple(dict.fromkeys(each for each in asked if isinstance(each, Unknown)))


def _stack(fs: Filesystem) -> list[dict[str, Any]]:
    if isinstance(fs.stack, Unknown):
        return []
    return [_device(fs, device) for device in fs.stack.value.walk()]


def _device(fs: Filesystem, device: BlockDevice) -> dict[str, Any]:
    sectors = value_or(device.size_sectors, None)
    return {
        "name": device.name,
        "kind": device.kind,
        "device_number": str(device.device_number),
        "members": _members(device),
        "chunk_bytes": chunk_bytes(fs, device),
        "write_cache": value_or(device.queue.write_cache, None),
        "rotational": value_or(device.queue.rotational, None),
        "level": device.md.value.level if isinstance(device.md, Known) else None,
        "path": device.path,
        "size_bytes": None if sectors is None else sectors * SECTOR_BYTES,
        "model": device.model,
        "backing_file": None if device.loop is None else device.loop.backing_file,
        "dm_name": None if device.dm is None else device.dm.name,
    }


def _members(device: BlockDevice) -> list[str] | None:
    """Return the names of what the device is made of; those of an array by slot."""
    if isinstance(device.md, Known):
        return [member.name for member in device.md.value.members]
    if isinstance(device.below, Unknown):
        return None
    return [each.name for each in device.below.value]

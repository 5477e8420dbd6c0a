"""JSON, version 1: the mount options of a filesystem, in force and intended."""

from __future__ import annotations

from typing import Any

from ext4audit.evidence import Unknown, value_or
from ext4audit.facts.host import Filesystem
from ext4audit.facts.options import EffectiveOption, EffectiveOptions
from ext4audit.renderers.json_v1_verdict import unknown_object


def options_object(fs: Filesystem) -> dict[str, Any]:
    """Return what is in force, what each place shows of it, and who set it.

    `effective` is null unless its source shows every option: a part of the options, read as
    all of them, would state what nobody saw. `provenance` lists what is established.
    """
    options = None if isinstance(fs.options, Unknown) else fs.options.value
    established = () if options is None else options.options
    complete = options is not None and options.complete
    superblock = value_or(fs.superblock, None)
    return {
        "effective": [option.token for option in established] if complete else None,
        "source": None if options is None else options.source,
        "mount_table": _mount_table(fs, options),
        "superblock_defaults": (
            None if superblock is None else list(superblock.default_mount_options)
        ),
        "hidden": [option.token for option in established if option.hidden],
        "fstab": _fstab(fs),
        "complete": complete,
        "provenance": [_provenance(option) for option in established],
        "unknown": _unknown(fs, options),
    }


def _mount_table(fs: Filesystem, options: EffectiveOptions | None) -> list[str]:
    """Return the superblock's options as the mount table prints them, also without the file."""
    if options is not None:
        return list(options.mount_table or ())
    return list(fs.mounts[0].super_options) if fs.mounts else []


def _fstab(fs: Filesystem) -> list[str] | None:
    """Return the options of the fstab entry, one for a mount point in force before others."""
    entries = value_or(fs.fstab, ())
    ours = [entry for entry in entries if entry.line.mount_point in fs.mount_points]
    chosen = next(iter((*ours, *entries)), None)
    return None if chosen is None else list(chosen.line.options)


def _unknown(fs: Filesystem, options: EffectiveOptions | None) -> dict[str, Any] | None:
    if isinstance(fs.options, Unknown):
        return unknown_object(fs.options)
    hole = None if options is None else options.hole
    return None if hole is None else unknown_object(hole)


def _provenance(option: EffectiveOption) -> dict[str, Any]:
    return {
        "option": option.name,
        "in_force": option.token,
        "set_by": option.set_by.value,
        "origin": option.origin,
        "hidden": option.hidden,
        "baseline": option.baseline,
        "layers": [
            {"set_by": layer.setter.value, "token": layer.token, "origin": layer.origin}
            for layer in option.layers
        ],
    }

"""A device stack in a few words: "raid0 of 12 disks, 512 KiB chunk"."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import Known, Unknown
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.host import Filesystem
from ext4audit.renderers.chunk import chunk_bytes
from ext4audit.renderers.words import binary_size, counted, listed

_NAMES_SHOWN = 3
_DM_OWNERS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))
"""How each owner of device-mapper devices begins their uuid (libdevmapper, cryptsetup)."""


def stack_words(fs: Filesystem) -> str:
    """Describe what lies below a filesystem, from the top device down to where names suffice."""
    if isinstance(fs.stack, Unknown):
        return "device stack not known"
    device = fs.stack.value
    if device.kind == "disk":
        return f"disk ({device.model})" if device.model else "disk"
    if device.kind == "partition":
        return _partition(fs, device.known_below)
    return _made_of(fs, device)


def _partition(fs: Filesystem, below: Sequence[BlockDevice]) -> str:
    """Describe a partition: of a disk by its name, of anything else by what that is made of."""
    if any(each.kind != "disk" for each in below):
        return f"partition on {_made_of(fs, below[0])}"
    return f"partition of {listed([each.name for each in below]) or 'a disk'}"


def _made_of(fs: Filesystem, device: BlockDevice) -> str:
    """Describe a device that is made of others: a stripe, a loop device, a dm device."""
    if device.loop is not None:
        return f"loop over {device.loop.backing_file}"
    chunk = chunk_bytes(fs, device)
    if chunk is not None or device.md is not None:
        size = "" if chunk is None else f", {binary_size(chunk)} chunk"
        return f"{_kind(device)} of {_members(device)}{size}"
    below = _below(fs, device)
    return f"{_kind(device)} on {below}" if below else _kind(device)


def _kind(device: BlockDevice) -> str:
    uuid = device.dm.uuid if device.dm else ""
    owner = next((word for prefix, word in _DM_OWNERS if uuid.startswith(prefix)), None)
    return f"{owner} ({device.kind})" if owner else device.kind


def _members(device: BlockDevice) -> str:
    """Count the members: the array's own number, also where a member cannot be seen."""
    seen = device.known_below
    number = device.md.value.raid_disks if isinstance(device.md, Known) else len(seen)
    kinds = {each.kind for each in seen}
    noun = next(iter(kinds)) if kinds in ({"disk"}, {"partition"}) else "device"
    return counted(number, noun)


def _below(fs: Filesystem, device: BlockDevice) -> str:
    below = device.known_below
    if len(below) == 1 and below[0].kind not in {"disk", "partition"}:
        return _made_of(fs, below[0])
    return listed([each.name for each in below], _NAMES_SHOWN)

"""The chunk of a striped device, which two different facts can tell."""

from __future__ import annotations

from ext4audit.evidence import Known
from ext4audit.facts.block import BlockDevice
from ext4audit.facts.host import Filesystem


def chunk_bytes(fs: Filesystem, device: BlockDevice) -> int | None:
    """Return the chunk of a device of the stack of `fs`, None where it has or shows none.

    An md array states it itself; that of an LVM stripe was read off the device-mapper table
    for the layout. md says 0 for levels without chunks (Documentation/admin-guide/md.rst).
    """
    if isinstance(device.md, Known):
        return device.md.value.chunk_bytes or None
    geometry = fs.layout.value.geometry if isinstance(fs.layout, Known) else None
    return geometry.chunk_bytes if geometry and geometry.device == device.name else None

"""What a path leads to, without opening what lies there."""

from __future__ import annotations

from ext4audit.facts.mount import DeviceNumber
from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path, resolved: the mount it lies on, its filesystem's number, and what it is.

    `type` is "file", "directory", "block" or "other". `represents` is the device that a block
    device node stands for, None for anything else.
    """

    mount_id: int
    device_number: DeviceNumber
    type: str
    represents: DeviceNumber | None = None

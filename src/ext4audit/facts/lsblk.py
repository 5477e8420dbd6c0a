"""Block devices as lsblk(8) lists them: the join of names, identifiers and device numbers."""

from __future__ import annotations

from ext4audit.facts.mount import DeviceNumber
from ext4audit.records import dataclass


@dataclass(frozen=True, slots=True)
class LsblkDevice:
    """One device of `lsblk`; a column that lsblk leaves empty is None.

    `name` is what a person reads ("vg0-data"), `kernel_name` the name in /sys ("dm-1").
    `fstype`, `uuid` and `label` are what libblkid or udev found on the device, whether or not
    it is mounted; `transport` is "sata", "nvme" and the like.
    """

    name: str
    kernel_name: str
    device_number: DeviceNumber
    fstype: str | None = None
    uuid: str | None = None
    label: str | None = None
    partuuid: str | None = None
    partlabel: str | None = None
    model: str | None = None
    transport: str | None = None

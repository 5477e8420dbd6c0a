"""Devices that carry the same UUID or label, and how to give a copy its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Known
from ext4audit.facts.devices import BlockDevice, LsblkDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EXT_FSTYPES, DeviceNumber
from ext4audit.finding import Disruption, Remedy
from ext4audit.remedies.superblock_fields import clear_label, new_uuid

PATH = re.compile(r"/dev/disk/by-(?P<kind>uuid|label)/(?P<value>.+)")
NUMBER_OF_A_PARTITION = re.compile(r"p?[0-9]+")
HIDDEN_LAYERS = ("-real", "-cow")
"""What device-mapper calls the layers below an LVM snapshot and its origin."""


@dataclass(frozen=True, slots=True)
class Twins:
    """Devices that have one identifier: `key` is UUID or LABEL."""

    key: str
    value: str
    devices: tuple[LsblkDevice, ...]

    @property
    def numbers(self) -> frozenset[DeviceNumber]:
        """Their device numbers."""
        return frozenset(row.device_number for row in self.devices)


@dataclass(frozen=True, slots=True)
class Layers:
    """Devices that others are made of: by number, and the names of disks among them."""

    numbers: frozenset[DeviceNumber]
    disks: frozenset[str]

    def hold(self, row: LsblkDevice) -> bool:
        """Whether a device, or the disk that it is a partition of, is a layer below another."""
        return row.device_number in self.numbers or any(
            NUMBER_OF_A_PARTITION.fullmatch(row.kernel_name.removeprefix(disk))
            for disk in self.disks
            if row.kernel_name.startswith(disk)
        )


def layers_below(host: Host) -> Layers:
    """Return the devices below filesystems, as far as their stacks could be seen.

    Of a partition's disk nothing follows: other partitions of it are filesystems of their own.
    """
    below = [each for fs in filesystems_seen(host) for each in _layers(fs)]
    return Layers(
        frozenset(device.device_number for device in below),
        frozenset(device.name for device in below if device.kind == "disk"),
    )


def filesystems_seen(host: Host) -> tuple[Filesystem, ...]:
    """Return all filesystems that were read, mounted or not."""
    idle = host.idle.value if isinstance(host.idle, Known) else ()
    return (*host.filesystems, *host.lower, *idle)


def _layers(fs: Filesystem) -> Iterator[BlockDevice]:
    """Yield what is below a filesystem's device, but no disk that is below as its partition."""
    stack = fs.stack.value if isinstance(fs.stack, Known) else None
    for device in stack.walk() if stack else ():
        if device.kind not in {"partition", "loop"}:
            yield from device.known_below


def filesystems_of(rows: Sequence[LsblkDevice], layers: Layers) -> tuple[LsblkDevice, ...]:
    """Return the devices with a filesystem of ext4's family, each once, layers left out.

    lsblk lists a device below each of its parents: an array once for every member.
    """
    found = {row.device_number: row for row in rows if row.fstype in EXT_FSTYPES}
    names = {row.name for row in found.values()}
    hidden = {f"{name}{ending}" for name in names for ending in HIDDEN_LAYERS}
    return tuple(r for r in found.values() if not layers.hold(r) and r.name not in hidden)


def twins_of(key: str, devices: Sequence[LsblkDevice]) -> tuple[Twins, ...]:
    """Return the devices that share a UUID or a label with another one."""
    groups: dict[str, list[LsblkDevice]] = {}
    for row in devices:
        value = row.uuid.lower() if key == "UUID" and row.uuid else row.label
        if value and (key == "LABEL" or row.uuid):
            groups.setdefault(value, []).append(row)
    return tuple(Twins(key, v, tuple(rows)) for v, rows in groups.items() if len(rows) > 1)


def identifier_of(spec: str) -> tuple[str, str] | None:
    """Return the kind and value by which fstab or root= names a device, None for a plain path."""
    path = PATH.fullmatch(spec)
    key, _, value = spec.partition("=")
    key, value = (path["kind"].upper(), path["value"]) if path else (key, value.strip('"'))
    if key not in {"UUID", "LABEL"} or not value:
        return None
    return key, value.lower() if key == "UUID" else value


def is_mounted(host: Host, row: LsblkDevice) -> bool:
    """Whether a device is known to be mounted, here or in another namespace."""
    mounts = host.mounts.value if isinstance(host.mounts, Known) else ()
    alive = (fs.device_number for fs in (*host.filesystems, *host.lower) if fs.alive)
    return row.device_number in {*(mount.device_number for mount in mounts), *alive}


def remedies(host: Host, twins: Twins) -> Iterator[Remedy]:
    """Yield a remedy for each copy: what is not mounted beside one that is.

    Where none or several are mounted, the copy cannot be distinguished from the original.
    """
    copies = [row for row in twins.devices if not is_mounted(host, row)]
    if len(twins.devices) - len(copies) != 1:
        kind = "UUID (tune2fs -U random)" if twins.key == "UUID" else "label (tune2fs -L)"
        yield Remedy(
            summary=f"Find out which is the copy, unmount it, and give it another {kind}; or name "
            "the wanted device by a path that only it has.",
            disruption=Disruption.UNMOUNT,
        )
        return
    for row in copies:
        give = new_uuid if twins.key == "UUID" else clear_label
        yield Remedy(
            summary=f"Give the copy {row.name} a {twins.key} of its own.",
            disruption=Disruption.ONLINE,
            steps=give(row.kernel_name, twins.value),
            trade_off="Right when what is mounted now is the original. Whatever else names the "
            f"copy by its old {twins.key} does not find it any more.",
        )

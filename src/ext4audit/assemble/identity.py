"""Which device an fstab field names: UUID=, LABEL=, PARTUUID=, PARTLABEL= or a path."""

from __future__ import annotations

from ext4audit.assemble.reading import ask, first_known
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive
from ext4audit.facts.lsblk import LsblkDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.resolved_path import ResolvedPath
from ext4audit.parsers.lsblk import parse_lsblk_json, parse_lsblk_pairs
from ext4audit.parsers.resolved_path import parse_resolved_path
from ext4audit.records import dataclass
from ext4audit.sources.ask import ResolvePath, RunCommand, Source

COLUMNS = "NAME,KNAME,MAJ:MIN,FSTYPE,UUID,LABEL,PARTUUID,PARTLABEL,MODEL,TRAN"
IDENTIFIERS = {
    "UUID": "uuid",
    "LABEL": "label",
    "PARTUUID": "partuuid",
    "PARTLABEL": "partlabel",
}
"""The keys of fstab(5)'s first field, and lsblk's column of each."""


def split_spec(spec: str) -> tuple[str, str] | None:
    """Return key and value of a specification by identifier, None for a path."""
    key, equals, value = spec.partition("=")
    return (key, value.strip('"')) if equals and "/" not in key else None


def list_devices(source: Source) -> Evidence[tuple[LsblkDevice, ...]]:
    """Ask lsblk for JSON, or for pairs where util-linux is older than 2.27."""
    return first_known(
        lambda: ask(source, RunCommand(("lsblk", "-J", "-o", COLUMNS)), parse_lsblk_json, "lsblk"),
        lambda: ask(source, RunCommand(("lsblk", "-P", "-o", COLUMNS)), parse_lsblk_pairs, "lsblk"),
    )


@dataclass(frozen=True, slots=True)
class Identifier:
    """Resolves device specifications: `uuids` are those that superblocks stated themselves."""

    source: Source
    devices: Evidence[tuple[LsblkDevice, ...]]
    uuids: dict[str, DeviceNumber]

    def resolve(self, spec: str) -> Evidence[DeviceNumber]:
        """Return the device that an fstab(5) first field names."""
        parts = split_spec(spec)
        if parts is None:
            return self._path(spec)
        key, value = parts
        if key == "UUID" and value.lower() in self.uuids:
            return Known(self.uuids[value.lower()], "superblock")
        return first_known(
            lambda: self._listed(key, value, spec),
            lambda: self._path(f"/dev/disk/by-{key.lower()}/{value}"),
        )

    def _path(self, path: str) -> Evidence[DeviceNumber]:
        node = ask(self.source, ResolvePath(path), parse_resolved_path, f"device {path}")
        return derive(f"device {path}", _represented, node)

    def _listed(self, key: str, value: str, spec: str) -> Evidence[DeviceNumber]:
        if isinstance(self.devices, Unknown):
            return self.devices
        attribute = IDENTIFIERS.get(key)
        for device in self.devices.value:
            found = getattr(device, attribute) if attribute else None
            if found is not None and same_identifier(key, value, found):
                return Known(device.device_number, self.devices.origin)
        return Unknown(
            f"device {spec}",
            Why.ABSENT,
            "no block device has it",
            "run as root: without udev, lsblk reads identifiers from the devices themselves",
        )


def same_identifier(key: str, wanted: str, found: str) -> bool:
    """Whether an identifier is the wanted one: "Data" and "data" are two labels, not one."""
    if key in {"UUID", "PARTUUID"}:
        return found.lower() == wanted.lower()
    return found == wanted


def _represented(node: ResolvedPath) -> DeviceNumber:
    if node.represents is None:
        raise ValueError("not a block device")
    return node.represents

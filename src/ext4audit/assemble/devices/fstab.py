"""The ext4 entries of /etc/fstab, and the device that each one names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ext4audit.assemble.reading import ask, first_known, read
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, value_or
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import (
    EXT_FSTYPES,
    DeviceNumber,
    FstabEntry,
    FstabLine,
    Mount,
    ResolvedPath,
)
from ext4audit.parsers.devices import parse_lsblk_json, parse_lsblk_pairs
from ext4audit.parsers.mounts import parse_fstab
from ext4audit.parsers.sysfs import parse_resolved_path
from ext4audit.sources.ask import RealPath, ResolvePath, RunCommand, Source

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


FSTAB = "/etc/fstab"


def read_fstab(
    source: Source,
    devices: Evidence[tuple[LsblkDevice, ...]],
    mounts: Sequence[Mount],
    filesystems: Sequence[Filesystem],
) -> Evidence[tuple[FstabEntry, ...]]:
    """Read the ext4 entries of fstab; a host without the file intends nothing by it."""
    reader = _Reader(source, devices, mounts, filesystems)
    lines = read(source, FSTAB, parse_fstab)
    if isinstance(lines, Unknown) and lines.why is Why.ABSENT:
        return Known((), f"{FSTAB} (absent)")
    return derive(
        FSTAB, lambda given: tuple(reader.entry(line) for line in given if _is_ext(line)), lines
    )


def names(entry: FstabEntry, fs: Filesystem) -> bool:
    """Whether an entry names this device, or may: its device is not found, its place is ours."""
    if isinstance(entry.device_number, Known):
        return entry.device_number.value == fs.device_number
    here = fs.device_number not in entry.other_devices
    return here and any(entry.is_for(mount) for mount in fs.mounts)


def _is_ext(line: FstabLine) -> bool:
    """Whether an entry is for the ext4 driver; "auto" may be, a bind mount is not an entry."""
    types = set(line.fstype.split(","))
    return bool(types & (EXT_FSTYPES | {"auto"})) and not {"bind", "rbind"} & set(line.options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Joins lines of fstab with what is known of devices, mounts and filesystems."""

    source: Source
    devices: Evidence[tuple[LsblkDevice, ...]]
    mounts: Sequence[Mount]
    filesystems: Sequence[Filesystem]

    def entry(self, line: FstabLine) -> FstabEntry:
        """Find the device that a line names; of several of that name, the one mounted there.

        An LVM snapshot mounted beside its origin else takes the origin's entry, and of two
        filesystems with one label the other one. Where nothing of that name is found, tell
        which of the mounted ones it certainly is not: `LABEL=gone` on a mount point that holds
        another label once passed as mounted, and the next boot failed.
        """
        uuids = {fs.uuid.lower(): fs.device_number for fs in self.filesystems if fs.uuid}
        found = Identifier(self.source, self.devices, uuids).resolve(line.spec)
        entry = FstabEntry(line, found, self._real(line.mount_point))
        if isinstance(found, Known) and split_spec(line.spec) is None:
            return entry
        there = [mount for mount in self.mounts if entry.is_for(mount)]
        verdicts = {mount.device_number: self._is(line.spec, found, mount) for mount in there}
        for number, (same, origin) in verdicts.items():
            if same:
                return FstabEntry(line, Known(number, origin), entry.real_mount_point)
        others = tuple(number for number, (same, _) in verdicts.items() if same is False)
        return FstabEntry(line, found, entry.real_mount_point, others)

    def _real(self, mount_point: str) -> str | None:
        """Resolve links in a mount point that the mount table does not show as it is written."""
        if any(mount.mount_point == mount_point for mount in self.mounts):
            return mount_point
        real = self.source.fetch(RealPath(mount_point))
        return value_or(real, "").removesuffix("\n") or None

    def _is(
        self, spec: str, found: Evidence[DeviceNumber], mount: Mount
    ) -> tuple[bool | None, str]:
        """Return whether a mounted device is the one of a specification, and who says so."""
        parts = split_spec(spec)
        if parts is not None:
            shown, origin = self._identifier(parts[0], mount.device_number)
            return (None if shown is None else same_identifier(*parts, shown)), origin
        if mount.source == spec:
            return True, "/proc/self/mountinfo"
        if isinstance(found, Unknown) and found.why is Why.ABSENT:
            return False, ""
        return self._holds(spec, mount.device_number)

    def _identifier(self, key: str, number: DeviceNumber) -> tuple[str | None, str]:
        """Return a device's identifier of one kind, "" for none, None where it cannot be seen."""
        fs = next((fs for fs in self.filesystems if fs.device_number == number), None)
        own = {"UUID": fs.uuid, "LABEL": fs.label}.get(key) if fs else None
        if own is not None:
            return own, "superblock"
        listed = value_or(self.devices, ())
        row = next((row for row in listed if row.device_number == number), None)
        if row is not None and row.fstype is not None and key in IDENTIFIERS:
            return getattr(row, IDENTIFIERS[key]) or "", _origin(self.devices)
        read_whole = fs is not None and isinstance(fs.superblock, Known)
        return ("", "superblock") if read_whole and key in {"UUID", "LABEL"} else (None, "")

    def _holds(self, path: str, number: DeviceNumber) -> tuple[bool | None, str]:
        """Return whether a loop device is over the image file that an entry names."""
        attribute = f"/sys/dev/block/{number}/loop/backing_file"
        backing = read(self.source, attribute, lambda text: text.removesuffix("\n"))
        if isinstance(backing, Unknown):
            return (False if backing.why is Why.ABSENT else None), attribute
        real = value_or(self.source.fetch(RealPath(path)), path).removesuffix("\n")
        return backing.value in {path, real}, attribute


def _origin(evidence: Evidence[object]) -> str:
    """Return where evidence was read, empty for a hole."""
    return evidence.origin if isinstance(evidence, Known) else ""

"""The ext4 entries of /etc/fstab, and the device that each entry names.

`DeviceResolver` resolves the first field of an entry (fstab(5)): a path, or an identifier as listed
by lsblk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from ext4audit.assemble import ask, first_known, is_absent, is_root, read
from ext4audit.assemble.superblock import device_node
from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Excerpt,
    Known,
    Unknown,
    Why,
    absent_means,
    derive,
    for_wording,
    origin_of,
)
from ext4audit.facts import cached_by_identity
from ext4audit.facts.devices import LsblkDevice, has_types, listed_device, unlisted_columns
from ext4audit.facts.host import Filesystem, filesystems_by_number
from ext4audit.facts.mount import (
    EXT_FSTYPES,
    DeviceNumber,
    FstabEntry,
    FstabLine,
    Mount,
    ResolvedPath,
    mounts_by_place,
)
from ext4audit.facts.superblock import (
    LINKS,
    NO_LINKS,
    SUPERBLOCK_KEYS,
    comparable,
    split_link,
    split_spec,
)
from ext4audit.parsers import parse_resolved_path
from ext4audit.parsers.devices_and_mounts import parse_fstab, parse_lsblk_json, parse_lsblk_pairs
from ext4audit.sources import ReadFile, RealPath, ResolvePath, RunCommand, Source

COLUMNS = "NAME,KNAME,MAJ:MIN,FSTYPE,UUID,LABEL,PARTUUID,PARTLABEL,MODEL,TRAN"
RAM_MAJOR = 1
IDENTIFIERS = {"UUID": "uuid", "LABEL": "label", "PARTUUID": "partuuid", "PARTLABEL": "partlabel"}
"""The keys of the first field of fstab(5), and the attribute of `LsblkDevice` for each."""
_Identifiers: TypeAlias = tuple[Mapping[tuple[str, str], DeviceNumber], Unknown | None]


def list_devices(source: Source) -> Evidence[tuple[LsblkDevice, ...]]:
    """List block devices with `lsblk -J`, or with `lsblk -P` before util-linux 2.27."""
    return first_known(
        lambda: ask(source, RunCommand(("lsblk", "-J", "-o", COLUMNS)), parse_lsblk_json, "lsblk"),
        lambda: ask(source, RunCommand(("lsblk", "-P", "-o", COLUMNS)), parse_lsblk_pairs, "lsblk"),
    )


def without_contradiction(
    devices: Evidence[tuple[LsblkDevice, ...]], filesystems: Sequence[Filesystem]
) -> Evidence[tuple[LsblkDevice, ...]]:
    """Return the devices, Unknown if lsblk does not list a mounted device.

    In a chroot or without /sys, lsblk prints nothing and exits with 0, as it does if its output is
    cut off. It never lists RAM disks. A device that a working /sys does not have was removed.
    """
    if isinstance(devices, Unknown):
        return devices
    listed = {device.device_number for device in devices.value}
    missing = [
        fs
        for fs in filesystems
        if fs.device_number not in listed
        and fs.device_number.major != RAM_MAJOR
        and not (listed and is_absent(fs.stack))
    ]
    if not missing:
        return devices
    in_sysfs = any(isinstance(fs.stack, Known) for fs in missing)
    return Unknown(
        "block devices",
        Why.FAILED,
        f"{devices.origin} does not list {', '.join(fs.name for fs in missing)}",
        "check what lsblk prints: /sys shows these devices" if in_sysfs else "mount /sys",
    )


NOT_PROBED = Unknown("identifiers", Why.UNSUPPORTED, "lsblk shows no identifiers without udev")


class DeviceResolver(NamedTuple):
    """Resolver for the first field of fstab entries; `uuids` are read from superblocks.

    UUIDs are compared as text, as in mount(8): an uppercase UUID matches no device.
    Without udev, lsblk shows no identifiers, so they are looked up in the superblocks: `probed` has
    the filesystems on all devices, and is Unknown if not all of them were read.
    """

    source: Source
    devices: Evidence[tuple[LsblkDevice, ...]]
    uuids: dict[str, DeviceNumber]
    probed: Evidence[tuple[Filesystem, ...]] = NOT_PROBED

    def resolve(self, spec: str) -> Evidence[DeviceNumber]:
        """Return the device that the first field names; ID= exists only as a udev link."""
        parts = split_spec(spec)
        link = f"{LINKS}{parts[0].lower()}/{parts[1]}" if parts else spec
        if parts is None or parts[0] == "ID":
            found = self._path(link)
            return self._unlinked(link, found) if is_absent(found) else found
        return first_known(lambda: self._listed(*parts, spec), lambda: self._path(link))

    def _unlinked(self, path: str, found: Unknown) -> Evidence[DeviceNumber]:
        """Return the device of a missing link: without udev, nothing creates the links."""
        parts = split_link(path)
        if parts is not None:
            return self._listed(*parts, path)
        has_udev = isinstance(self.devices, Known) and has_types(self.devices.value)
        return found if has_udev or not path.startswith(LINKS) else NO_LINKS

    def _listed(self, key: str, value: str, spec: str) -> Evidence[DeviceNumber]:
        if key == "UUID" and value in self.uuids:
            return Known(self.uuids[value], "superblock")
        if isinstance(self.devices, Unknown):
            return self.devices
        number = _identified(self.devices.value).get((key, value))
        if number is not None:
            return Known(number, self.devices.origin)
        if not has_types(self.devices.value):
            return self._probed(key, value, spec)
        if key in unlisted_columns(self.devices.value):
            return Unknown(f"device {spec}", Why.NOT_CAPTURED, f"{key} of no device is listed")
        return self._absent(spec)

    def _probed(self, key: str, value: str, spec: str) -> Evidence[DeviceNumber]:
        """Return the device whose superblock has an identifier: a UUID or label, not a PARTUUID."""
        probed = self.probed
        if isinstance(probed, Unknown):
            return Unknown(f"device {spec}", probed.why, probed.detail, probed.hint or self._hint)
        devices, gap = _probed_identifiers(probed.value)[key if key in SUPERBLOCK_KEYS else ""]
        number = devices.get((key, value))
        if number is not None:
            return Known(number, "superblock")
        if gap is not None:
            return replace(gap, what=f"device {spec}")
        if key in SUPERBLOCK_KEYS:
            return self._absent(spec)
        return Unknown(f"device {spec}", NOT_PROBED.why, NOT_PROBED.detail, self._hint)

    def _absent(self, spec: str) -> Unknown:
        return Unknown(f"device {spec}", Why.ABSENT, "no block device has it", self._hint)

    @property
    def _hint(self) -> str:
        return "" if is_root(self.source) else "run as root"

    def _path(self, path: str) -> Evidence[DeviceNumber]:
        node = ask(self.source, ResolvePath(path), parse_resolved_path, f"device {path}")
        return derive(f"device {path}", _represented, node)


@cached_by_identity
def _identified(devices: tuple[LsblkDevice, ...]) -> Mapping[tuple[str, str], DeviceNumber]:
    """Map each identifier (key, value) to the first device that has it."""
    return {
        (key, value): device.device_number
        for device in reversed(devices)
        for key, attribute in IDENTIFIERS.items()
        if (value := getattr(device, attribute)) is not None
    }


@cached_by_identity
def _probed_identifiers(filesystems: tuple[Filesystem, ...]) -> Mapping[str, _Identifiers]:
    """Map each key to its identifiers in superblocks; "" stands for keys that they do not have."""
    return {key: _identifiers_of(key, filesystems) for key in (*SUPERBLOCK_KEYS, "")}


def _identifiers_of(key: str, filesystems: tuple[Filesystem, ...]) -> _Identifiers:
    """Return the devices before the first unreadable superblock, and that superblock's gap."""
    devices: dict[tuple[str, str], DeviceNumber] = {}
    for fs in filesystems:
        shown = {"UUID": fs.uuid, "LABEL": fs.label}.get(key)
        if shown:
            devices.setdefault((key, shown), fs.device_number)
        elif shown is None and isinstance(fs.superblock, Unknown):
            return devices, fs.superblock
    return devices, None


def _represented(node: ResolvedPath) -> DeviceNumber:
    if node.represents is None:
        raise ValueError("not a block device")
    return node.represents


FSTAB = "/etc/fstab"
KERNELS_ROOT = "/dev/root"
"""The source of a root filesystem that the kernel itself mounted; often the node is missing."""


def read_fstab(
    source: Source,
    devices: Evidence[tuple[LsblkDevice, ...]],
    mounts: tuple[Mount, ...],
    filesystems: tuple[Filesystem, ...],
    unmounted: Evidence[tuple[Filesystem, ...]] = NOT_PROBED,
) -> Evidence[tuple[FstabEntry, ...]]:
    """Read the ext4 entries of fstab, empty if the file does not exist."""
    uuids = {fs.uuid: fs.device_number for fs in filesystems if fs.uuid}
    probed = derive("filesystems", lambda found: (*filesystems, *found), unmounted)
    resolver = DeviceResolver(source, devices, uuids, probed)
    reader = _EntryReader(source, devices, mounts, filesystems, resolver)
    lines = absent_means(read(source, FSTAB, parse_fstab), ())
    if isinstance(source.fetch(ReadFile(FSTAB)), Excerpt):
        lines = derive(FSTAB, _without_numbers, lines)
    return derive(
        FSTAB,
        lambda given: tuple(reader.entry(line) for line in given if _is_ext(line)),
        lines,
    )


def _without_numbers(lines: tuple[FstabLine, ...]) -> tuple[FstabLine, ...]:
    """Return lines whose numbers are not those in the host's file."""
    return tuple(line._replace(is_numbered=False) for line in lines)


class EntriesByDevice:
    """The entries of fstab by device, or by mount point if the device is unknown."""

    def __init__(self, entries: Sequence[FstabEntry]) -> None:
        self._naming: dict[DeviceNumber, list[tuple[int, FstabEntry]]] = {}
        self._unknown: dict[str, list[tuple[int, FstabEntry]]] = {}
        for position, entry in enumerate(entries):
            number = entry.device_number
            if isinstance(number, Known):
                self._naming.setdefault(number.value, []).append((position, entry))
            else:
                self._unknown.setdefault(entry.place, []).append((position, entry))

    def has_unresolved(self, fs: Filesystem) -> bool:
        """Return whether an entry has an unknown device that may be the filesystem's."""
        unresolved = (entry for same in self._unknown.values() for _, entry in same)
        return any(fs.device_number not in entry.other_devices for entry in unresolved)

    def that_may_name(self, fs: Filesystem) -> tuple[FstabEntry, ...]:
        """Return the entries that name a filesystem, or its mount point with an unknown device."""
        found = dict(self._naming.get(fs.device_number, ()))
        for place in {mount.mount_point for mount in fs.mounts}:
            entries = self._unknown.get(place, ())
            found.update(each for each in entries if fs.device_number not in each[1].other_devices)
        return tuple(found[position] for position in sorted(found))


def with_fstab(
    filesystems: Iterable[Filesystem], fstab: Evidence[tuple[FstabEntry, ...]]
) -> tuple[Filesystem, ...]:
    """Attach to each filesystem the fstab entries that name it, or that may name it."""
    if isinstance(fstab, Unknown):
        return tuple(fs._replace(fstab=fstab) for fs in filesystems)
    entries = EntriesByDevice(fstab.value)
    return tuple(fs._replace(fstab=_entries_of(fs, entries, fstab.origin)) for fs in filesystems)


def _entries_of(
    fs: Filesystem, entries: EntriesByDevice, origin: str
) -> Evidence[tuple[FstabEntry, ...]]:
    """Return the entries of a filesystem; an unresolved entry is assigned by mount point."""
    if fs.unlisted and fs.alive and entries.has_unresolved(fs):
        return fs.unlisted
    return Known(entries.that_may_name(fs), origin)


def _is_ext(line: FstabLine) -> bool:
    """Return whether the ext4 driver may serve an entry: true for "auto", not for bind mounts."""
    types = set(line.fstype.split(","))
    return bool(types & (EXT_FSTYPES | {"auto"})) and not {"bind", "rbind"} & set(line.options)


class _EntryReader(NamedTuple):
    """Reader that joins lines of fstab with devices, mounts and filesystems."""

    source: Source
    devices: Evidence[tuple[LsblkDevice, ...]]
    mounts: tuple[Mount, ...]
    filesystems: tuple[Filesystem, ...]
    resolver: DeviceResolver

    def entry(self, line: FstabLine) -> FstabEntry:
        """Return the entry of a line, with the device that it names.

        If several devices have the identifier, the one mounted on the entry's mount point is
        taken: an LVM snapshot has the UUID of its origin. `other_devices` are mounted there but
        have another identifier: the entry does not name them, and the next boot fails.
        """
        found = self.resolver.resolve(line.spec)
        entry = FstabEntry(line, found, self._real(line.mount_point))
        if isinstance(found, Known) and split_spec(line.spec) is None:
            return entry
        there = entry.mounted_there(self.mounts)
        matches = {mount.device_number: self._matches(line.spec, found, mount) for mount in there}
        for number, (same, origin) in matches.items():
            if same:
                return FstabEntry(line, Known(number, origin), entry.real_mount_point)
        others = tuple(number for number, (same, _) in matches.items() if same is False)
        return FstabEntry(line, found, entry.real_mount_point, others)

    def _real(self, mount_point: str) -> str | None:
        """Return the mount point of an entry with its symbolic links resolved, None if unknown."""
        if mount_point in mounts_by_place(self.mounts):
            return mount_point
        real = self.source.fetch(RealPath(mount_point))
        return for_wording(real, "").removesuffix("\n") or None

    def _matches(
        self, spec: str, found: Evidence[DeviceNumber], mount: Mount
    ) -> tuple[bool | None, str]:
        """Return whether a mounted device is the one named (None if unknown), and the origin."""
        same, origin = self._has_identifier(split_spec(spec) or split_link(spec), mount)
        if same or split_spec(spec):
            return same, origin
        if mount.source == spec or (spec == KERNELS_ROOT and mount.mount_point == "/"):
            return True, MOUNT_TABLE
        if is_absent(found):
            return (False if self._has_node(mount.device_number) else None), ""
        same, origin = self._is_backed_by(spec, mount.device_number)
        # A device that is not backed by the path is ruled out only if the path was resolved.
        node = ask(self.source, ResolvePath(spec), parse_resolved_path, spec)
        return (None if same is False and isinstance(node, Unknown) else same), origin

    def _has_node(self, number: DeviceNumber) -> bool:
        """Return whether /dev has the device's node; a /dev without it is not the host's."""
        fs = filesystems_by_number(self.filesystems).get(number)
        return fs is None or isinstance(device_node(self.source, fs.device, number), Known)

    def _has_identifier(
        self, parts: tuple[str, str] | None, mount: Mount
    ) -> tuple[bool | None, str]:
        shown, origin = self._identifier(parts[0], mount.device_number) if parts else (None, "")
        if parts is None or shown is None:
            return None, origin
        return comparable(*parts) == comparable(parts[0], shown), origin

    def _identifier(self, key: str, number: DeviceNumber) -> tuple[str | None, str]:
        """Return the identifier of a device ("" for none, None if unknown) and its origin."""
        fs = filesystems_by_number(self.filesystems).get(number)
        own = {"UUID": fs.uuid, "LABEL": fs.label}.get(key) if fs else None
        if own is not None:
            return own, "superblock"
        listed = for_wording(self.devices, ())
        row = listed_device(listed, number)
        is_shown = key in IDENTIFIERS and key not in unlisted_columns(listed)
        if is_shown and row is not None and row.fstype is not None:
            return getattr(row, IDENTIFIERS[key]) or "", origin_of(self.devices)
        read_whole = fs is not None and isinstance(fs.superblock, Known)
        return ("", "superblock") if read_whole and key in SUPERBLOCK_KEYS else (None, "")

    def _is_backed_by(self, path: str, number: DeviceNumber) -> tuple[bool | None, str]:
        """Return whether a device is a loop device backed by the image file at `path`."""
        attribute = f"/sys/dev/block/{number}/loop/backing_file"
        backing = read(self.source, attribute, lambda text: text.removesuffix("\n"))
        if isinstance(backing, Unknown):
            return (False if backing.why is Why.ABSENT else None), attribute
        real = for_wording(self.source.fetch(RealPath(path)), path).removesuffix("\n")
        return backing.value in {path, real}, attribute

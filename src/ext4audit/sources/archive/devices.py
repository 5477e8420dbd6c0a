"""Read the block devices of a host, and their blkid values, from the listings in its archive.

Archives contain neither device nodes nor `/sys/dev`. Device numbers are found in listings of /dev,
/proc/partitions, /proc/diskstats, lsblk and, for mounted devices, mountinfo.
"""

from __future__ import annotations

import posixpath
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ext4audit.evidence import MOUNT_TABLE
from ext4audit.sources.archive.capture import Capture, output_of, text_of
from ext4audit.sources.archive.tool_output import Row, lsblk_rows
from ext4audit.sources.containers import MOST_LINKS

LISTINGS_OF_DEV = ("ls -lanR /dev", "ls -alZR /dev", "ls -alZRn /dev/", "ls -alZRn /dev")
"""The commands of sos until 4.7 and since; -Z prints the SELinux context or "?" before the size."""
_OWNER = r"\s+\d+\s+\S+\s+\S+(?:\s+(?!\d)\S+)?\s+"
_TIME = r"\s+\S+\s+\S+\s+\S+\s"
_NODE = re.compile(rf"b[rwxsStT-]{{9}}\S?{_OWNER}(\d{{1,9}}),\s*(\d{{1,9}}){_TIME}(\S.*)")
_LINK = re.compile(rf"l[rwx-]{{9}}\S?{_OWNER}\d+{_TIME}(\S.*?) -> (\S.*)")
_KERNEL_LIST = re.compile(r"\s*(\d{1,9})\s+(\d{1,9})\s+(?:(\d{1,19})\s+)?([^\s\d]\S*)(?:\s.*)?")
_INFO_ROW = re.compile(r"(\S+)\s+(\d{1,19})\s+(\d{1,19})\s+\S+\s+\d+\s+\d+\s+\d+(?:\s+(\S+))?\s*")
MOUNT_TABLES = (MOUNT_TABLE, "/proc/1/mountinfo")
_MOUNTED_MAPPER = re.compile(
    r"^\d+ \d+ (\d{1,9}:(\d{1,9})) [^\n]* - ext[234] /dev/mapper/([^ /\\\n]+) \S+$", re.MULTILINE
)
MAPPER_LISTS = ("dmsetup info -c", "dmsetup info -C")
"""The command lines of sos and of Insights."""
BLKID_COMMANDS = ("blkid -c /dev/null", "blkid")
_BLKID_PAIR = re.compile(r'(?<![A-Z0-9_])([A-Z][A-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_UNSAFE = re.compile(r'["\\`$\x00-\x1f]')
_SUPERBLOCK_COLUMNS = {"FSTYPE": "TYPE", "UUID": "UUID", "LABEL": "LABEL"}
_BLKID_COLUMNS = {**_SUPERBLOCK_COLUMNS, "PARTUUID": "PARTUUID", "PARTLABEL": "PARTLABEL"}
"""The columns of lsblk and their keys in blkid; older blkid versions print no partition keys."""


@dataclass(slots=True)
class Device:
    """A block device; `parent` is the number of a partition's disk, `mapper` its dm name."""

    number: str
    name: str
    parent: str | None = None
    mapper: str | None = None
    mapper_uuid: str = ""
    size_kib: int | None = None
    row: Row | None = None


@dataclass(slots=True)
class DeviceTable:
    """The devices by number, and the paths of nodes and links to them.

    `is_whole` is true if a list of the kernel was captured; that of lsblk may be truncated.
    """

    by_number: dict[str, Device] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    is_whole: bool = False
    _by_name: dict[str, Device] = field(default_factory=dict)

    def named(self, name: str) -> Device | None:
        """Return the device with a name as in /sys ("dm-0", "cciss!c0d0"), or None."""
        return self._by_name.get(name)

    def number_of(self, path: str) -> str | None:
        """Return the number of the device that a path below /dev leads to, or None."""
        for _ in range(MOST_LINKS):
            if path in self.nodes:
                return self.nodes[path]
            if path not in self.links:
                return None
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), self.links[path]))
        return None

    def paths(self) -> dict[str, tuple[str, ...]]:
        """Return all paths that lead to each device, by device number."""
        found: dict[str, list[str]] = {}
        for path in dict.fromkeys((*self.nodes, *self.links)):
            number = self.number_of(path)
            if number is not None:
                found.setdefault(number, []).append(path)
        return {number: tuple(paths) for number, paths in found.items()}

    def add(self, number: str, name: str) -> Device:
        """Return the device with a number; a new one is created with this name."""
        device = self.by_number.setdefault(number, Device(number, name.replace("/", "!")))
        self._by_name.setdefault(device.name, device)
        self.nodes.setdefault(f"/dev/{device.name.replace('!', '/')}", number)
        return device


def read_devices(capture: Capture) -> DeviceTable:
    """Read all listings; an entry that contradicts an earlier one is ignored."""
    table = DeviceTable()
    _add_kernel_lists(table, capture)
    table.is_whole = bool(table.by_number)
    _add_mounted_mappers(table, capture)
    for line in LISTINGS_OF_DEV:
        _add_nodes(table, output_of(capture, line).text)
    for row in lsblk_rows(capture):
        _add_row(table, row)
    _add_mapper_names(table, capture)
    names = {device.name: device.number for device in table.by_number.values()}
    for device in table.by_number.values():
        device.parent = _disk_of(device.name, names)
    return table


def blkid_values(capture: Capture) -> dict[str, dict[str, str]]:
    """Return the keys and values of each device in the output of blkid, by path."""
    rows = (line.partition(": ") for line in output_of(capture, *BLKID_COMMANDS).text.split("\n"))
    return {
        path: {key: re.sub(r"\\(.)", r"\1", value) for key, value in _BLKID_PAIR.findall(rest)}
        for path, colon, rest in rows
        if colon
    }


def lsblk_pairs(
    capture: Capture, devices: DeviceTable, blkid: Mapping[str, Mapping[str, str]]
) -> tuple[str, str] | None:
    r"""Return lines of `lsblk -P` for all devices, and their origin, or None if there are none.

    Lines that lsblk printed are returned unchanged; the others are composed from blkid and device
    numbers, with lsblk's \xHH escapes. Composed lines omit columns that no program printed, because
    a truncated lsblk may lack devices that blkid has.
    """
    values = {devices.number_of(path): found for path, found in blkid.items()}
    known = devices.by_number.values()
    printed = [device.row.origin for device in known if device.row and device.row.pairs]
    of_partitions = any("PARTUUID" in found for found in blkid.values())
    lines = []
    for device in known:
        found = values.get(device.number, {})
        is_whole = of_partitions or (printed and not found)
        lines.append(_line(device, found, _BLKID_COLUMNS if is_whole else _SUPERBLOCK_COLUMNS))
    origin = next(iter(printed), output_of(capture, *BLKID_COMMANDS).origin)
    return ("\n".join(lines) + "\n", origin or "/proc/partitions") if lines else None


def numbers_in(fields: Iterable[str]) -> tuple[str, ...]:
    """Return the fields that are device numbers, in order and without duplicates."""
    numbers = (field for field in fields if re.fullmatch(r"\d{1,9}:\d{1,9}", field))
    return tuple(dict.fromkeys(numbers))


def _add_kernel_lists(table: DeviceTable, capture: Capture) -> None:
    """Add the devices in /proc/partitions and /proc/diskstats, which have kernel names."""
    for line in text_of(capture, "/proc/partitions").split("\n"):
        found = _KERNEL_LIST.fullmatch(line)
        if found and found[3]:
            table.add(f"{found[1]}:{found[2]}", found[4]).size_kib = int(found[3])
    for line in text_of(capture, "/proc/diskstats").split("\n"):
        found = _KERNEL_LIST.fullmatch(line)
        if found and not found[3]:
            table.add(f"{found[1]}:{found[2]}", found[4])


def _add_mounted_mappers(table: DeviceTable, capture: Capture) -> None:
    """Add the mapped devices of mountinfo, whose kernel names follow from their numbers."""
    for path in MOUNT_TABLES:
        for number, minor, name in _MOUNTED_MAPPER.findall(text_of(capture, path)):
            _name_mapper(table, table.add(number, f"dm-{minor}"), name)


def _add_nodes(table: DeviceTable, listing: str) -> None:
    """Add the nodes and links in a listing of /dev, whose first heading may end with a slash."""
    folder = "/dev"
    for line in listing.split("\n"):
        if line.startswith("/dev") and line.endswith(":"):
            folder = line[:-1].rstrip("/")
        node, link = _NODE.fullmatch(line), _LINK.fullmatch(line)
        if node:
            number, path = f"{node[1]}:{node[2]}", f"{folder}/{node[3]}"
            table.nodes[path] = number
            if not path.startswith("/dev/mapper/"):
                table.add(number, path.removeprefix("/dev/"))
        elif link:
            table.links[f"{folder}/{link[1]}"] = link[2]


def _add_row(table: DeviceTable, row: Row) -> None:
    if row.number is None:
        device = table.named(row.name) or _mapped(table, row.name)
    else:
        device = table.by_number.get(row.number)
        if device is None and row.kernel_name:
            device = table.add(row.number, row.kernel_name)
    if device is None:
        return
    device.row = device.row.merged(row) if device.row else row
    if device.name.startswith("dm-"):
        _name_mapper(table, device, row.name)


def _mapped(table: DeviceTable, name: str) -> Device | None:
    number = table.nodes.get(f"/dev/mapper/{name}")
    return table.by_number.get(number) if number else None


def _add_mapper_names(table: DeviceTable, capture: Capture) -> None:
    """Add dm names from nodes and links in /dev/mapper, and from dmsetup."""
    for path in (*table.nodes, *table.links):
        number = table.number_of(path)
        if path.startswith("/dev/mapper/") and number in table.by_number:
            _name_mapper(table, table.by_number[number], path.removeprefix("/dev/mapper/"))
    for line in output_of(capture, *MAPPER_LISTS).text.split("\n"):
        found = _INFO_ROW.fullmatch(line)
        if found:
            device = table.add(f"{found[2]}:{found[3]}", f"dm-{found[3]}")
            _name_mapper(table, device, found[1])
            device.mapper_uuid = found[4] or ""


def _name_mapper(table: DeviceTable, device: Device, name: str) -> None:
    device.mapper = device.mapper or name
    table.nodes.setdefault(f"/dev/mapper/{name}", device.number)


def _disk_of(name: str, names: dict[str, str]) -> str | None:
    """Return the device number of the disk whose partition has this name, or None.

    If a disk's name ends with a digit, the kernel adds a "p" before the partition number
    (block/partitions/core.c, add_partition).
    """
    disk = name.rstrip(string.digits)
    if disk == name:
        return None
    if disk not in names and disk.endswith("p") and disk[-2:-1].isdigit():
        disk = disk[:-1]
    return names.get(disk)


def _line(device: Device, values: Mapping[str, str], shown: Mapping[str, str]) -> str:
    if device.row and device.row.pairs:
        return device.row.pairs
    columns = {
        "NAME": device.mapper or device.name,
        "KNAME": device.name,
        "MAJ:MIN": device.number,
        **{column: values.get(key, "") for column, key in shown.items()},
    }
    model = dict(device.row.attributes).get("device/model") if device.row else None
    if model is not None:
        columns["MODEL"] = model
    return " ".join(f'{key}="{_quoted(value)}"' for key, value in columns.items())


def _quoted(value: str) -> str:
    return _UNSAFE.sub(lambda found: f"\\x{ord(found[0]):02x}", value)

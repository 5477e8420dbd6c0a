"""Compose the sysfs attributes of block devices from other files and outputs in an archive.

`udevadm info -a` prints attributes of a device (those in subfolders since systemd 247, and never a
value that begins with "/"); lsblk, mdadm, losetup, fdisk and /proc/partitions provide the rest.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cached_property

from ext4audit.evidence import Evidence, Known
from ext4audit.sources.archive.capture import Capture, Output, output_of
from ext4audit.sources.archive.devices import Device, DeviceTable, numbers_in
from ext4audit.sources.archive.md import Arrays
from ext4audit.sources.archive.mounts import mounted_files

LISTINGS = "listings of block devices"
Attributes = dict[str, Known[str]]
_ATTRIBUTE = re.compile(r'^    ATTR\{([^}\n]+)\}=="(.*)"$', re.MULTILINE)
_MODEL = re.compile(r'^    ATTRS\{model\}=="(.*)"$', re.MULTILINE)
"""The model attribute of a parent device; the first parent of a disk is its `device`."""
_LOSETUP = re.compile(r"(/dev/loop\d+): \[\w*\]:\d+ \((.*)\)(?:, offset (\d{1,19}).*)?")
_PARTITION = re.compile(r"(/dev/\S+)\s+(?:\*\s+)?(\d{1,19})\s+\d+\s+\d+\s.*")
_UNIT = re.compile(r"^Units(?=.*\bsectors\b).*= (\d{1,19}) bytes", re.MULTILINE)
_PARTED = re.compile(r"\s*(\d{1,4})\s+(\d{1,19})s\s.*")
_PARTED_UNIT = re.compile(r"^Sector size \(logical/physical\): (\d{1,6})B/", re.MULTILINE)
_BLOCK = re.compile(r"/sys/(?:dev/block/(\d+:\d+)|(?:class/)?block/([^/]+))(?:/(.*))?")
_PROPERTY = re.compile(r"^E: ([^=\n]+)=(.*)$", re.MULTILINE)


class ArchiveSysfs:
    """Attributes and directories of block devices in /sys, and their udev properties."""

    def __init__(self, capture: Capture, devices: DeviceTable) -> None:
        self._capture = capture
        self._devices = devices
        self._attributes = AttributeCollector(capture, devices)
        self.mapper = self._attributes.mapper

    def read(self, path: str) -> Evidence[str] | None:
        """Return the text of an attribute, or None if it is not in the archive."""
        device, rest = self._locate(path)
        if device is None or not rest:
            return None
        copied = (
            self._capture.read(f"{directory}/{rest}") for directory in self._directories(device)
        )
        found = next((each for each in copied if each is not None), None)
        if isinstance(found, Known) and found.value:
            return found
        # An empty or truncated file may be genuine: the level of an inactive array is empty.
        return self._attributes.attributes(device).get(rest) or found

    def children(self, path: str) -> Evidence[str] | None:
        """Return the names in a directory, separated by NUL, or None if they are unknown."""
        device, rest = self._locate(path)
        if device is None:
            return None
        for directory in self._directories(device):
            names = self._capture.children(f"{directory}/{rest}")
            if names is not None:
                return Known("\0".join(names), path)
        if rest == "slaves":
            return self._attributes.below(device)
        prefix = f"{rest}/" if rest else ""
        attributes = self._attributes.attributes(device)
        inside = [name.removeprefix(prefix) for name in attributes if name.startswith(prefix)]
        found = sorted({name.partition("/")[0] for name in inside})
        return Known("\0".join(found), path) if found and rest else None

    def properties(self, number: str) -> Evidence[str] | None:
        """Return udev properties as KEY=value lines, or None if they are not in the archive."""
        device = self._devices.by_number.get(number)
        if device is None:
            return None
        output = output_of(self._capture, *udev_lines(device))
        lines = sorted(f"{key}={value}" for key, value in _PROPERTY.findall(output.text))
        return Known("\n".join(lines), output.origin) if lines else None

    def _locate(self, path: str) -> tuple[Device | None, str]:
        """Return the device of a path in /sys, or None, and the path below its directory."""
        found = _BLOCK.fullmatch(path)
        if found is None:
            return None, ""
        known = self._devices
        device = known.by_number.get(found[1]) if found[1] else known.named(found[2])
        rest = found[3] or ""
        while device is not None and rest.partition("/")[0] in {"..", "slaves"}:
            first, _, after = rest.partition("/")
            if first == ".." and device.parent:
                device, rest = known.by_number.get(device.parent), after
            elif first == "slaves" and after:
                name, _, rest = after.partition("/")
                device = known.named(name)
            else:
                break
        return device, rest

    def _directories(self, device: Device) -> Iterator[str]:
        """Yield the paths at which an archive may contain the directory of a device."""
        disk = self._devices.by_number.get(device.parent) if device.parent else None
        yield f"/sys/block/{disk.name}/{device.name}" if disk else f"/sys/block/{device.name}"
        yield f"/sys/class/block/{device.name}"
        yield f"/sys/dev/block/{device.number}"


class AttributeCollector:
    """Collects the attributes of each device once, from several texts.

    Texts about all devices are indexed only once, because a host can have thousands of devices.
    """

    def __init__(self, capture: Capture, devices: DeviceTable) -> None:
        self._capture = capture
        self._devices = devices
        self._known: dict[str, Attributes] = {}
        self._arrays = Arrays(capture)
        self._starts: dict[str, dict[str, Known[str]]] = {}
        self.mapper = Mapper(capture)

    def attributes(self, device: Device) -> Attributes:
        """Return all known attributes, by path below the directory of the device."""
        if device.number not in self._known:
            self._known[device.number] = self._collect(device)
        return self._known[device.number]

    def below(self, device: Device) -> Evidence[str] | None:
        """Return the names of the underlying devices, "" for a disk, or None if unknown."""
        if device.mapper:
            return self._below_mapper(device.mapper)
        members = self._members(device)
        if members:
            names = sorted(member.removeprefix("dev-") for member in members)
            return Known("\0".join(names), f"members of {device.name}")
        unseen = device.name.startswith(("md", "dm-", "bcache", "drbd", "loop"))
        return None if unseen else Known("", LISTINGS)

    def _members(self, device: Device) -> set[str]:
        """Return the member directories of an array, from sysfs (sos since 4.0) and from mdadm."""
        copied = self._capture.children(f"/sys/block/{device.name}/md") or ()
        found = (key.partition("/")[2] for key in self.attributes(device) if key.startswith("md/"))
        names = (*copied, *(key.partition("/")[0] for key in found))
        return {name for name in names if name.startswith("dev-")}

    def _below_mapper(self, name: str) -> Evidence[str] | None:
        table = self.mapper.lines("table", name)
        if table is None:
            return None
        fields = (word for line in table.text.split("\n") for word in line.split())
        known = [self._devices.by_number.get(number) for number in numbers_in(fields)]
        names = [device.name for device in known if device is not None]
        return Known("\0".join(sorted(names)), table.origin) if len(names) == len(known) else None

    def _collect(self, device: Device) -> Attributes:
        """Merge the attributes from all texts; later texts take precedence."""
        found: Attributes = {}
        if device.size_kib is not None:
            found["size"] = Known(f"{device.size_kib * 2}\n", "/proc/partitions")
        if device.row:
            found |= {key: Known(value, device.row.origin) for key, value in device.row.attributes}
        found |= self._loop(device) | self._start(device) | self._md(device) | self._udev(device)
        if device.mapper:
            found["dm/name"] = Known(device.mapper, LISTINGS)
            found.setdefault("dm/uuid", Known(device.mapper_uuid, LISTINGS))
        found["dev"] = Known(device.number, LISTINGS)
        if self._is_whole(device, found):
            found["uevent"] = Known(_uevent(device), LISTINGS)
        return found

    def _is_whole(self, device: Device, found: Attributes) -> bool:
        """Return whether enough is known to determine the kind of device.

        Without this check, an array or mapped device of which only the name is known would look
        like a plain disk, and its stripe would be missed.
        """
        if device.parent:
            return True
        if device.name.startswith("md"):
            copied = self._capture.read(f"/sys/block/{device.name}/md/level")
            return "md/level" in found or isinstance(copied, Known)
        return "dm/name" in found or not device.name.startswith("dm-")

    def _udev(self, device: Device) -> Attributes:
        found: Attributes = {}
        for line in (
            f"udevadm info -ap /sys/block/{device.name}",
            f"udevadm info -a {_path(device)}",
        ):
            output = output_of(self._capture, line)
            own, *parents = output.text.split("looking at parent device", 2)
            found |= {key: Known(value, output.origin) for key, value in _ATTRIBUTE.findall(own)}
            model = _MODEL.search(parents[0]) if parents and not device.parent else None
            if model:
                found["device/model"] = Known(model[1], output.origin)
        return found

    def _md(self, device: Device) -> Attributes:
        if not device.name.startswith("md") or device.parent:
            return {}

        def name_of(number: str) -> str | None:
            member = self._devices.by_number.get(number)
            return member.name if member else None

        found = self._arrays.attributes(device.name, name_of)
        return {f"md/{key}": Known(value, "mdadm, /proc/mdstat") for key, value in found.items()}

    def _loop(self, device: Device) -> Attributes:
        listed = self._losetup.get(_path(device))
        if listed is not None:
            return listed
        mounted = self._mounted_files.get(device.number) if "loop" in device.name else None
        return {"loop/backing_file": mounted} if mounted else {}

    @cached_property
    def _mounted_files(self) -> dict[str, Known[str]]:
        return mounted_files(self._capture)

    @cached_property
    def _losetup(self) -> dict[str, Attributes]:
        """The attributes shown by `losetup -a`, by device path."""
        output = output_of(self._capture, "losetup -a")
        listed: dict[str, Attributes] = {}
        for found in map(_LOSETUP.fullmatch, output.text.split("\n")):
            if found:
                values = {"loop/backing_file": found[2], "loop/offset": found[3] or "0"}
                known = {key: Known(value, output.origin) for key, value in values.items()}
                listed.setdefault(found[1], known)
        return listed

    def _start(self, device: Device) -> Attributes:
        """Return a partition's start in 512-byte sectors, from `parted` or `fdisk -l` of its disk.

        Both print sectors of the disk's own size. The fdisk of RHEL 6 prints cylinders and is not
        used, because a partition may start anywhere within a cylinder.
        """
        disk = self._devices.by_number.get(device.parent) if device.parent else None
        if disk is None:
            return {}
        if disk.number not in self._starts:
            self._starts[disk.number] = self._starts_on(_path(disk))
        starts = self._starts[disk.number]
        start = starts.get(_number(device)) or starts.get(_path(device))
        return {"start": start} if start else {}

    def _starts_on(self, disk: str) -> dict[str, Known[str]]:
        """Return the starts of a disk's partitions, by number (parted) and by path (fdisk)."""
        found: dict[str, Known[str]] = {}
        for line, unit_of, pattern in (
            (f"parted -s {disk} unit s print", _PARTED_UNIT, _PARTED),
            (f"fdisk -l {disk}", _UNIT, _PARTITION),
        ):
            output = output_of(self._capture, line)
            unit = unit_of.search(output.text)
            for row in map(pattern.fullmatch, output.text.split("\n")) if unit else ():
                if row and unit:
                    sectors = int(row[2]) * int(unit[1]) // 512
                    found.setdefault(row[1], Known(str(sectors), output.origin))
        return found


def _number(device: Device) -> str:
    """Return the partition number, which is the digits at the end of the name."""
    return device.name[len(device.name.rstrip(string.digits)) :]


class Mapper:
    """The mapped devices of a host, from the output of `dmsetup` for all devices."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._printed: dict[str, dict[str, Output]] = {}

    def lines(self, verb: str, name: str) -> Output | None:
        """Return the lines of one device in `dmsetup VERB`, or None if there are none."""
        if verb not in self._printed:
            self._printed[verb] = self._read(verb)
        return self._printed[verb].get(name)

    def _read(self, verb: str) -> dict[str, Output]:
        """Return the lines of each device by name, which libdm prints without blanks."""
        found: dict[str, Output] = {}
        for output in self._capture.run(f"dmsetup {verb}"):
            lines: dict[str, list[str]] = {}
            for line in output.text.split("\n"):
                name, separator, rest = line.partition(": ")
                if separator:
                    lines.setdefault(name, []).append(rest)
            for name, own in lines.items():
                found.setdefault(name, Output("".join(f"{each}\n" for each in own), output.origin))
        return found


def udev_lines(device: Device) -> tuple[str, ...]:
    """Return the command lines that print the udev properties of a device."""
    return (f"udevadm info {_path(device)}", f"udevadm info --query=all --name={_path(device)}")


def _path(device: Device) -> str:
    return f"/dev/{device.name.replace('!', '/')}"


def _uevent(device: Device) -> str:
    major, _, minor = device.number.partition(":")
    kind = "partition" if device.parent else "disk"
    name = device.name.replace("!", "/")
    return f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE={kind}\n"

"""The answers of /sys for block devices, from the pieces of it that an archive holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit.evidence import Evidence, Known
from ext4audit.sources.foreign_attributes import AttributeTeller, udev_lines
from ext4audit.sources.foreign_capture import Capture, output_of
from ext4audit.sources.foreign_devices import Device, DeviceTable

_BLOCK = re.compile(r"/sys/(?:dev/block/(\d+:\d+)|(?:class/)?block/([^/]+))(?:/(.*))?")
_PROPERTY = re.compile(r"^E: ([^=\n]+)=(.*)$", re.MULTILINE)


class ForeignSysfs:
    """Attributes and directories of block devices below /sys, and udev's properties of them."""

    def __init__(self, capture: Capture, devices: DeviceTable) -> None:
        self._capture = capture
        self._devices = devices
        self._teller = AttributeTeller(capture, devices)

    def read(self, path: str) -> Evidence[str] | None:
        """Return an attribute, None where nothing tells it."""
        device, rest = self._locate(path)
        if device is None or not rest:
            return None
        for directory in self._directories(device):
            found = self._capture.read(f"{directory}/{rest}")
            if found is not None:
                return found
        return self._teller.attributes(device).get(rest)

    def children(self, path: str) -> Evidence[str] | None:
        """Return the names in a directory separated by NUL, None where nothing tells them."""
        device, rest = self._locate(path)
        if device is None:
            return None
        for directory in self._directories(device):
            names = self._capture.children(f"{directory}/{rest}")
            if names is not None:
                return Known("\0".join(names), path)
        if rest == "slaves":
            return self._teller.below(device)
        prefix = f"{rest}/" if rest else ""
        attributes = self._teller.attributes(device)
        inside = [name.removeprefix(prefix) for name in attributes if name.startswith(prefix)]
        told = sorted({name.partition("/")[0] for name in inside})
        return Known("\0".join(told), path) if told and rest else None

    def properties(self, number: str) -> Evidence[str] | None:
        """Return udev's properties as KEY=value lines, None where nothing tells them."""
        device = self._devices.by_number.get(number)
        if device is None:
            return None
        output = output_of(self._capture, *udev_lines(device))
        lines = sorted(f"{key}={value}" for key, value in _PROPERTY.findall(output.text))
        return Known("\n".join(lines), output.origin) if lines else None

    def _locate(self, path: str) -> tuple[Device | None, str]:
        """Return the device that a path of /sys is about, and the path below its directory."""
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
        """Yield the places below which an archive may hold the device's directory."""
        disk = self._devices.by_number.get(device.parent) if device.parent else None
        yield f"/sys/block/{disk.name}/{device.name}" if disk else f"/sys/block/{device.name}"
        yield f"/sys/class/block/{device.name}"
        yield f"/sys/dev/block/{device.number}"

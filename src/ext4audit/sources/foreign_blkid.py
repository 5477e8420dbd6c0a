r"""What blkid(8) says of devices: type, UUID and label, as lsblk -P would print them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ext4audit.sources.foreign_capture import Capture, output_of
from ext4audit.sources.foreign_devices import Device, DeviceTable

LINES = ("blkid -c /dev/null", "blkid")

_PAIR = re.compile(r'(?<![A-Z0-9_])([A-Z][A-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_COLUMNS = {
    "FSTYPE": "TYPE",
    "UUID": "UUID",
    "LABEL": "LABEL",
    "PARTUUID": "PARTUUID",
    "PARTLABEL": "PARTLABEL",
}


def blkid_values(capture: Capture) -> dict[str, dict[str, str]]:
    """Return the keys and values of each device, by the path that blkid names it by."""
    rows = (line.partition(": ") for line in output_of(capture, *LINES).text.split("\n"))
    return {
        path: {key: re.sub(r"\\(.)", r"\1", value) for key, value in _PAIR.findall(rest)}
        for path, colon, rest in rows
        if colon
    }


def lsblk_pairs(
    capture: Capture, devices: DeviceTable, blkid: Mapping[str, Mapping[str, str]]
) -> tuple[str, str] | None:
    r"""Return lines of `lsblk -P` for all devices, and their origin; None without any device.

    Lines that lsblk printed itself are given as they are; the others are put together from blkid
    and from the numbers, with \xHH for what lsblk escapes.
    """
    values = {devices.number_of(path): found for path, found in blkid.items()}
    known = devices.by_number.values()
    lines = [_line(device, values.get(device.number, {})) for device in known]
    printed = (device.row.origin for device in known if device.row and device.row.pairs)
    origin = next(printed, output_of(capture, *LINES).origin)
    return ("\n".join(lines) + "\n", origin or "/proc/partitions") if lines else None


def _line(device: Device, values: Mapping[str, str]) -> str:
    if device.row and device.row.pairs:
        return device.row.pairs
    columns = {
        "NAME": device.mapper or device.name,
        "KNAME": device.name,
        "MAJ:MIN": device.number,
        **{column: values.get(key, "") for column, key in _COLUMNS.items()},
        "MODEL": dict(device.row.attributes).get("device/model", "") if device.row else "",
    }
    return " ".join(f'{key}="{_quoted(value)}"' for key, value in columns.items())


def _quoted(value: str) -> str:
    return "".join(
        f"\\x{ord(each):02x}" if each in '"\\`$' or ord(each) < ord(" ") else each for each in value
    )

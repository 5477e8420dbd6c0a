"""The udev properties of a block device, by libudev."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ext4audit.evidence import Why
from ext4audit.sources.text import Unanswered, decode

DATABASE = "/run/udev/data"
_HINT = "install libudev (Debian: libudev1, RHEL: systemd-libs)"


class UdevReader:
    """Reads properties through one libudev context, made when it is first needed.

    udev's properties are optional; sysfs is authoritative. Where no udevd has stored anything there
    are only the kernel's own properties (DEVNAME, MAJOR, …), which sysfs has too: libudev and
    pyudev are then not loaded (5 MiB and 17 ms of every scan in a container).
    `database` is where udevd stores them; tests name an existing directory.
    """

    def __init__(self, database: str | os.PathLike[str] = DATABASE) -> None:
        self._database = database
        self._context: Any = None

    def properties(self, device_number: str) -> str:
        """Return the properties of the block device "major:minor"; raises Unanswered."""
        pair = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", device_number)
        if pair is None:
            raise Unanswered(Why.FAILED, "not a device number: major:minor")
        if not os.path.isdir(self._database):  # noqa: PTH112 - pathlib costs a scan its start
            raise Unanswered(Why.ABSENT, f"no udevd has run here: no {self._database}")
        device = self._device(int(pair[1]), int(pair[2]))
        return property_lines(device.properties)

    def _device(self, major: int, minor: int) -> Any:  # noqa: ANN401 - pyudev has no types
        if self._context is None:
            self._context = _new_context()
        from pyudev import DeviceNotFoundError, Devices  # noqa: PLC0415 - 17 ms, see _new_context

        try:
            number = os.makedev(major, minor)
            return Devices.from_device_number(self._context, "block", number)
        except DeviceNotFoundError as error:
            raise Unanswered(Why.ABSENT, f"no block device {major}:{minor}") from error
        except OverflowError as error:
            raise Unanswered(Why.ABSENT, f"no such device number: {error}") from error


def _new_context() -> Any:  # noqa: ANN401 - pyudev has no types
    """Load libudev; raises Unanswered where it is absent (ImportError) or damaged (OSError).

    The library is tried by its name first. Where it is absent, pyudev would go on to search
    with `gcc` and `ld` from the user's PATH, and an audit runs as root.
    """
    import ctypes  # noqa: PLC0415 - with pyudev 17 ms, paid by scans of this host only

    try:
        ctypes.CDLL("libudev.so.1")
        import pyudev  # noqa: PLC0415 - the same

        return pyudev.Context()
    except (ImportError, OSError) as error:
        raise Unanswered(Why.UNSUPPORTED, str(error), _HINT) from error


def property_lines(properties: Mapping[str, str]) -> str:
    r"""Return KEY=value lines, sorted.

    A newline in a key or value is written `\x0a`, as udev writes what it encodes: a disk label
    must not make a line of its own.
    """
    lines = sorted(f"{key}={_value(properties, key)}" for key in properties)
    return "\n".join(line.replace("\n", "\\x0a") for line in lines)


def _value(properties: Mapping[str, str], key: str) -> str:
    """Return a property, also one that is not UTF-8.

    pyudev decodes strictly: one label with the byte 0xFF raised UnicodeDecodeError. The
    exception carries the bytes.
    """
    try:
        return properties[key]
    except UnicodeDecodeError as error:
        return decode(bytes(error.object))

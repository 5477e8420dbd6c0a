"""cloud-init's `fs_setup`, `disk_setup` and `mounts`, as settings of plans.

Source: docs.cloud-init.io, modules "Disk Setup" and "Mounts". The document is read as YAML before;
templates are not evaluated.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.parsers.provisioning import Planned, Provisioned, listed, mapping, text_of

DEFAULT_FIELDS = ("", "", "auto", "defaults,nofail,x-systemd.after=cloud-init.service", "0", "2")
"""`mount_default_fields` where the document sets none (cloudinit/config/cc_mounts.py)."""
DEVICE, PLACE, OPTIONS = 0, 1, 3
WHOLE_DEVICE = frozenset({"", "auto", "any", "none"})


def parse_cloud_init(document: object) -> Provisioned:
    """Return the ext filesystems of a document; raises ValueError for one of another shape."""
    config = mapping(document, "the document")
    setups = [mapping(each, "fs_setup") for each in listed(config.get("fs_setup"), "fs_setup")]
    if not setups:
        raise ValueError("it has no fs_setup")
    skipped = [each for each in setups if text_of(each.get("filesystem")) not in EXT_FSTYPES]
    kept = [each for each in setups if each not in skipped]
    return Provisioned(
        tuple(_planned(each, config) for each in kept),
        tuple(
            f"{_name(each)} is {text_of(each.get('filesystem')) or 'of no type'}"
            for each in skipped
        ),
    )


def _name(setup: Mapping[str, Any]) -> str:
    return text_of(setup.get("device")) or "a filesystem without a device"


def _planned(setup: Mapping[str, Any], config: Mapping[str, Any]) -> Planned:
    if setup.get("cmd"):
        raise ValueError(f"{_name(setup)}: `cmd` is a command of one's own, which is not read")
    alias = text_of(setup.get("device"))
    aliases = mapping(config.get("device_aliases") or {}, "device_aliases")
    device = text_of(aliases.get(alias)) or alias
    partition = text_of(setup.get("partition")).lower()
    number = "" if partition in WHOLE_DEVICE else partition
    label = text_of(setup.get("label"))
    settings = {"mkfs": " ".join(_arguments(setup, label))}
    if device.startswith("/"):
        settings["device"] = _partition_of(device, number)
    names = {alias, device, f"LABEL={label}", _partition_of(device, number), f"{alias}.{number}"}
    settings |= _mount(config, names - {"", "LABEL="})
    return Planned(settings, _share(config, {alias, device}, number))


def _arguments(setup: Mapping[str, Any], label: str) -> Iterator[str]:
    fstype = text_of(setup.get("filesystem"))
    if fstype != "ext4":
        yield f"-t {fstype}"
    if label:
        yield f"-L {shlex.quote(label)}"
    extra = setup.get("extra_opts") or ()
    words = shlex.split(extra) if isinstance(extra, str) else listed(extra, "extra_opts")
    yield from (shlex.quote(text_of(word)) for word in words)


def _partition_of(device: str, number: str) -> str:
    if not number or not device:
        return device
    return f"{device}{'p' if device[-1].isdigit() else ''}{number}"


def _mount(config: Mapping[str, Any], names: set[str]) -> dict[str, str]:
    """Return mount point and options of the line of `mounts` for one of the names."""
    defaults = listed(config.get("mount_default_fields") or DEFAULT_FIELDS, "mount_default_fields")
    for entry in listed(config.get("mounts"), "mounts"):
        line = [text_of(field) for field in listed(entry, "mounts")]
        if not line or line[DEVICE] not in names:
            continue
        fields = [*line, *("" for _ in range(len(line), len(DEFAULT_FIELDS)))]
        options = fields[OPTIONS] or text_of(_at(defaults, OPTIONS))
        return {"mount_point": fields[PLACE], "mount_options": options}
    return {}


def _at(fields: Sequence[object], index: int) -> object:
    return fields[index] if index < len(fields) else ""


def _share(config: Mapping[str, Any], names: set[str], number: str) -> float | None:
    """Return the percentage of the disk that `disk_setup` gives to a partition."""
    disks = mapping(config.get("disk_setup") or {}, "disk_setup")
    for name, disk in disks.items():
        layout = mapping(disk, "disk_setup").get("layout")
        if name not in names or not isinstance(layout, list) or not number.isdecimal():
            continue
        index = int(number) - 1
        if not 0 <= index < len(layout):
            raise ValueError(f"{name}: disk_setup has no partition {number}")
        part = layout[index]
        text = text_of(part[0] if isinstance(part, list) and part else part)
        if not re.fullmatch(r"[0-9]{1,3}", text):
            raise ValueError(f"{name}: {text!r} is not a percentage of the disk")
        return float(text)
    return None

"""cloud-init's `fs_setup`, `disk_setup` and `mounts`, converted to plan settings.

Source: docs.cloud-init.io, modules "Disk Setup" and "Mounts". The caller has already parsed the
YAML; templates are not evaluated.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.parsers.provisioning import Planned, Provisioned, listed, mapping, text_of

DEFAULT_FIELDS = ("", "", "auto", "defaults,nofail,x-systemd.after=cloud-init.service", "0", "2")
"""`mount_default_fields` if the document does not set it (cloudinit/config/cc_mounts.py)."""
DEVICE, PLACE, TYPE, OPTIONS = range(4)
WHOLE_DEVICE = frozenset({"", "auto", "any", "none", "0"})
CHOSEN = frozenset({"", "auto", "any"})
"""Values that cloud-init replaces by a partition if the device has one (cc_disk_setup.py)."""
FIRST = "1"
EPHEMERAL, FIRST_EPHEMERAL = "ephemeral", "ephemeral0"
"""A short name in `mounts`, and the device name it stands for (cc_mounts.py)."""
KEYS = {
    "fs_setup": frozenset(
        "label filesystem device partition overwrite replace_fs extra_opts cmd".split()
    ),
    "disk_setup": frozenset("table_type layout overwrite".split()),
}
"""Keys of filesystems and disks that cloud-init reads (cc_disk_setup.py); it ignores others."""
TAGS = {"-L": "LABEL", "-U": "UUID"}
_TAG = re.compile(r'(LABEL|UUID)="?([^"]+)"?|/dev/disk/by-(label|uuid)/(.+)')
PLACE_KEY, MOUNTS = "mount_point", "/mnt"
NO_LINE = "which no line of mounts names: the default options are judged"
_DOTTED = re.compile(r"(.+)\.([0-9]+|auto|any|none)", re.IGNORECASE)
"""A device and its partition, such as "ephemeral0.1"."""


def parse_cloud_init(document: object) -> Provisioned:
    """Return the ext filesystems of a document; raise ValueError if its structure is wrong."""
    config = mapping(document, "the document")
    setups = [mapping(each, "fs_setup") for each in listed(config.get("fs_setup"), "fs_setup")]
    if not setups:
        raise ValueError("it has no fs_setup")
    skipped = [(each, _skip_reason(each)) for each in setups]
    planned = [(each, _planned(each, config)) for each, why in skipped if not why]
    unmounted = [each for each, found in planned if PLACE_KEY not in found.settings]
    several = len(unmounted) > 1
    return Provisioned(
        tuple(_with_mount_point(each, found) if several else found for each, found in planned),
        (
            *(f"{_name(each)} {why}" for each, why in skipped if why),
            *(f"the mount of {_name(each)}, {NO_LINE}" for each in unmounted),
            *_other_mounts(config, {found.settings.get(PLACE_KEY) for _, found in planned}),
            *_unknown_keys(((_name(each), each) for each, _ in planned), "fs_setup"),
            *_unknown_keys(_disks(config), "disk_setup"),
        ),
    )


def _other_mounts(config: Mapping[str, Any], places: set[object]) -> Iterator[str]:
    """Yield the mounts of ext filesystems that the document does not make; they are not planned."""
    for line in _lines(config):
        if line[PLACE] not in places and not EXT_FSTYPES.isdisjoint(line[TYPE : TYPE + 1]):
            yield f"the mount of {line[DEVICE]} on {line[PLACE]}, which no fs_setup makes"


def _unknown_keys(entries: Iterable[tuple[str, Mapping[str, Any]]], section: str) -> Iterator[str]:
    """Yield the keys that cloud-init does not support, and that the plan leaves out too."""
    for name, entry in entries:
        unknown = (f"{key}"[:40] for key in entry if key not in KEYS[section])
        yield from (f"{key} in {section} of {name}, which is not known" for key in unknown)


def _disks(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the settings of each disk in `disk_setup`."""
    for name, disk in mapping(config.get("disk_setup") or {}, "disk_setup").items():
        yield text_of(name), mapping(disk, "disk_setup")


def _with_mount_point(setup: Mapping[str, Any], planned: Planned) -> Planned:
    """Return the plan, with a unique mount point if it has none: the default can be used once."""
    label = text_of(setup.get("label"))
    device = text_of(setup.get("device")).rpartition("/")[2]
    place = f"{MOUNTS}/{label if label and '/' not in label else device}"
    return planned._replace(settings={PLACE_KEY: place, **planned.settings})


def _skip_reason(setup: Mapping[str, Any]) -> str:
    """Return why a filesystem is not planned, empty if it is planned."""
    fstype = text_of(setup.get("filesystem"))
    if fstype not in EXT_FSTYPES:
        return f"is {fstype or 'of no type'}"
    return (
        "is made by a command of one's own (`cmd`), which is not read" if setup.get("cmd") else ""
    )


def _name(setup: Mapping[str, Any]) -> str:
    return text_of(setup.get("device")) or "a filesystem without a device"


def _planned(setup: Mapping[str, Any], config: Mapping[str, Any]) -> Planned:
    written = text_of(setup.get("device"))
    dotted = _DOTTED.fullmatch(written)
    alias = dotted[1] if dotted else written
    aliases = mapping(config.get("device_aliases") or {}, "device_aliases")
    device = text_of(aliases.get(alias)) or alias
    layout = _layout(config, {alias, device})
    partition = (dotted[2] if dotted else text_of(setup.get("partition"))).lower()
    if partition in CHOSEN and layout:
        partition = FIRST
    number = "" if partition in WHOLE_DEVICE else partition
    label = text_of(setup.get("label"))
    settings = {"mkfs": " ".join(_arguments(setup, label))}
    path = _partition_of(device, number)
    if device.startswith("/"):
        settings["device"] = path
    names = {path, f"{alias}.{number}", *_tag_names(settings["mkfs"])}
    names |= set() if number else {written, alias, device}
    settings |= _mount(config, names - {""})
    disk, number = (device, number) if number else _disk_of(config, device)
    return Planned(settings, _share(disk, layout or _layout(config, {disk}), number))


def _disk_of(config: Mapping[str, Any], device: str) -> tuple[str, str]:
    """Return the disk in `disk_setup` and the partition number of a partition's device path."""
    number = re.search(r"[0-9]{1,3}$", device)
    for name, _ in _disks(config):
        if number and _partition_of(name, number[0]) == device:
            return name, number[0]
    return device, ""


def _layout(config: Mapping[str, Any], names: set[str]) -> object:
    """Return the layout in `disk_setup` of a device with one of the names, None without one."""
    found = [disk.get("layout") for name, disk in _disks(config) if name in names]
    return next((each for each in found if each is True or isinstance(each, list)), None)


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
    if device.startswith("/dev/disk/"):
        return f"{device}-part{number}"
    return f"{device}{'p' if device[-1].isdigit() else ''}{number}"


def _mount(config: Mapping[str, Any], names: set[str]) -> dict[str, str]:
    """Return the mount point and options from the line of `mounts` for one of the names.

    cloud-init prefixes the name of a disk with /dev/, and mounts the first partition if the disk
    has one.
    """
    defaults = listed(config.get("mount_default_fields") or DEFAULT_FIELDS, "mount_default_fields")
    for named in (_as_written, _first_partition):
        for line in _lines(config):
            if not names & named(_spec(line[DEVICE])):
                continue
            fields = [*line, *("" for _ in range(len(line), len(DEFAULT_FIELDS)))]
            options = fields[OPTIONS] or text_of(next(iter(defaults[OPTIONS:]), ""))
            return {"mount_point": fields[PLACE], "mount_options": options}
    return {}


def _lines(config: Mapping[str, Any]) -> list[list[str]]:
    """Return the fields of the lines in `mounts` that have a mount point."""
    entries = (listed(entry, "mounts") for entry in listed(config.get("mounts"), "mounts"))
    lines = [[text_of(field) for field in entry] for entry in entries]
    return [line for line in lines if len(line) > PLACE and line[PLACE].startswith("/")]


def _tag_names(mkfs: str) -> Iterator[str]:
    """Yield the LABEL= and UUID= names of a filesystem made with these options."""
    for flag, value in pairwise(shlex.split(mkfs)):
        if flag in TAGS:
            yield _spec(f"{TAGS[flag]}={value}")


def _spec(written: str) -> str:
    """Return a device of `mounts` in canonical form: "LABEL=data" for its three spellings."""
    match = _TAG.fullmatch(written)
    if match is None:
        return FIRST_EPHEMERAL if written == EPHEMERAL else written
    tag, value = (match[1] or match[3]).upper(), match[2] or match[4] or ""
    return f"{tag}={value.lower() if tag == 'UUID' else value}"


def _as_written(name: str) -> set[str]:
    return {name, f"/dev/{name}"}


def _first_partition(name: str) -> set[str]:
    return {_partition_of(each, FIRST) for each in _as_written(name)} | {f"{name}.{FIRST}"}


def _share(device: str, layout: object, number: str) -> float | None:
    """Return a partition's percentage of the disk, None if unset; raise ValueError if invalid."""
    if not isinstance(layout, list) or not number.isdecimal():
        return None
    index = int(number) - 1
    if not 0 <= index < len(layout):
        raise ValueError(f"{device}: disk_setup has no partition {number}")
    part = layout[index]
    text = text_of(part[0] if isinstance(part, list) and part else part)
    if not re.fullmatch(r"[0-9]{1,3}", text):
        raise ValueError(f"{device}: {text!r} is not a percentage of the disk")
    return float(text)

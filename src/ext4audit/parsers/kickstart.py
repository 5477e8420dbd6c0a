"""`part`, `raid`, `logvol` and `mount` of a kickstart file, converted to plan settings.

Source: pykickstart.readthedocs.io, "Kickstart Documentation". Sizes are MiB. Sections (%pre,
%packages, ...) are skipped. Files named by %include are not read, but reported as skipped.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ext4audit.facts.layout import NEAR_COPIES, PARITY_MEMBERS
from ext4audit.facts.mount import EXT_FSTYPES
from ext4audit.parsers.provisioning import LONGEST_TEXT, Planned, Provisioned, rendered

FLAGS = frozenset(
    "active asprimary backuppassphrase disklabel encrypted grow hibernation noformat recommended "
    "resize thin thinpool useexisting".split()
)
"""Options without a value."""
OTHER_NAMES = {"type": "fstype", "usepart": "onpart", "ondrive": "ondisk"}
"""Alternative names of options (pykickstart: FC3_PartData)."""
NAMES = FLAGS.union(
    OTHER_NAMES,
    "bytes-per-inode cachemode cachepvs cachesize chunksize cipher device end escrowcert fsoptions "
    "hw-passphrase "
    "fsprofile fstype label level luks-version maxsize metadatasize mkfsoptions mountoptions name "
    "onbiosdisk ondisk onpart passphrase pbkdf pbkdf-iterations pbkdf-memory pbkdf-time percent "
    "pesize poolname profile reformat reserved-percent reserved-space size spares start "
    "vgname".split(),
)
"""All options of the commands (pykickstart 3.78); unambiguous prefixes are accepted, too."""
COMMANDS = frozenset({"part", "partition", "raid", "volgroup", "logvol", "mount"})
OF_ONE_LINE = ("%include", "%ksappend")
"""Lines that begin with "%" and have no %end."""
USUAL_CHUNK_KIB = 512
"""The default of --chunk (mdadm(8))."""
MOST_LINES = 10_000
LEVELS = frozenset({"raid0", "raid1", "raid5", "raid6", "raid10"})


class _Command(NamedTuple):
    """One command: its arguments, and its options without the dashes."""

    name: str
    arguments: tuple[str, ...]
    options: Mapping[str, str]


def parse_kickstart(text: str) -> Provisioned:
    """Return the ext filesystems of a file; raise ValueError if it has no storage commands."""
    commands = [*_commands(text)]
    named = [each for each in commands if each.arguments]
    sizes = {each.arguments[0]: each for each in named if each.name == "part"}
    arrays = {each.arguments[0]: each for each in named if each.name == "raid"}
    volumes = {each.arguments[0]: each.arguments[1:] for each in named if each.name == "volgroup"}
    on_arrays = {name for name, below in volumes.items() if not arrays.keys().isdisjoint(below)}
    found, skipped = [], []
    for each in commands:
        place = each.arguments[0] if each.arguments else ""
        if each.name in OF_ONE_LINE:
            skipped.append(f"{each.name} {place[:100]}, a file that is not read")
            continue
        if not place.startswith("/"):
            continue  # swap, and the members of arrays and volume groups
        below = volumes.get(each.options.get("vgname", ""), ())
        array = arrays.get(below[0]) if len(below) == 1 else None
        made_of = each if each.name == "raid" else array
        fstype = each.options.get("fstype", "")
        if "noformat" in each.options:
            skipped.append(f"{place} is not formatted")
        elif fstype not in EXT_FSTYPES:
            skipped.append(f"{place} is {fstype or 'of the default type'}")
        elif array is None and each.options.get("vgname", "") in on_arrays:
            skipped.append(f"{place} is on several devices, and some of them are arrays")
        elif made_of and "useexisting" in made_of.options:
            skipped.append(f"{place} is on an array that exists: its members are not in the file")
        elif made_of and _level(made_of.options.get("level", "")) not in LEVELS:
            skipped.append(f"{place} is on an array of a level that cannot be planned")
        else:
            stripe = _array_settings(array) if array and "thin" not in each.options else {}
            found.append(
                Planned({**_common(each, place, fstype), **_storage(each, sizes), **stripe})
            )
            unknown = (name for name in each.options if name not in NAMES)
            skipped += [f"--{name[:40]} of {place}, which is not known" for name in unknown]
    if not found and not skipped:
        raise ValueError("it has no part, raid or logvol with a mount point")
    return Provisioned(tuple(found), tuple(skipped))


def _commands(text: str) -> Iterator[_Command]:
    in_section = False
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ValueError(f"it has more than {MOST_LINES} lines")
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if stripped.startswith("%") and not stripped.startswith(OF_ONE_LINE):
            in_section = stripped.split()[0] != "%end"
            continue
        words = stripped.split(maxsplit=1)
        if not in_section and stripped.startswith(OF_ONE_LINE):
            yield _Command(words[0], tuple(words[1:]), {})
        if in_section or not words or words[0] not in COMMANDS:
            continue
        if len(line) > LONGEST_TEXT:
            raise ValueError(f"line {number} is longer than {LONGEST_TEXT} characters")
        try:
            yield _command(shlex.split(rendered(line), comments=True))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def _command(words: Sequence[str]) -> _Command:
    arguments: list[str] = []
    options: dict[str, str] = {}
    rest = [*reversed(words[1:])]
    while rest:
        word = rest.pop()
        if not word.startswith("--"):
            arguments.append(word)
            continue
        written, equals, value = word[2:].partition("=")
        name = _full_name(written)
        takes_next = not equals and name not in FLAGS and rest and not rest[-1].startswith("--")
        options[OTHER_NAMES.get(name, name)] = rest.pop() if takes_next else value
    if words[0] == "mount":
        return _part_of_mount(arguments, options)
    name = "part" if words[0] == "partition" else words[0]
    return _Command(name, tuple(arguments), options)


def _part_of_mount(arguments: Sequence[str], options: Mapping[str, str]) -> _Command:
    """Return the `part` command that is equivalent to a `mount`; --reformat may give a type."""
    device, *place = arguments or ("",)
    found = {"onpart": device, "fstype": options.get("reformat", "")}
    found |= {} if "reformat" in options else {"noformat": ""}
    found |= {"fsoptions": options.get("mountoptions", "")}
    return _Command("part", tuple(place), {**options, **found})


def _full_name(written: str) -> str:
    """Return the full name of an option, which may be abbreviated as argparse allows."""
    found = [name for name in NAMES if name.startswith(written)]
    return found[0] if len(found) == 1 and written not in NAMES else written


def _common(command: _Command, place: str, fstype: str) -> dict[str, Any]:
    options = command.options
    words = [f"-t {fstype}"] if fstype != "ext4" else []
    if options.get("label"):
        words.append(f"-L {shlex.quote(options['label'])}")
    if options.get("fsprofile"):
        words.append(f"-T {shlex.quote(options['fsprofile'])}")
    if options.get("bytes-per-inode"):
        words.append(f"-i {shlex.quote(options['bytes-per-inode'])}")
    return {
        "mount_point": place,
        "mount_options": options.get("fsoptions", ""),
        "mkfs": " ".join([*words, options.get("mkfsoptions", "")]).strip(),
    }


def _storage(command: _Command, sizes: Mapping[str, _Command]) -> dict[str, Any]:
    """Return the device and its size, without a size if it depends on the disk."""
    if command.name == "raid":
        return _array(command, sizes)
    if not _has_no_fixed_size(command):
        size = {"size": _mib(command, "size")}
    elif "grow" in command.options and "maxsize" in command.options:
        size = {"size": _mib(command, "maxsize")}  # on any disk that is large enough
    else:
        size = {}
    if command.name == "logvol":
        group, name = command.options.get("vgname", ""), command.options.get("name", "")
        return {**size, "device": f"/dev/{group}/{name}"} if group and name else size
    partition = command.options.get("onpart")
    return {**size, "device": _path(partition)} if partition else size


def _path(name: str) -> str:
    """Return the path of a device, which may be given by label or UUID."""
    tag, equals, value = name.partition("=")
    if equals and tag in {"LABEL", "UUID"}:
        return f"/dev/disk/by-{tag.lower()}/{value}"
    return name if name.startswith("/") else f"/dev/{name}"


def _array_path(name: str) -> str:
    """Return the device path of an array: "md0" and "0" are numbers, "boot" is a name (md(4))."""
    number = re.fullmatch(r"(?:md)?([0-9]+)", name)
    if number:
        return f"/dev/md{number[1]}"
    return name if name.startswith("/") else f"/dev/md/{name}"


def _has_no_fixed_size(command: _Command) -> bool:
    options = command.options
    return "percent" in options or "grow" in options or "size" not in options


def _mib(command: _Command, option: str) -> str:
    text = command.options.get(option, "")
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise ValueError(f"--{option}={text}: not a number of MiB")
    return f"{text}M"


def _array(command: _Command, sizes: Mapping[str, _Command]) -> dict[str, Any]:
    settings = _array_settings(command)
    settings["device"] = _array_path(command.options.get("device", "md0"))
    members = command.arguments[1:]
    parts = [sizes[name] for name in members if name in sizes]
    if len(parts) == len(members) and not any(map(_has_no_fixed_size, parts)):
        smallest = min(int(_mib(part, "size")[:-1]) for part in parts)
        level = _level(command.options.get("level", ""))
        settings["size"] = f"{_data_mib(level, settings[level], smallest)}M"
    return settings


def _array_settings(array: _Command) -> dict[str, Any]:
    """Return the settings `LEVEL: members` and `chunk`; raise ValueError if it has no members."""
    level = _level(array.options.get("level", ""))
    spares = array.options.get("spares", "0")
    count = len(array.arguments) - 1 - (int(spares) if spares.isdecimal() else 0)
    if count < 1:
        raise ValueError(f"raid {array.arguments[0]}: it names no members")
    if level == "raid1":
        return {level: count}
    return {level: count, "chunk": f"{array.options.get('chunksize') or USUAL_CHUNK_KIB}K"}


def _level(text: str) -> str:
    return f"raid{text.lower().removeprefix('raid')}"


def _data_mib(level: str, members: int, member_mib: int) -> int:
    if level == "raid1":
        return member_mib
    if level == "raid10":
        return members * member_mib // NEAR_COPIES
    return (members - PARITY_MEMBERS.get(level, 0)) * member_mib

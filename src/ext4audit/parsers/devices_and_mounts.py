"""Tables of mounts and devices, as the kernel, fstab, mdadm.conf and lsblk have them.

Mount tables are mountinfo, fstab and /proc/fs/ext4/*/options, with their escapes.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import NamedTuple

from ext4audit.evidence import UNKNOWN_NUMBER
from ext4audit.facts.devices import LsblkDevice
from ext4audit.facts.mount import (
    EXT_FSTYPES,
    DeviceNumber,
    FstabLine,
    Mount,
    UserOptions,
    is_user_option,
)
from ext4audit.parsers import (
    decode_escapes,
    decode_octal,
    parse_count,
    parse_device_number,
    split_options,
)

_FIXED_OF_MOUNTS = 6
_FIELDS_AFTER_SEPARATOR = 3
_NUMBER = r"[+-]?[0-9]{1,10}"
_BLANKS = r"[ \t]+"
_REQUIRED_FIELDS = 3
_DEFAULTS = ["defaults", "0", "0"]
_MARKS = {
    "# To make changes, edit the fileSystems and swapDevices NixOS": "NixOS",
    "# This file was generated from your Guix": "Guix",
    "# >>> [openmediavault]": "openmediavault",
    "# <<< [openmediavault]": "",
}
"""Comments of what writes the lines of fstab below them."""


class NumberNotCapturedError(ValueError):
    """A mount whose device number nothing in an archive tells."""


class UnreadLine(NamedTuple):
    """A line of the mount table that tells no mount, counted from 1, and why."""

    line_number: int
    error: ValueError


class MountTable(NamedTuple):
    """The mounts of a table, and its lines that could not be read."""

    mounts: tuple[Mount, ...]
    unread: tuple[UnreadLine, ...] = ()


def parse_mount_table(text: str) -> MountTable:
    r"""Parse the lines of a mount table one by one; ValueError where none is a mount.

    An empty table would mean that nothing is mounted. A line that cannot be read costs no other
    mount, but whoever concludes from the absence of one must look at `unread`. Lines end at "\n"
    alone: str.splitlines() breaks at \x0b, \x85 or U+2028, which the kernel does not escape.
    """
    mounts, unread = list[Mount](), list[UnreadLine]()
    for number, line in enumerate(text.split("\n"), start=1):
        found = _mount_or_error(line) if line else None
        if isinstance(found, Mount):
            mounts.append(found)
        elif found is not None:
            unread.append(UnreadLine(number, found))
    if not mounts:
        raise unread[0].error if unread else ValueError("the mount table is empty")
    return MountTable(tuple(mounts), tuple(unread))


def _mount_or_error(line: str) -> Mount | ValueError:
    try:
        return _mount(line)
    except ValueError as error:
        return error


def _mount(line: str) -> Mount:
    """Parse one line: six fields, optional fields of any number, "-", three fields.

    Fields are cut at every single space: a mount may have an empty source (`mount -t tmpfs ""`).
    """
    fields = line.split(" ")
    separator = fields.index("-", _FIXED_OF_MOUNTS) if "-" in fields[_FIXED_OF_MOUNTS:] else -1
    after = _after_separator(fields[separator + 1 :])
    if separator < 0 or len(after) != _FIELDS_AFTER_SEPARATOR:
        raise ValueError(f"not a mount: {line[:80]!r}")
    if fields[2] == UNKNOWN_NUMBER:
        source, place = decode_octal(after[1]), decode_octal(fields[4])
        raise NumberNotCapturedError(
            f"the device number of {source}, mounted on {place}, is not in the archive"
        )
    return Mount(
        mount_id=parse_count(fields[0]),
        parent_id=parse_count(fields[1]),
        device_number=parse_device_number(fields[2]),
        root=decode_octal(fields[3]),
        mount_point=decode_octal(fields[4]),
        mount_options=_options(fields[5]),
        fstype=decode_octal(after[0]),
        source=decode_octal(after[1]),
        super_options=_options(after[2]),
        propagation=tuple(fields[_FIXED_OF_MOUNTS:separator]),
    )


def _after_separator(fields: list[str]) -> list[str]:
    r"""Return type, source and options, which may hold blanks ("path=C:\Program Files" of 9p).

    Docker Desktop makes such a mount in WSL 2 (microsoft/WSL#10056, docker/for-win#13318). ext4
    escapes blanks, and a second "-" is that of another line.
    """
    if len(fields) < _FIELDS_AFTER_SEPARATOR or fields[0] in EXT_FSTYPES or "-" in fields:
        return fields
    return [*fields[:2], " ".join(fields[2:])]


def _options(text: str) -> tuple[str, ...]:
    r"""Split first, decode then: a comma inside a value is escaped ("lowerdir=/a\054b")."""
    return tuple(decode_octal(option) for option in split_options(text))


def parse_utab(text: str) -> tuple[UserOptions, ...]:
    r"""Parse /run/mount/utab: "SRC=/dev/sda1 TARGET=/data ROOT=/ OPTS=_netdev,x-a" on each line.

    Blanks and backslashes in values are escaped; a line without one of the three keys has no
    options. `loop=` is left out: it tells what the mount has made, and asks a new one for more.
    """
    rows = (dict(_assigned(word) for word in line.split(" ")) for line in text.split("\n"))
    return tuple(
        UserOptions(row["SRC"], row["TARGET"], tuple(filter(is_user_option, _options(row["OPTS"]))))
        for row in rows
        if {"SRC", "TARGET", "OPTS"} <= row.keys()
    )


def _assigned(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return key, value if key == "OPTS" else decode_octal(value)


def parse_fstab(text: str) -> tuple[FstabLine, ...]:
    """Parse an fstab; lines that mount(8) reports as "parse error … ignored" are ignored too.

    Those have fewer than three fields, or something other than a number in the fifth or sixth.
    More than six fields are allowed, a "#" is a comment only at the start of a line, and a
    carriage return at the end of a line is dropped (all as libmount 2.38.1 does, by test).
    ValueError for NUL: a crash can leave a file of zeros, which is no empty fstab.
    """
    if "\0" in text:
        raise ValueError("it holds NUL")
    generator, found = "", list[FstabLine]()
    for number, line in enumerate(text.split("\n"), start=1):
        generator = next((by for mark, by in _MARKS.items() if line.startswith(mark)), generator)
        parsed = _line(number, line)
        if parsed is not None:
            found.append(parsed._replace(generator=generator))
    return tuple(found)


def _line(number: int, line: str) -> FstabLine | None:
    """Parse one line; None for a comment, a blank line and a line that mount(8) ignores."""
    stripped = line.removesuffix("\r").strip(" \t")
    if not stripped or stripped.startswith("#"):
        return None
    fields = re.split(_BLANKS, stripped)
    if len(fields) < _REQUIRED_FIELDS:
        return None
    given = fields[_REQUIRED_FIELDS:][: len(_DEFAULTS)]
    raw_options, frequency, fsck_pass = given + _DEFAULTS[len(given) :]
    if not (re.fullmatch(_NUMBER, frequency) and re.fullmatch(_NUMBER, fsck_pass)):
        return None
    return FstabLine(
        line_number=number,
        spec=decode_octal(fields[0]),
        mount_point=decode_octal(fields[1]),
        fstype=decode_octal(fields[2]),
        options=split_options(decode_octal(raw_options)),
        raw_options=raw_options,
        dump_frequency=int(frequency),
        fsck_pass=int(fsck_pass),
        text=line,
    )


def parse_options_file(text: str) -> tuple[str, ...]:
    """Parse the options file: one option a line, "rw" or "ro" first.

    In every kernel from 3.4 to 7.2 the quota options are appended to the last line, with commas
    (ext4_show_quota_options() of fs/ext4/super.c), and inode_readahead_blks= follows data=. Vendor
    kernels add options, which are kept. ValueError for a text that is empty or cut.
    """
    tokens = tuple(
        decode_octal(token.strip()) for line in text.split("\n") for token in split_options(line)
    )
    tokens = tuple(token for token in tokens if token)
    if not tokens or tokens[0] not in {"rw", "ro"}:
        raise ValueError(f"{text[:40]!r} does not start with rw or ro")
    if not any(token.startswith("inode_readahead_blks=") for token in tokens):
        raise ValueError("the options end before inode_readahead_blks=")
    return tokens


# Without the lookbehind a line of a million capitals is tried from each of them to its end.
_PAIR = r'(?<![A-Z0-9:_-])([A-Z][A-Z0-9:_-]*)="([^"]*)"'
_HEX = rb"\\x([0-9a-fA-F]{2})"
_MORE_COLUMNS = frozenset({"FSTYPE", "UUID", "LABEL", "PARTUUID", "PARTLABEL", "MODEL", "TRAN"})
_NEVER_NULL = ("UUID", "PARTUUID", "FSTYPE")
_ARRAY = "arr(a|ay)?"
_STANDARD_FOLDER = "/dev/md/"
_PARENT = "(PARENT)"
"""The key that is added to the nodes of lsblk's tree for the number of the device below."""


def parse_lsblk_json(text: str) -> tuple[LsblkDevice, ...]:
    """Parse `lsblk -J -o NAME,KNAME,MAJ:MIN,…` (util-linux 2.27 and later).

    A device that stands below several others (an md array, a multipath map) is listed below
    each of them, and returned once. ValueError for a text that is not lsblk's JSON.
    """
    try:
        pending = deque(_list(json.loads(text), "blockdevices"))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply for lsblk's") from None
    rows: list[Mapping[str, str]] = []
    while pending:
        node = pending.popleft()
        rows.append({key.upper(): _text(value) for key, value in node.items()})
        children = _list(node, "children") if node.get("children") else []
        number = node.get("maj:min") or node.get("maj_min")
        for child in reversed(children):
            child[_PARENT] = number
            pending.appendleft(child)
    return _deduplicated(map(_lsblk_device, _without_null_words(rows)))


def _without_null_words(rows: list[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Drop the word "null", which some versions print in quotes for an empty column.

    No UUID and no type is called so. A label can be, and is kept where those columns show that
    this lsblk prints JSON's own null.
    """
    if not any(row.get(key) == "null" for row in rows for key in _NEVER_NULL):
        return rows
    return [{key: value for key, value in row.items() if value != "null"} for row in rows]


def parse_lsblk_pairs(text: str) -> tuple[LsblkDevice, ...]:
    r"""Parse `lsblk -P -o NAME,KNAME,MAJ:MIN,…` (every util-linux since 2.19).

    Values escape bytes as \xHH. Later versions may spell the key MAJ_MIN. Messages are skipped,
    ValueError where nothing else is there. Archives lack columns that no program printed.
    """
    found = [dict(pairs) for line in text.split("\n") if (pairs := re.findall(_PAIR, line))]
    if text.strip() and not found:
        raise ValueError(f'{text[:40]!r} has no KEY="value" pair')
    decoded = (
        {k: decode_escapes(v, _HEX, 16) if "\\x" in v else v for k, v in row.items()}
        for row in found
    )
    return _deduplicated(_lsblk_device(row, _MORE_COLUMNS - row.keys()) for row in decoded)


def _deduplicated(devices: Iterable[LsblkDevice]) -> tuple[LsblkDevice, ...]:
    """Return the devices, each once with all its parents, in the order of their appearance."""
    found: dict[DeviceNumber, LsblkDevice] = {}
    parents: dict[DeviceNumber, set[DeviceNumber]] = {}
    for device in devices:
        found.setdefault(device.device_number, device)
        parents.setdefault(device.device_number, set()).update(device.parents)
    return tuple(each._replace(parents=frozenset(parents[n])) for n, each in found.items())


def _lsblk_device(row: Mapping[str, str], unlisted: frozenset[str] = frozenset()) -> LsblkDevice:
    """Return the device of a row; an empty or missing column is None."""
    name, kernel_name = row.get("NAME"), row.get("KNAME")
    number, parent = row.get("MAJ:MIN") or row.get("MAJ_MIN"), row.get(_PARENT)
    if not (name and kernel_name and number):
        raise ValueError("a device has no NAME, KNAME or MAJ:MIN")
    return LsblkDevice(
        name=name,
        kernel_name=kernel_name,
        device_number=parse_device_number(number),
        fstype=row.get("FSTYPE") or None,
        uuid=row.get("UUID") or None,
        label=row.get("LABEL") or None,
        partuuid=row.get("PARTUUID") or None,
        partlabel=row.get("PARTLABEL") or None,
        model=row.get("MODEL", "").strip() or None,  # SCSI pads it with blanks
        transport=row.get("TRAN", "").strip() or None,
        unlisted=unlisted,
        parents=frozenset({parse_device_number(parent)}) if parent else frozenset(),
    )


def _list(parent: object, key: str) -> list[dict[str, object]]:
    """Return the objects that an object lists under `key`."""
    found = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"the JSON has no list of {key}")
    return found


def _text(value: object) -> str:
    """Return a string, empty for another JSON type; before 2.33 lsblk printed only strings."""
    return value if isinstance(value, str) else ""


def parse_md_arrays(text: str) -> tuple[str, ...]:
    """Return the device of each ARRAY line, as a path; lines without one are left out.

    Keywords are matched whatever their case, and may be cut to three letters. A line that begins
    with a blank continues the one before. "home" is /dev/md/home; `<ignore>` is no device.
    """
    lines = (tokens for tokens in _logical_lines(text) if re.fullmatch(_ARRAY, tokens[0].lower()))
    return tuple(device for device in map(_array_device, lines) if device)


def _logical_lines(text: str) -> list[list[str]]:
    logical: list[list[str]] = []
    for line in text.split("\n"):
        own = _tokens(line)
        if own and logical and line[0].isspace():
            logical[-1] += own
        elif own:
            logical.append(own)
    return logical


def _tokens(line: str) -> list[str]:
    """Return the tokens before a comment, which starts with a token that starts with "#"."""
    own = takewhile(lambda token: not token.startswith("#"), line.split())
    return [token.replace('"', "").replace("'", "") for token in own]


def _array_device(tokens: list[str]) -> str | None:
    name = tokens[1] if len(tokens) > 1 else ""
    if not name or "=" in name or name.startswith("<"):
        return None
    return name if name.startswith("/") else _STANDARD_FOLDER + name

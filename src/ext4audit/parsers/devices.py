"""Block devices as tools list them: lsblk, dmsetup table, mdadm.conf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from ext4audit.facts.devices import DmSegment, LsblkDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers.sysfs import parse_device_number, parse_integer

# The look behind: a line of a million capitals would be tried from each of them to its end.
_PAIR = re.compile(r'(?<![A-Z0-9:_-])([A-Z][A-Z0-9:_-]*)="([^"]*)"')
_HEX = re.compile(rb"\\x([0-9a-fA-F]{2})")


def parse_lsblk_json(text: str) -> tuple[LsblkDevice, ...]:
    """Parse `lsblk -J -o NAME,KNAME,MAJ:MIN,…` (util-linux 2.27 and later).

    A device that stands below several others (an md array, a multipath map) is listed below
    each of them, and returned once. ValueError for a text that is not lsblk's JSON.
    """
    try:
        pending = _list(json.loads(text), "blockdevices")
    except RecursionError:
        raise ValueError("the JSON is nested too deeply for lsblk's") from None
    rows: list[Mapping[str, str]] = []
    while pending:
        node = pending.pop(0)
        rows.append({key.upper(): _text(value) for key, value in node.items()})
        pending[:0] = _list(node, "children") if node.get("children") else []
    return _once(rows)


def parse_lsblk_pairs(text: str) -> tuple[LsblkDevice, ...]:
    r"""Parse `lsblk -P -o NAME,KNAME,MAJ:MIN,…` (every util-linux since 2.19).

    Values escape bytes as \xHH. Later versions may spell the key MAJ_MIN. Lines without a pair
    are messages and are skipped; ValueError where no line of a text has one.
    """
    rows = [dict(_PAIR.findall(line)) for line in text.split("\n")]
    found = [row for row in rows if row]
    if text.strip() and not found:
        raise ValueError(f'{text[:40]!r} has no KEY="value" pair')
    return _once({key: _decode_hex(value) for key, value in row.items()} for row in found)


def _once(rows: Iterable[Mapping[str, str]]) -> tuple[LsblkDevice, ...]:
    """Make the devices, each once, in the order in which they first appear."""
    devices = (_lsblk_device(row) for row in rows)
    first: dict[DeviceNumber, LsblkDevice] = {}
    for device in devices:
        first.setdefault(device.device_number, device)
    return tuple(first.values())


def _lsblk_device(row: Mapping[str, str]) -> LsblkDevice:
    """Make a device of its columns; an empty or missing column is None."""
    name, kernel_name = row.get("NAME"), row.get("KNAME")
    number = row.get("MAJ:MIN") or row.get("MAJ_MIN")
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
    )


def _list(parent: object, key: str) -> list[dict[str, object]]:
    """Return the objects that an object lists under `key`."""
    found = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise ValueError(f"the JSON has no list of {key}")
    return found


def _text(value: object) -> str:
    """Return a JSON value as lsblk before 2.33 would print it: everything was a string."""
    return value if isinstance(value, str) else ""


def _decode_hex(value: str) -> str:
    """Undo the escapes of `-P`, which stand for bytes."""
    if "\\x" not in value:
        return value
    raw = value.encode("utf-8", "surrogateescape")
    decoded = _HEX.sub(lambda match: bytes([int(match[1], 16)]), raw)
    return decoded.decode("utf-8", "surrogateescape")


_FIXED_FIELDS = 3


def parse_dm_table(text: str) -> tuple[DmSegment, ...]:
    """Parse the table of one device: "0 1024000 linear 9:127 618496" a line, in sectors.

    ValueError for another text, and for an empty one: a device without a live table holds no
    filesystem that could be judged.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("the device has no live table")
    return tuple(_segment(line) for line in lines)


def _segment(line: str) -> DmSegment:
    """Parse one line: start, length, target type, and the target's own arguments."""
    fields = line.split()
    if len(fields) < _FIXED_FIELDS:
        raise ValueError(f"{line[:60]!r} is no line of a device-mapper table")
    start, length, target, *arguments = fields
    return DmSegment(parse_integer(start), parse_integer(length), target, tuple(arguments))


_KEYWORD = "array"
_SHORTEST = 3
_STANDARD_FOLDER = "/dev/md/"


def parse_md_arrays(text: str) -> tuple[str, ...]:
    """Return the device of each ARRAY line, as a path; lines that name none are left out.

    Keywords are matched whatever their case, and may be cut to three letters. A line that begins
    with a blank continues the one before. "home" is /dev/md/home; `<ignore>` is no device.
    """
    found = (_array_device(words) for words in _lines(text) if _is_array(words[0]))
    return tuple(device for device in found if device)


def _lines(text: str) -> Iterator[list[str]]:
    words: list[str] = []
    for line in text.split("\n"):
        own = _words(line)
        if not own:
            continue
        if words and line[0].isspace():
            words += own
            continue
        if words:
            yield words
        words = own
    if words:
        yield words


def _words(line: str) -> list[str]:
    """Return the words before a comment, which a word begins that begins with a hash sign."""
    words: list[str] = []
    for word in line.split():
        if word.startswith("#"):
            break
        words.append(word.replace('"', "").replace("'", ""))
    return words


def _is_array(word: str) -> bool:
    return len(word) >= _SHORTEST and _KEYWORD.startswith(word.lower())


def _array_device(words: list[str]) -> str | None:
    name = words[1] if len(words) > 1 else ""
    if not name or "=" in name or name.startswith("<"):
        return None
    return name if name.startswith("/") else _STANDARD_FOLDER + name

"""Block devices as tools print them: lsblk, dmsetup; and the arrays of mdadm.conf."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from ext4audit.facts.devices import DmSegment, LsblkDevice, ThinPool
from ext4audit.facts.mount import DeviceNumber
from ext4audit.parsers.kernel_files import parse_device_number, parse_integer

# Without the lookbehind a line of a million capitals is tried from each of them to its end.
_PAIR = r'(?<![A-Z0-9:_-])([A-Z][A-Z0-9:_-]*)="([^"]*)"'
_HEX = rb"\\x([0-9a-fA-F]{2})"
_NEVER_NULL = ("UUID", "PARTUUID", "FSTYPE")
_FIXED_FIELDS = 3
_POOL_MODES = frozenset({"rw", "ro", "out_of_data_space"})
_FAILED_POOLS = frozenset({"Fail", "Error"})
_KEYWORD = "array"
_SHORTEST = 3
_STANDARD_FOLDER = "/dev/md/"


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
    return _deduplicated(_without_null_words(rows))


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

    Values escape bytes as \xHH. Later versions may spell the key MAJ_MIN. Lines without a pair
    are messages and are skipped; ValueError where no line of a text has one.
    """
    rows = [dict(re.findall(_PAIR, line)) for line in text.split("\n")]
    found = [row for row in rows if row]
    if text.strip() and not found:
        raise ValueError(f'{text[:40]!r} has no KEY="value" pair')
    return _deduplicated({key: _decode_hex(value) for key, value in row.items()} for row in found)


def _deduplicated(rows: Iterable[Mapping[str, str]]) -> tuple[LsblkDevice, ...]:
    """Return the devices, each once, in the order in which they first appear."""
    devices = (_lsblk_device(row) for row in rows)
    first: dict[DeviceNumber, LsblkDevice] = {}
    for device in devices:
        first.setdefault(device.device_number, device)
    return tuple(first.values())


def _lsblk_device(row: Mapping[str, str]) -> LsblkDevice:
    """Return the device of a row; an empty or missing column is None."""
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
    """Return a string, empty for another JSON type; before 2.33 lsblk printed only strings."""
    return value if isinstance(value, str) else ""


def _decode_hex(value: str) -> str:
    """Undo the escapes of `-P`, which stand for bytes."""
    if "\\x" not in value:
        return value
    raw = value.encode("utf-8", "surrogateescape")
    decoded = re.sub(_HEX, lambda match: bytes([int(match[1], 16)]), raw)
    return decoded.decode("utf-8", "surrogateescape")


def parse_dm_table(text: str) -> tuple[DmSegment, ...]:
    """Parse the table of one device: "0 1024000 linear 9:127 618496" a line, in sectors.

    ValueError for another text, and for an empty one: a device without a live table holds no
    filesystem.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("the device has no live table")
    return tuple(_segment(line) for line in lines)


def _segment(line: str) -> DmSegment:
    """Parse one line: start, length, target type, and the target's own arguments."""
    fields = line.split()
    if len(fields) < _FIXED_FIELDS:
        raise ValueError(f"{line[:60]!r} is not a line of a device-mapper table")
    start, length, target, *arguments = fields
    return DmSegment(parse_integer(start), parse_integer(length), target, tuple(arguments))


def parse_thin_pool(text: str) -> ThinPool:
    """Parse `dmsetup status` of a thin pool; ValueError for another device.

    "0 409600 thin-pool 1 173/1024 80/3200 - rw no_discard_passdown queue_if_no_space - 1024".
    """
    fields = text.split()
    if len(fields) < _FIXED_FIELDS + 1 or fields[2] != "thin-pool":
        raise ValueError(f"{text[:60]!r} is not the status of a thin pool")
    if fields[3] in _FAILED_POOLS:
        return ThinPool("Fail")
    (used_metadata, metadata), (used_data, data) = map(_share, fields[4:6])
    words = fields[7:]
    if not words or words[0] not in _POOL_MODES:
        raise ValueError(f"{text[:60]!r} names no mode of the pool")
    checked = {"needs_check": True, "-": False}
    return ThinPool(
        mode=words[0],
        used_data=used_data,
        data=data,
        used_metadata=used_metadata,
        metadata=metadata,
        queues="error_if_no_space" not in words,
        needs_check=next((checked[word] for word in words if word in checked), None),
    )


def _share(text: str) -> tuple[int, int]:
    used, _, whole = text.partition("/")
    return parse_integer(used), parse_integer(whole)


def parse_md_arrays(text: str) -> tuple[str, ...]:
    """Return the device of each ARRAY line, as a path; lines without one are left out.

    Keywords are matched whatever their case, and may be cut to three letters. A line that begins
    with a blank continues the one before. "home" is /dev/md/home; `<ignore>` is no device.
    """
    found = (_array_device(tokens) for tokens in _logical_lines(text) if _is_array(tokens[0]))
    return tuple(device for device in found if device)


def _logical_lines(text: str) -> Iterator[list[str]]:
    tokens: list[str] = []
    for line in text.split("\n"):
        own = _tokens(line)
        if not own:
            continue
        if tokens and line[0].isspace():
            tokens += own
            continue
        if tokens:
            yield tokens
        tokens = own
    if tokens:
        yield tokens


def _tokens(line: str) -> list[str]:
    """Return the tokens before a comment, which starts with a token that starts with "#"."""
    tokens: list[str] = []
    for token in line.split():
        if token.startswith("#"):
            break
        tokens.append(token.replace('"', "").replace("'", ""))
    return tokens


def _is_array(token: str) -> bool:
    return len(token) >= _SHORTEST and _KEYWORD.startswith(token.lower())


def _array_device(tokens: list[str]) -> str | None:
    name = tokens[1] if len(tokens) > 1 else ""
    if not name or "=" in name or name.startswith("<"):
        return None
    return name if name.startswith("/") else _STANDARD_FOLDER + name

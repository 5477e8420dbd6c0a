"""Tar, read in one pass and under caps: POSIX ustar and pax, GNU long names, and old V7.

The standard library's tarfile reads a pax header of any size into memory, and raises a dozen
kinds of exceptions for a damaged one. The format: pax(1) of POSIX.1-2017, tar(5) of libarchive.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ext4audit.sources.archive_base import ArchiveError, Limits, Wanted
from ext4audit.sources.archive_stream import Stream
from ext4audit.sources.archive_tree import (
    Directory,
    File,
    Link,
    MemoryArchive,
    Node,
    Special,
    clean,
)
from ext4audit.sources.text import decode

BLOCK_BYTES = 512
_LARGEST_HEADER_BYTES = 1 << 20
_MAGIC_AT = 257
_BASE_256 = b"\x80"
_REGULAR = frozenset(b"\x0007")
_SPECIAL = {
    ord("3"): "a character device",
    ord("4"): "a block device",
    ord("6"): "a FIFO",
    ord("S"): "a sparse file",
}


def is_tar(start: bytes) -> bool:
    """Whether a file starts with the header of a tar member, or is the end of an empty tar."""
    if len(start) < BLOCK_BYTES:
        return False
    block = start[:BLOCK_BYTES]
    return not any(block) or _checksum_fits(block)


def read_tar(stream: Stream, label: str, limits: Limits, wanted: Wanted) -> MemoryArchive:
    """Return the archive with the content of the wanted members; raises ArchiveError."""
    if not is_tar(stream.peek(BLOCK_BYTES)):
        raise ArchiveError("not a tar archive")
    archive = MemoryArchive(label, limits)
    said = _Said()
    while any(block := stream.read(BLOCK_BYTES)):
        if not _checksum_fits(block):
            raise ArchiveError("damaged: a member's header has a wrong checksum")
        kind, size = block[156], _number(block[124:136])
        if kind in b"xgLK":
            said.hear(kind, _padded(stream, size, _LARGEST_HEADER_BYTES))
            continue
        _member(archive, stream, said.header(block, kind, size), wanted)
        said = _Said()
    if not stream.is_padded_to_its_end():
        raise ArchiveError("something follows the end of the archive: two joined into one?")
    return archive


@dataclass(frozen=True, slots=True)
class _Header:
    path: str
    kind: int
    size: int
    target: str


@dataclass(slots=True)
class _Said:
    """What extension headers say of the member that follows them."""

    values: dict[str, str] = field(default_factory=dict)

    def hear(self, kind: int, content: bytes) -> None:
        """Take in one extension header; raises ArchiveError."""
        if kind in b"LK":
            key = "path" if kind == ord("L") else "linkpath"
            self.values[key] = decode(content.partition(b"\0")[0])
            return
        records = dict(_records(content))
        if kind == ord("g") and records.keys() & {"path", "linkpath", "size"}:
            raise ArchiveError("a global header gives every member one name or size")
        if kind == ord("x"):
            self.values |= records

    def header(self, block: bytes, kind: int, size: int) -> _Header:
        """Return the member's header, as extended."""
        path = self.values.get("path", _path(block))
        if kind in _REGULAR and path.endswith("/"):
            kind = ord("5")
        if any(key.startswith("GNU.sparse.") for key in self.values):
            kind = ord("S")
        if "size" in self.values:
            size = _decimal(self.values["size"])
        target = self.values.get("linkpath", _text(block[157:257]))
        return _Header(path, kind, size, target)


def _member(archive: MemoryArchive, stream: Stream, header: _Header, wanted: Wanted) -> None:
    # POSIX: links, devices and directories have no content, whatever their size field says.
    size = header.size if header.kind not in b"123456" else 0
    if header.kind in _REGULAR and wanted(clean(header.path)):
        archive.add(header.path, File(_padded(stream, size, archive.largest_file_bytes)))
        return
    archive.add(header.path, _node(header))
    stream.skip(_whole_blocks(size))


def _node(header: _Header) -> Node:
    if header.kind in _REGULAR:
        return File()
    if header.kind == ord("5"):
        return Directory()
    if header.kind == ord("2"):
        return Link(header.target)
    if header.kind == ord("1"):
        return Link(header.target, from_top=True)
    return Special(_SPECIAL.get(header.kind, f"a member of the unknown type {chr(header.kind)!r}"))


def _padded(stream: Stream, size: int, limit_bytes: int) -> bytes:
    """Take the content of a member, and pass over what fills its last block."""
    if size > limit_bytes:
        raise ArchiveError(f"a member is larger than {limit_bytes} bytes")
    content = stream.read(size)
    stream.skip(_whole_blocks(size) - size)
    return content


def _whole_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _path(block: bytes) -> str:
    """Return the name; only POSIX has its first part in `prefix`, where GNU keeps times."""
    name = _text(block[:100])
    prefix = _text(block[345:500]) if block[_MAGIC_AT:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field_bytes: bytes) -> str:
    return decode(field_bytes.partition(b"\0")[0])


def _records(content: bytes) -> list[tuple[str, str]]:
    """Split a pax header: each record is its length in decimal, a space, `key=value`, a newline."""
    records, start = [], 0
    while start < len(content):
        space = content.find(b" ", start, start + 20)
        length = _decimal(decode(content[start : max(space, start)]))
        record = content[space + 1 : start + length]
        key, equals, value = record.partition(b"=")
        if not equals or not record.endswith(b"\n") or start + length > len(content):
            raise ArchiveError("damaged: a pax header is no list of records")
        records.append((decode(key), decode(value[:-1])))
        start += length
    return records


def _decimal(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,19}", text) is None:
        raise ArchiveError(f"damaged: {text!r:.40} is no number")
    return int(text)


def _number(field_bytes: bytes) -> int:
    """Read octal digits, or GNU's base 256 for sizes from 8 GiB; raises ArchiveError."""
    if field_bytes.startswith(_BASE_256):
        return int.from_bytes(field_bytes[1:], "big")
    digits = field_bytes.strip(b" \0")
    if digits.strip(b"01234567"):
        raise ArchiveError(f"damaged: {digits!r:.40} is no octal number")
    return int(digits or b"0", 8)


def _checksum_fits(block: bytes) -> bool:
    """Check the sum of the header's bytes, those of the sum itself taken as spaces."""
    found = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    digits = block[148:156].strip(b" \0")
    return bool(re.fullmatch(rb"[0-7]+", digits)) and found == int(digits, 8)

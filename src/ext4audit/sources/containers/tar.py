"""Read tar files and compressed streams in one pass, within limits.

The standard library's tarfile is not used, because it reads pax headers of any size into memory
and raises a dozen kinds of exceptions for damaged ones. The format is specified in pax(1) of
POSIX.1-2017 and tar(5) of libarchive.
"""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from ext4audit.sources import ArchiveError, decode
from ext4audit.sources.containers import (
    Directory,
    File,
    Limits,
    Link,
    MemoryArchive,
    Node,
    Special,
    Wanted,
    normalized_path,
)
from ext4audit.sources.timeouts import Readable

BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 16
_XZ_MEMORY_BYTES = 80 << 20
"""Decompressing `xz -9` takes 65 MiB (xz(1)); a malicious header can demand 4 GiB."""
_COMPRESSED = {
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it first (zstd -d)",
    b"\x04\x22\x4d\x18": "compressed by lz4: unpack it first (lz4 -d)",
    b"LZIP": "compressed by lzip: unpack it first (lzip -d)",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first (7z x)",
}
_UNREAD = _COMPRESSED | {b"PK\x03\x04": "a zip archive: unpack it first (unzip)"}
"""Messages for formats that the standard library cannot read in one pass, by magic number."""
_LARGEST_HEADER_BYTES = 1 << 20
"""The limit for all extension headers of one member together; a path has at most 4 KiB."""
_READ_KEYS = frozenset({"path", "linkpath", "size"})
_SPARSE = "GNU.sparse."
_SPARSE_FLAG_AT, _SPARSE_MAP_FLAG_AT = 482, 504
"""Where "is extended" is in a header, and in a further block of the map (GNU tar manual, D.1)."""
TAR_MAGIC_AT = 257
_BASE_256 = b"\x80"
_REGULAR = frozenset(b"\x0007")
_SPECIAL = {
    ord("3"): "a character device",
    ord("4"): "a block device",
    ord("6"): "a FIFO",
    ord("S"): "a sparse file",
}


def is_tar(start: bytes) -> bool:
    """Return whether a file starts with a tar header, or with the end block of an empty tar."""
    if len(start) < BLOCK_BYTES:
        return False
    block = start[:BLOCK_BYTES]
    return not any(block) or _checksum_fits(block)


def is_compressed(start: bytes) -> bool:
    """Return whether a file is compressed, including in formats that `Stream` cannot read."""
    return start.startswith((*_MAGIC, *_COMPRESSED))


def read_tar(stream: "Stream", label: str, limits: Limits, wanted: Wanted) -> MemoryArchive:
    """Return the archive with the content of the wanted members; raises ArchiveError."""
    if not is_tar(stream.peek(BLOCK_BYTES)):
        raise ArchiveError("not a tar archive")
    archive = MemoryArchive(label, limits)
    extensions = _Extensions()
    if not any(stream.peek(BLOCK_BYTES)) and not stream.is_padded_to_its_end():
        raise ArchiveError("not an archive; audit an image as a TARGET, without --from")
    while any(block := stream.read(BLOCK_BYTES)):
        if not _checksum_fits(block):
            raise ArchiveError("damaged: a member's header has a wrong checksum")
        kind, size = block[156], _number(block[124:136])
        if kind in b"xgLK":
            extensions.add(kind, _padded(stream, size, _LARGEST_HEADER_BYTES))
            continue
        if kind == ord("S"):
            _skip_sparse_map(stream, block)
        _member(archive, stream, extensions.header(block, kind, size), wanted)
        extensions = _Extensions()
    if not stream.is_padded_to_its_end():
        raise ArchiveError("data follows the end of the archive: are two archives concatenated?")
    return archive


class Stream:
    """The content of a file or pipe, decompressed from gzip, xz or bzip2; raises ArchiveError."""

    def __init__(self, raw: Readable, limits: Limits) -> None:
        self._raw = raw
        self._limits = limits
        self._in_bytes = self._out_bytes = 0
        self._buffer = bytearray()
        self._chunks = self._opened()

    def peek(self, count: int) -> bytes:
        """Return up to `count` of the next bytes without consuming them."""
        while len(self._buffer) < count and self._fill():
            pass
        return bytes(self._buffer[:count])

    def read(self, count: int) -> bytes:
        """Consume and return `count` bytes; raises ArchiveError if there are fewer."""
        taken = self.peek(count)
        if len(taken) < count:
            raise ArchiveError("truncated")
        del self._buffer[:count]
        return taken

    def skip(self, count: int) -> None:
        """Discard `count` bytes in chunks; raises ArchiveError if there are fewer."""
        while count:
            count -= len(self.read(min(count, _CHUNK_BYTES)))

    def rest(self, limit_bytes: int) -> bytes:
        """Consume and return the remaining bytes; raises ArchiveError beyond the limit."""
        while self._fill():
            if len(self._buffer) > limit_bytes:
                raise ArchiveError(f"larger than {limit_bytes} bytes")
        taken = bytes(self._buffer)
        self._buffer.clear()
        return taken

    def is_padded_to_its_end(self) -> bool:
        """Consume the rest, which verifies a final checksum; return whether it is all zeros."""
        while self._buffer.count(0) == len(self._buffer):
            self._buffer.clear()
            if not self._fill():
                return True
        return False

    def _fill(self) -> bool:
        """Append the next chunk to the buffer; return whether there was one."""
        try:
            chunk = next(self._chunks, b"")
        except (TimeoutError, ArchiveError):
            raise
        except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise ArchiveError(f"damaged: {error}") from None
        self._buffer += chunk
        self._out_bytes += len(chunk)
        if self._out_bytes > self._limits.largest_stream_bytes:
            raise ArchiveError(f"unpacks to more than {self._limits.largest_stream_bytes} bytes")
        most = self._in_bytes * self._limits.largest_ratio
        allowed = max(self._limits.free_stream_bytes, most)
        if self._out_bytes > allowed:
            raise ArchiveError(
                f"unpacks to more than {self._limits.largest_ratio} times its size (a bomb)"
            )
        return bool(chunk)

    def _opened(self) -> Iterator[bytes]:
        first = next(compressed := self._compressed(), b"")
        refusal = next((text for magic, text in _UNREAD.items() if first.startswith(magic)), None)
        if refusal:
            raise ArchiveError(refusal)
        factory = next((each for magic, each in _MAGIC.items() if first.startswith(magic)), None)
        if factory is None:
            yield first
            yield from compressed
        else:
            yield from _decompressed(first, compressed, factory)

    def _compressed(self) -> Iterator[bytes]:
        while chunk := self._raw.read(_CHUNK_BYTES):
            self._in_bytes += len(chunk)
            yield chunk


class _Decompressor(Protocol):
    """The common interface of the decompressors of lzma and bz2."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of `_Decompressor`."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


_MAGIC: dict[bytes, Callable[[], _Decompressor]] = {
    b"\x1f\x8b": _Gzip,
    b"\xfd7zXZ\0": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES),
    b"BZh": bz2.BZ2Decompressor,
}


def _decompressed(
    first: bytes, more: Iterator[bytes], make: Callable[[], _Decompressor]
) -> Iterator[bytes]:
    """Yield the content of concatenated streams, as `gzip -d` does; padding may follow them."""
    data = first
    while data:
        decompressor = make()
        while not decompressor.eof:
            out = decompressor.decompress(data, _CHUNK_BYTES)
            if out:
                yield out
            # Output may be pending after all input is consumed; only empty output means the end.
            data = next(more, b"") if decompressor.needs_input and not decompressor.eof else b""
            if not out and not data and decompressor.needs_input and not decompressor.eof:
                raise ArchiveError("truncated")
        data = decompressor.unused_data
        while not data.strip(b"\0\r\n "):
            if not (data := next(more, b"")):
                return


class _Header(NamedTuple):
    path: str
    kind: int
    size: int
    target: str


@dataclass(slots=True)
class _Extensions:
    """The relevant fields that extension headers set for the member after them."""

    values: dict[str, str] = field(default_factory=dict)
    _room_bytes: int = _LARGEST_HEADER_BYTES

    def add(self, kind: int, content: bytes) -> None:
        """Add the fields of one extension header; raises ArchiveError."""
        # Empty headers count too, because they take a block.
        self._room_bytes -= max(len(content), BLOCK_BYTES)
        if self._room_bytes < 0:
            raise ArchiveError(f"extension headers of more than {_LARGEST_HEADER_BYTES} bytes")
        if kind in b"LK":
            key = "path" if kind == ord("L") else "linkpath"
            self.values[key] = decode(content.partition(b"\0")[0])
            return
        # All keys for sparse files are merged into one: it only matters that the file is sparse.
        records = {
            (_SPARSE if key.startswith(_SPARSE) else key): value
            for key, value in _records(content)
            if key in _READ_KEYS or key.startswith(_SPARSE)
        }
        if kind == ord("g") and records.keys() & _READ_KEYS:
            raise ArchiveError("a global header gives every member one name or size")
        if kind == ord("x"):
            self.values |= records

    def header(self, block: bytes, kind: int, size: int) -> _Header:
        """Return the header of the member, with the extensions applied."""
        path = self.values.get("path", _path(block))
        if kind in _REGULAR and path.endswith("/"):
            kind = ord("5")
        if _SPARSE in self.values:
            kind = ord("S")
        if "size" in self.values:
            size = _decimal(self.values["size"])
        target = self.values.get("linkpath", _text(block[157:257]))
        return _Header(path, kind, size, target)


def _member(archive: MemoryArchive, stream: Stream, header: _Header, wanted: Wanted) -> None:
    # POSIX: links, devices and directories have no content, regardless of their size field.
    size = header.size if header.kind not in b"123456" else 0
    if header.kind in _REGULAR and wanted(normalized_path(header.path)):
        archive.add(header.path, File(_padded(stream, size, archive.largest_file_bytes)))
        return
    archive.add(header.path, _node(header))
    stream.skip(_whole_blocks(size))


def _skip_sparse_map(stream: Stream, header: bytes) -> None:
    """Skip the rest of the map of a sparse file, which GNU tar writes behind its header.

    The size of the member leaves these blocks out. A flag in each says whether another follows.
    """
    has_more = header[_SPARSE_FLAG_AT]
    while has_more:
        has_more = stream.read(BLOCK_BYTES)[_SPARSE_MAP_FLAG_AT]


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
    """Consume and return the content of a member, and discard the padding of its last block."""
    if size > limit_bytes:
        raise ArchiveError(f"a member is larger than {limit_bytes} bytes")
    content = stream.read(size)
    stream.skip(_whole_blocks(size) - size)
    return content


def _whole_blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _path(block: bytes) -> str:
    """Return the path; only POSIX stores its first part in `prefix`, where GNU stores times."""
    name = _text(block[:100])
    prefix = _text(block[345:500]) if block[TAR_MAGIC_AT:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _text(field_bytes: bytes) -> str:
    return decode(field_bytes.partition(b"\0")[0])


def _records(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield keys and values of a pax header, whose records are "LENGTH KEY=VALUE" and a newline."""
    start = 0
    while start < len(content):
        space = content.find(b" ", start, start + 20)
        length = _decimal(decode(content[start : max(space, start)]))
        record = content[space + 1 : start + length]
        key, equals, value = record.partition(b"=")
        if not equals or not record.endswith(b"\n") or start + length > len(content):
            raise ArchiveError("damaged: a pax header is not a list of records")
        yield decode(key), decode(value[:-1])
        start += length


def _decimal(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,19}", text) is None:
        raise ArchiveError(f"damaged: {text!r:.40} is not a number")
    return int(text)


def _number(field_bytes: bytes) -> int:
    """Parse octal digits, or GNU's base 256 for sizes from 8 GiB; raises ArchiveError."""
    if field_bytes.startswith(_BASE_256):
        return int.from_bytes(field_bytes[1:], "big")
    digits = field_bytes.strip(b" \0")
    if digits.strip(b"01234567"):
        raise ArchiveError(f"damaged: {digits!r:.40} is not an octal number")
    return int(digits or b"0", 8)


def _checksum_fits(block: bytes) -> bool:
    """Return whether the checksum is the sum of the header's bytes, with itself as spaces."""
    found = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    digits = block[148:156].strip(b" \0")
    return bool(re.fullmatch(rb"[0-7]+", digits)) and found == int(digits, 8)

"""Bytes of a file or a pipe, decompressed on the way, under caps."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from ext4audit.sources.archive_base import ArchiveError, Limits

_CHUNK_BYTES = 1 << 16
_FREE_BYTES = 8 << 20
"""What may come out before the ratio counts: short texts compress to almost nothing."""
_XZ_MEMORY_BYTES = 128 << 20
"""`xz -9` needs 65 MiB to decompress (xz(1)); a hostile header can ask for 4 GiB."""
_ZSTD = b"\x28\xb5\x2f\xfd"


class Stream:
    """The content of a file or pipe; gzip, xz and bzip2 are decompressed. Raises ArchiveError."""

    def __init__(self, raw: IO[bytes], limits: Limits) -> None:
        self._raw = raw
        self._limits = limits
        self._in_bytes = self._out_bytes = 0
        self._buffer = bytearray()
        self._chunks = self._opened()

    def peek(self, count: int) -> bytes:
        """Return the next `count` bytes, or what is left, without taking them."""
        while len(self._buffer) < count and self._fill():
            pass
        return bytes(self._buffer[:count])

    def read(self, count: int) -> bytes:
        """Take `count` bytes; raises ArchiveError where the content ends before."""
        taken = self.peek(count)
        if len(taken) < count:
            raise ArchiveError("truncated")
        del self._buffer[:count]
        return taken

    def skip(self, count: int) -> None:
        """Pass over `count` bytes, in pieces; raises ArchiveError where the content ends before."""
        while count:
            count -= len(self.read(min(count, _CHUNK_BYTES)))

    def rest(self, limit_bytes: int) -> bytes:
        """Take all that is left; raises ArchiveError beyond the limit."""
        while self._fill():
            if len(self._buffer) > limit_bytes:
                raise ArchiveError(f"larger than {limit_bytes} bytes")
        taken = bytes(self._buffer)
        self._buffer.clear()
        return taken

    def is_padded_to_its_end(self) -> bool:
        """Take all that is left; return whether it is zeros. The checksum at the end is checked."""
        while not any(self._buffer):
            self._buffer.clear()
            if not self._fill():
                return True
        return False

    def _fill(self) -> bool:
        """Take one more chunk into the buffer; return whether there was one."""
        try:
            chunk = next(self._chunks, b"")
        except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise ArchiveError(f"damaged: {error}") from None
        self._buffer += chunk
        self._out_bytes += len(chunk)
        if self._out_bytes > self._limits.largest_stream_bytes:
            raise ArchiveError(f"unpacks to more than {self._limits.largest_stream_bytes} bytes")
        allowed = max(_FREE_BYTES, self._in_bytes * self._limits.largest_ratio)
        if self._out_bytes > allowed:
            raise ArchiveError(
                f"unpacks to more than {self._limits.largest_ratio} times its size: a bomb"
            )
        return bool(chunk)

    def _opened(self) -> Iterator[bytes]:
        first = next(compressed := self._compressed(), b"")
        if first.startswith(_ZSTD):
            raise ArchiveError("compressed by zstd: unpack it first (zstd -d)")
        make = next((made for magic, made in _MAGIC.items() if first.startswith(magic)), None)
        if make is None:
            yield first
            yield from compressed
        else:
            yield from _decompressed(first, compressed, make)

    def _compressed(self) -> Iterator[bytes]:
        while chunk := self._raw.read(_CHUNK_BYTES):
            self._in_bytes += len(chunk)
            yield chunk


class _Machine(Protocol):
    """What the three decompressors of the standard library share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Gzip:
    """zlib's decompressor with the interface of the other two."""

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


def _xz() -> _Machine:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


_MAGIC: dict[bytes, Callable[[], _Machine]] = {
    b"\x1f\x8b": _Gzip,
    b"\xfd7zXZ\0": _xz,
    b"BZh": bz2.BZ2Decompressor,
}


def _decompressed(
    first: bytes, more: Iterator[bytes], make: Callable[[], _Machine]
) -> Iterator[bytes]:
    """Decompress one stream after another, as `gzip -d` does; padding may follow them."""
    data = first
    while data:
        machine = make()
        while not machine.eof:
            out = machine.decompress(data, _CHUNK_BYTES)
            if out:
                yield out
            # Output may be pending when all the input is taken, so only silence is the end.
            data = next(more, b"") if machine.needs_input and not machine.eof else b""
            if not out and not data and machine.needs_input and not machine.eof:
                raise ArchiveError("truncated")
        data = machine.unused_data
        while not data.strip(b"\0\r\n "):
            if not (data := next(more, b"")):
                return

"""Read untrusted directories and tar files in place, without unpacking.

Nothing is written to disk. Damaged, malicious or oversized archives raise ArchiveError, with the
name of the archive in the message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TypeVar

from ext4audit.sources import ArchiveError, decode, encode, read_most
from ext4audit.sources.containers import (
    Directory,
    File,
    Limits,
    Link,
    MemoryArchive,
    Node,
    Special,
    Tree,
    Wanted,
    describe_node,
    held_bytes,
)
from ext4audit.sources.containers.tar import Stream, read_tar
from ext4audit.sources.timeouts import BoundedCalls

R = TypeVar("R")
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class DirectoryArchive(Tree):
    """A directory that may have been unpacked from an untrusted archive.

    Links are resolved by name inside the directory. Files are opened part by part without following
    links, so that a link that appears in the meantime cannot lead outside. The directory may be on
    a dead server: `calls` limits the wait, and after one timeout, all calls raise TimeoutError.
    """

    def __init__(self, path: str, limits: Limits, calls: BoundedCalls | None = None) -> None:
        super().__init__(path, self._node_at)
        self._limits = limits
        self._calls = calls or BoundedCalls()
        self._dead = ""
        self._seen: dict[str, Node | None] = {}
        self._room_bytes = limits.largest_kept_bytes

    def names(self) -> tuple[str, ...]:
        """Return the paths of all regular files, sorted; raises ArchiveError beyond the limits."""
        found, held = [], 0
        for count, (name, node) in enumerate(self._walk(""), start=1):
            held += held_bytes(name)
            if count > self._limits.most_entries:
                raise self.error(f"holds more than {self._limits.most_entries} entries")
            if held > self._limits.largest_kept_bytes:
                raise self.error(f"names of more than {self._limits.largest_kept_bytes} bytes")
            if isinstance(node, File):
                found.append(name)
        return tuple(sorted(found))

    def _walk(self, top: str) -> Iterator[tuple[str, Node]]:
        folders = [top]
        while folders:
            folder = folders.pop()
            for child, node in self._entries(folder):
                name = f"{folder}/{child}" if folder else child
                yield name, node
                if isinstance(node, Directory):
                    folders.append(name)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; raises ArchiveError or TimeoutError."""
        return tuple(child for child, _ in self._entries(self.directory(name)))

    def _entries(self, where: str) -> list[tuple[str, Node]]:
        """Return the names in a directory and their nodes, sorted; raises ArchiveError."""
        most = self._limits.most_entries
        found = self._bounded(where, partial(_entries, self._place(where), most + 1))
        if len(found) > most:
            raise self.error(f"holds more than {most} entries")
        return found

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises ArchiveError or TimeoutError."""
        where, node = self.follow(name)
        if not isinstance(node, File):
            raise self.error(f"{name!r:.200}: {describe_node(node)}")
        largest = self._limits.largest_file_bytes
        content = self._bounded(name, partial(_content, self.label, where.split("/"), largest))
        self._room_bytes -= len(content)
        if self._room_bytes < 0:
            raise self.error(f"more than {self._limits.largest_kept_bytes} bytes were read")
        return content

    def _node_at(self, name: str) -> Node | None:
        """Return the node at a path whose parents are directories; raises TimeoutError.

        Nodes are cached: forty files in the same folders are requested for each device, and most
        archives have none of them. A link that replaces a cached node later is not followed by
        `_content`.
        """
        if name not in self._seen:
            if len(self._seen) > self._limits.most_entries:
                self._seen.clear()
            self._seen[name] = self._bounded(name, partial(_node, self._place(name)))
        return self._seen[name]

    def _bounded(self, name: str, call: Callable[[], R]) -> R:
        """Return the result of a call about a path; raises TimeoutError or ArchiveError."""
        if self._dead:
            raise TimeoutError(self._dead)
        try:
            return self._calls(call)
        except TimeoutError as error:
            self._dead = str(error)
            raise
        except OSError as error:
            raise self.error(f"{name!r:.200}: {error.strerror or error}") from None
        except ArchiveError as error:
            raise self.error(f"{name!r:.200}: {error}") from None

    def _place(self, name: str) -> str:
        return f"{self.label}/{name}"


def _entries(place: str, most: int) -> list[tuple[str, Node]]:
    """Return at most `most` names in a directory and their nodes, sorted; raises OSError."""
    with os.scandir(encode(place)) as found:
        names = [decode(name) for name in sorted(entry.name for entry in islice(found, most))]
    nodes = ((name, _node(f"{place}/{name}")) for name in names)
    return [(name, node) for name, node in nodes if node is not None]


def _node(place: str) -> Node | None:
    """Return the node at a path, or None if it cannot be examined."""
    try:
        path = encode(place)
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return Link(decode(os.readlink(path)))  # noqa: PTH115 - pathlib uses the locale
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return Directory()
    return File() if stat.S_ISREG(mode) else Special("a device, a FIFO or a socket")


def archive_in(stream: Stream, label: str, *, limits: Limits, wanted: Wanted) -> MemoryArchive:
    """Read a tar from the start of a stream; raises ArchiveError.

    The content is only kept of members whose path `wanted` accepts; the names of all are kept.
    """
    try:
        return read_tar(stream, label, limits, wanted)
    except ArchiveError as error:
        raise ArchiveError(str(error), label) from None


def _content(top: str, parts: list[str], limit_bytes: int) -> bytes:
    """Read a file below `top` without following links; raises OSError or ArchiveError."""
    folder = os.open(encode(top), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(encode(part), _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        descriptor = os.open(encode(parts[-1]), _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ArchiveError("not a regular file")
        if status.st_size > limit_bytes:
            raise ArchiveError(f"larger than {limit_bytes} bytes")
        return read_most(file, limit_bytes)

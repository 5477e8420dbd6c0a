"""The interface and limits of archives of captured evidence, and archives held in memory."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from sys import getsizeof
from typing import NamedTuple, Protocol, TypeAlias

from ext4audit.sources import ArchiveError

Wanted: TypeAlias = Callable[[str], bool]
MOST_LINKS = 40
"""The limit of the kernel for one path (path_resolution(7)); more are treated as a loop."""
LONGEST_PATH = 4096
"""PATH_MAX of Linux; limits how many directories the path of a member can create."""


_ENTRY_BYTES = 400
"""The memory of a member without its name: an object, and slots in a dictionary, list and sort."""


def held_bytes(*texts: str) -> int:
    """Return the memory in bytes that a member with these texts takes."""
    return _ENTRY_BYTES + sum(map(getsizeof, texts))


class Limits(NamedTuple):
    """The limits of one archive, which is untrusted and is read into memory.

    `largest_kept_bytes` limits the data held in memory: contents, with duplicates counted once, and
    the names of all members, because a path of 4 KiB can create 2,000 directories. With a
    decompressor (65 MiB) and the program itself, the total stays below 256 MiB.
    `largest_stream_bytes` limits the decompressed size, including unwanted members.
    `largest_ratio` limits the compression ratio of streams longer than `free_stream_bytes`: there
    is a 42 KB zip file that expands to 4 PB.
    """

    most_entries: int
    largest_file_bytes: int = 64 << 20
    largest_kept_bytes: int = 160 << 20
    largest_stream_bytes: int = 512 << 20
    largest_ratio: int = 200
    free_stream_bytes: int = 8 << 20


SNAPSHOT_LIMITS = Limits(most_entries=20_000)
# A sosreport of a large host contains 60,000 sysfs files, gigabytes of logs, and the mount table of
# each process: on a Kubernetes node these are hundreds of MiB, which xz compresses 1,700-fold. With
# `-o filesys` it contains little else. Decompressing 512 MiB takes two seconds.
ARCHIVE_LIMITS = Limits(
    most_entries=200_000, largest_stream_bytes=16 << 30, free_stream_bytes=512 << 20
)


class Archive(Protocol):
    """Files by path; paths are relative, separated by "/", without a leading "./" or "..".

    A top-level directory that all members share is part of each path. Symbolic and hard links are
    followed only inside the archive. Names are decoded as UTF-8 with surrogateescape.
    """

    @property
    def label(self) -> str:
        """Return the readable name of the archive, which is the path it was opened with."""
        ...

    def names(self) -> Collection[str]:
        """Return the paths of all regular files, sorted, without links."""
        ...

    def is_directory(self, name: str) -> bool:
        """Return whether a path is a directory, after following links; "" is the top level."""
        ...

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; raises ArchiveError if it is not a directory."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises ArchiveError."""
        ...


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file; `content` is None if it is not wanted or not held in memory."""

    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, relative to its directory; or, with `from_top`, a hard link."""

    target: str
    from_top: bool = False


@dataclass(frozen=True, slots=True)
class Special:
    """A file that is never read; `kind` is for example "a character device" or "a FIFO"."""

    kind: str


Node: TypeAlias = Directory | File | Link | Special
Look: TypeAlias = Callable[[str], Node | None]


class Tree:
    """A directory tree in which links are followed; `look` returns the node at a path."""

    def __init__(self, label: str, look: Look) -> None:
        self.label = label
        self._look = look

    def is_directory(self, name: str) -> bool:
        """Return whether a path is a directory, after following links."""
        return isinstance(self.follow(name)[1], Directory)

    def directory(self, name: str) -> str:
        """Return the resolved path of a directory; raises ArchiveError if it is not a directory."""
        where, node = self.follow(name)
        if not isinstance(node, Directory):
            raise self.error(f"{name!r:.200}: not a directory")
        return where

    def follow(self, name: str) -> tuple[str, Node | None]:
        """Return the resolved path of `name` and its node; raises ArchiveError."""
        try:
            return resolve_links(name, self._look)
        except ArchiveError as error:
            raise self.error(str(error)) from None

    def error(self, message: str) -> ArchiveError:
        """Return an ArchiveError whose message names this archive."""
        return ArchiveError(message, self.label)


class MemoryArchive(Tree):
    """An archive whose wanted members are held in memory."""

    def __init__(self, label: str, limits: Limits) -> None:
        self._nodes: dict[str, Node] = {"": Directory()}
        super().__init__(label, self._nodes.get)
        self._limits = limits
        self._children: dict[str, list[str]] = {"": []}
        self._files: dict[bytes, File] = {}
        self._room_bytes = limits.largest_kept_bytes

    @property
    def largest_file_bytes(self) -> int:
        """The largest size of the next member, given the limits and the remaining room."""
        return max(min(self._limits.largest_file_bytes, self._room_bytes), 0)

    def add(self, path: str, node: Node) -> None:
        """Add a member; raises ArchiveError for a duplicate name, or if a limit is exceeded."""
        name = normalized_path(path)
        existing = self._nodes.get(name)
        if isinstance(existing, Directory) and isinstance(node, Directory):
            return
        if existing is not None:
            raise ArchiveError(f"two members are named {name!r:.200}")
        if isinstance(node, File) and node.content is not None:
            node = self._held(node.content, node)
        self._insert(name, node)

    def _held(self, content: bytes, file: File) -> File:
        """Return the first file with this content, which all duplicates share at no cost."""
        if content not in self._files:
            self._take(len(content))
        return self._files.setdefault(content, file)

    def _take(self, count: int) -> None:
        """Deduct `count` bytes from the room; raises ArchiveError if there is none left."""
        self._room_bytes -= count
        if self._room_bytes < 0:
            raise ArchiveError(f"holds more than {self._limits.largest_kept_bytes} bytes")

    def _insert(self, name: str, node: Node) -> None:
        folder, _, last = name.rpartition("/")
        if not isinstance(self._nodes.get(folder, Directory()), Directory):
            raise ArchiveError(f"{folder!r:.200} is a directory and something else")
        if folder not in self._nodes:
            self._insert_folders(folder)
        self._take(held_bytes(name, last, node.target if isinstance(node, Link) else ""))
        self._nodes[name] = node
        self._children[folder].append(last)
        if isinstance(node, Directory):
            self._children[name] = []
        if len(self._nodes) > self._limits.most_entries + 1:
            raise ArchiveError(f"holds more than {self._limits.most_entries} entries")

    def _insert_folders(self, folder: str) -> None:
        """Add missing parent directories, from the top down."""
        parts = folder.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            if name not in self._nodes:
                self._insert(name, Directory())

    def names(self) -> tuple[str, ...]:
        """Return the paths of all regular files, sorted."""
        return tuple(sorted(name for name, node in self._nodes.items() if isinstance(node, File)))

    def specials(self) -> dict[str, str]:
        """Return the kinds of members that are not files, directories or links, by path."""
        return {name: node.kind for name, node in self._nodes.items() if isinstance(node, Special)}

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        return tuple(sorted(self._children[self.directory(name)]))

    def read(self, name: str) -> bytes:
        """Return the content of a file; raises ArchiveError."""
        _, node = self.follow(name)
        if isinstance(node, File) and node.content is not None:
            return node.content
        raise self.error(f"{name!r:.200}: {describe_node(node)}")


def normalized_path(path: str) -> str:
    """Return a path without "." and repeated "/"; raises ArchiveError if it is unsafe."""
    if len(path) > LONGEST_PATH:
        raise ArchiveError(f"a path of {len(path)} characters")
    if path.startswith("/"):
        raise ArchiveError(f"an absolute path: {path!r:.200}")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts or "\0" in path:
        raise ArchiveError(f"a path that could leave the archive: {path!r:.200}")
    return "/".join(parts)


def resolve_links(name: str, look: Look) -> tuple[str, Node | None]:
    """Return the path of `name` with links resolved, and the node there (None if missing).

    Raises ArchiveError for a loop, or for a link that leaves the archive.
    """
    ahead, behind, links = _parts(name), list[str](), 0
    node: Node | None = Directory()
    while ahead:
        part = ahead.pop(0)
        if part == "..":
            if not behind:
                raise ArchiveError(f"{name!r:.200}: a link leaves the archive")
            behind.pop()
            node = Directory()
            continue
        node = look("/".join((*behind, part)))
        if isinstance(node, Link):
            links += 1
            if links > MOST_LINKS:
                raise ArchiveError(f"{name!r:.200}: more than {MOST_LINKS} links, one to another")
            if node.target.startswith("/"):
                raise ArchiveError(f"{name!r:.200}: a link leaves the archive")
            if node.from_top:
                behind.clear()
            ahead[:0] = _parts(node.target)
            node = Directory()
            continue
        behind.append(part)
        if ahead and not isinstance(node, Directory):
            return "/".join((*behind, *ahead)), None
    return "/".join(behind), node


def describe_node(node: Node | None) -> str:
    """Return a phrase for errors about why a node cannot be read."""
    match node:
        case None:
            return "not in the archive"
        case Special(kind):
            return f"{kind}, not a regular file"
        case File():
            return "was not kept in memory"
        case _:
            return "not a regular file"


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]

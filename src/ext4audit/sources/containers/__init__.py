"""Containers of captured evidence: their interface and limits, and trees held in memory."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from sys import getsizeof
from typing import NamedTuple, Protocol, TypeAlias

from ext4audit.sources import ArchiveError

Wanted: TypeAlias = Callable[[str], bool]
MOST_LINKS = 40
"""As the kernel follows on one path (path_resolution(7)); more is a loop."""
LONGEST_PATH = 4096
"""PATH_MAX of Linux; each part of a path may become a directory of its own."""


_ENTRY_BYTES = 400
"""A member beside its name: its object, and its places in a dictionary, a list and a sort."""


def held_bytes(*texts: str) -> int:
    """Return the memory that a member with these texts takes."""
    return _ENTRY_BYTES + sum(map(getsizeof, texts))


class Limits(NamedTuple):
    """What one archive may cost: an archive is untrusted, and is read in memory.

    `largest_kept_bytes` bounds what is held: contents, like ones once, and the names of all
    members, for a path of 4 KiB makes 2,000 directories with paths of their own. With a
    decompressor (65 MiB) and the program it stays below 256 MiB.
    `largest_stream_bytes` bounds what is decompressed, unwanted members included.
    `largest_ratio` is how many bytes one compressed byte may become, beyond the first
    `free_stream_bytes`: 42 KB of zip once became 4 PB.
    """

    most_entries: int
    largest_file_bytes: int = 64 << 20
    largest_kept_bytes: int = 160 << 20
    largest_stream_bytes: int = 512 << 20
    largest_ratio: int = 200
    free_stream_bytes: int = 8 << 20


SNAPSHOT_LIMITS = Limits(most_entries=20_000)
# A sosreport of a large host holds 60,000 files of sysfs, and gigabytes of logs beside them. Each
# process has a copy of its mount table in it: on a node of Kubernetes these are hundreds of MiB,
# which xz packs 1,700 times smaller, and `-o filesys` nothing else. 512 MiB take two seconds.
ARCHIVE_LIMITS = Limits(
    most_entries=200_000, largest_stream_bytes=16 << 30, free_stream_bytes=512 << 20
)


class Archive(Protocol):
    """Files by their paths: relative, "/" between the parts, no leading "./", no "..".

    A directory at the top that all members share is part of each path. Symbolic and hard links
    are followed inside the archive, and never out of it. Names are UTF-8, surrogateescape.
    """

    @property
    def label(self) -> str:
        """Return the readable name of the archive: the path that it was opened by."""
        ...

    def names(self) -> Collection[str]:
        """Return the paths of all regular files, sorted; links are not among them."""
        ...

    def is_directory(self, name: str) -> bool:
        """Whether a path leads to a directory; "" is the top."""
        ...

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted; raises ArchiveError where it is none."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file's content; raises ArchiveError."""
        ...


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file; `content` is None where it was not wanted, or lies elsewhere."""

    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link, its target relative to its directory; or a hard link, `from_top`."""

    target: str
    from_top: bool = False


@dataclass(frozen=True, slots=True)
class Special:
    """A file that is never read: "a character device", "a FIFO"."""

    kind: str


Node: TypeAlias = Directory | File | Link | Special
Look: TypeAlias = Callable[[str], Node | None]


class Tree:
    """A tree of directories, in which links are followed; `look` returns what is at a path."""

    def __init__(self, label: str, look: Look) -> None:
        self.label = label
        self._look = look

    def is_directory(self, name: str) -> bool:
        """Whether a path leads to a directory."""
        return isinstance(self.follow(name)[1], Directory)

    def directory(self, name: str) -> str:
        """Return the path without links of a directory; raises ArchiveError where it is none."""
        where, node = self.follow(name)
        if not isinstance(node, Directory):
            raise self.error(f"{name!r:.200}: not a directory")
        return where

    def follow(self, name: str) -> tuple[str, Node | None]:
        """Return the path without links that `name` leads to, and what is there."""
        try:
            return resolve_links(name, self._look)
        except ArchiveError as error:
            raise self.error(str(error)) from None

    def error(self, message: str) -> ArchiveError:
        """Return an error of this archive."""
        return ArchiveError(f"{self.label}: {message}")


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
        """The most that one member may hold."""
        return max(min(self._limits.largest_file_bytes, self._room_bytes), 0)

    def add(self, path: str, node: Node) -> None:
        """Add a member; raises ArchiveError for a second one of the name, and for too many."""
        name = normalized_path(path)
        there = self._nodes.get(name)
        if isinstance(there, Directory) and isinstance(node, Directory):
            return
        if there is not None:
            raise ArchiveError(f"two members are named {name!r:.200}")
        if isinstance(node, File) and node.content is not None:
            node = self._held(node.content, node)
        self._insert(name, node)

    def _held(self, content: bytes, file: File) -> File:
        """Return the first file with this content; all others share it, and cost nothing."""
        if content not in self._files:
            self._take(len(content))
        return self._files.setdefault(content, file)

    def _take(self, count: int) -> None:
        """Count what is held from now on."""
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
        """Add the directories that the archive does not mention, from the top down."""
        parts = folder.split("/")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            if name not in self._nodes:
                self._insert(name, Directory())

    def names(self) -> tuple[str, ...]:
        """Return the paths of all regular files, sorted."""
        return tuple(sorted(name for name, node in self._nodes.items() if isinstance(node, File)))

    def specials(self) -> dict[str, str]:
        """Return what is neither file, directory nor link, by path."""
        return {name: node.kind for name, node in self._nodes.items() if isinstance(node, Special)}

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names in a directory, sorted."""
        return tuple(sorted(self._children[self.directory(name)]))

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        _, node = self.follow(name)
        if isinstance(node, File) and node.content is not None:
            return node.content
        raise self.error(f"{name!r:.200}: {describe_node(node)}")


def normalized_path(path: str) -> str:
    """Return a member's path without "." and doubled "/"; ArchiveError if it leads out."""
    if len(path) > LONGEST_PATH:
        raise ArchiveError(f"a path of {len(path)} characters")
    if path.startswith("/"):
        raise ArchiveError(f"an absolute path: {path!r:.200}")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts or "\0" in path:
        raise ArchiveError(f"a path that could leave the archive: {path!r:.200}")
    return "/".join(parts)


def resolve_links(name: str, look: Look) -> tuple[str, Node | None]:
    """Return the path without links that `name` leads to, and what is there.

    Raises ArchiveError for a loop, and for a link that leads out of the archive.
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
    """Return why a node cannot be read."""
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

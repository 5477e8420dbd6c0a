"""Find the hosts in a directory of captured evidence, their keys, and the expected host names.

The key of a host is the operator's name for it. It depends only on the path of that host, so
adding a host to a fleet or removing one does not change the identity of the others.
`expected_names` reads the hosts that a fleet should have (`--expect`): a list, or an inventory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ext4audit import lazily
from ext4audit.sources import ARCHIVE_MARKS, INSIGHTS_COMMANDS, ArchiveError, encode
from ext4audit.sources import decode as decode_text
from ext4audit.sources.captured import (
    EXTENSION,
    OWN_FOLDERS,
    STANDARD_INPUT,
    is_wrapped,
    key_of,
    unreadable,
)
from ext4audit.sources.snapshot import MANIFEST
from ext4audit.sources.timeouts import BoundedCalls, answered_for, bounded_calls, is_of_the_kernel

_is_tar = lazily("sources.containers.tar", "is_tar")
_is_compressed = lazily("sources.containers.tar", "is_compressed")
_ARCHIVE = re.compile(r"\.(?:tar|tgz|tbz2?|txz|gz|xz|bz2|zip)(?:\.gpg)?$", re.IGNORECASE)
_OF_THE_COLLECTION = frozenset({"sos_logs", "sos_reports"})
"""The folders of `sos collect` itself, next to the archives of the hosts."""
_ONE_HOST = ARCHIVE_MARKS | {MANIFEST}
"""Top-level names that identify a directory with the evidence of one host."""
_CORE_COLLECTION = "data"
"""The folder in which an Insights core collection holds the host's files, one level down."""
_DEEPEST = 16
_MOST_NAMES = 10_000
_START_BYTES = 1 << 16
_HEAD_BYTES = 1 << 12
_REPORT_MARKS = (b'"schema_version"', b'"$schema"', b'"hostname_map"')
"""Keys near the start of JSON files that are not evidence: our own reports, SARIF, and the map of
replaced names that `sos clean` writes next to the archive (…-private_map)."""


class FoundHost(NamedTuple):
    """The path of one host's evidence in a directory, and the host's key if the path has one."""

    path: str
    key: str | None


class Fleet(NamedTuple):
    """The hosts in a directory, and the paths of everything else in it, which is not evidence."""

    hosts: list[FoundHost]
    ignored: list[str]


class _Entry(NamedTuple):
    """A directory entry; `kind` is "directory", "file" or "other"."""

    name: str
    kind: str


def hosts_in(path: str) -> Fleet | None:
    """Return the hosts in a directory, sorted, or None if the path is the evidence of one host.

    Hidden names are ignored. Raises ArchiveError for a directory without hosts.
    """
    if path == STANDARD_INPUT:
        return None
    if path and not path.strip("/"):
        raise ArchiveError(f"{path}: this host itself, which is audited without --from")
    try:
        with bounded_calls() as bounded:
            look = _Look(bounded)
            is_directory = partial(os.path.isdir, encode(path))
            if not (is_directory() if is_of_the_kernel(path) else bounded(is_directory)):
                return None
            fleet = look.fleet(path.rstrip("/"))
    except OSError as error:
        raise unreadable(path, error) from None
    if fleet is not None and not fleet.hosts:
        raise ArchiveError(f"{path}: holds no snapshot")
    return fleet


class _Look:
    """Scans directories with a time limit on each call; methods raise OSError."""

    def __init__(self, bounded: BoundedCalls) -> None:
        self._bounded = bounded
        self._left = 0

    def fleet(self, folder: str) -> Fleet | None:
        """Return the hosts in a directory, or None if it is itself the evidence of one host."""
        entries = self._entries(folder, follow=True)
        if self._is_one_host(folder, entries):
            return None
        fleet = Fleet([], [])
        for entry in entries:
            self._add(fleet, folder, entry)
        return _single_host(folder, fleet) or fleet

    def _add(self, fleet: Fleet, folder: str, entry: _Entry) -> None:
        """Add one directory entry to the fleet, as one or more hosts or as an ignored path."""
        path = f"{folder}/{entry.name}"
        is_own = entry.kind == "directory" and entry.name in _OF_THE_COLLECTION
        if is_own or (entry.kind == "file" and not self._is_evidence(path)):
            fleet.ignored.append(path)
            return
        below = [path]
        if entry.kind == "directory":
            # A folder without evidence counts as a host too: its capture may have failed.
            self._left = _MOST_NAMES
            with suppress(OSError):  # an unreadable folder becomes an error of that host only
                below = list(self._below(path, _DEEPEST)) or below
        fleet.hosts.extend(FoundHost(each, key_of(path)) for each in below)

    def _below(self, folder: str, depth: int) -> Iterator[str]:
        """Yield the paths of all evidence in a host's folder, without following links."""
        entries = self._entries(folder, follow=False)
        self._left -= len(entries)
        if self._is_one_host(folder, entries):
            yield folder
            return
        for name, kind in entries:
            path = f"{folder}/{name}"
            if kind == "directory" and depth and self._left > 0:
                yield from self._below(path, depth - 1)
            elif kind == "file" and self._is_evidence(path):
                yield path

    def _entries(self, folder: str, *, follow: bool) -> list[_Entry]:
        return self._bounded(partial(_entries, folder, follow=follow))

    def _is_one_host(self, folder: str, entries: list[_Entry]) -> bool:
        names = {name for name, _ in entries}
        if _CORE_COLLECTION in names and not names & _ONE_HOST:
            core = f"{folder}/{_CORE_COLLECTION}/{INSIGHTS_COMMANDS}"
            return self._bounded(partial(os.path.isdir, encode(core)))
        return bool(names & _ONE_HOST)

    def _is_evidence(self, path: str) -> bool:
        """Return whether a file is, or was meant to be, evidence; unreadable files count too."""
        if _ARCHIVE.search(path):
            return True
        try:
            return looks_like_evidence(path, self._bounded(partial(_start, path)))
        except OSError:
            return True


def _single_host(folder: str, fleet: Fleet) -> Fleet | None:
    """Return the host of a directory with one host's `snapshot` or `archive` folder, else None.

    Raises ArchiveError if there are other hosts, because the key would depend on them.
    """
    own = tuple(f"{folder}/{name}/" for name in OWN_FOLDERS)
    inner = [each for each in fleet.hosts if f"{each.path}/".startswith(own)]
    if not inner:
        return None
    others = [each.path for each in fleet.hosts if each not in inner]
    if others or len(inner) > 1:
        both = (*others, *(each.path for each in inner[1:]))[0]
        raise ArchiveError(
            f"{folder}: holds evidence of more than one host: {inner[0].path}, {both}"
        )
    return fleet._replace(hosts=[inner[0]._replace(key=key_of(folder))])


def looks_like_evidence(path: str, start: bytes) -> bool:
    """Return whether a file that begins with `start` is meant as evidence.

    An empty file counts, as the remains of a failed capture. Any text with a snapshot's file
    extension counts too, except a README.
    """
    text = start.lstrip()
    if not text or is_wrapped(start) or _is_tar(start) or _is_compressed(start):
        return True
    if text.startswith(b"{"):
        return not any(mark in start[:_HEAD_BYTES] for mark in _REPORT_MARKS)
    name = path.rpartition("/")[2]
    return bool(EXTENSION.search(name)) and not name.lower().startswith("readme")


def _entries(folder: str, *, follow: bool) -> list[_Entry]:
    """Return the entries of a directory, sorted, without hidden ones; raises OSError."""
    with os.scandir(encode(folder)) as found:
        return sorted(
            _Entry(decode_text(entry.name), _kind(entry, follow=follow))
            for entry in found
            if not entry.name.startswith(b".")
        )


def _kind(entry: os.DirEntry[bytes], *, follow: bool) -> str:
    try:
        if entry.is_dir(follow_symlinks=follow):
            return "directory"
        return "file" if entry.is_file(follow_symlinks=follow) else "other"
    except OSError:
        return "other"


def _start(path: str) -> bytes:
    """Return the start of a file; raises OSError."""
    # The file may have been replaced by a FIFO since it was listed; open(2) would block.
    descriptor = os.open(encode(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read(_START_BYTES)


LARGEST_BYTES = 16 << 20
MOST_HOSTS = 100_000
_SECTION = re.compile(r"\[([^]\s]*)\]")
_NOT_HOSTS = (":vars", ":children")
MOST_RANGES = 8
_COUNT_LINE = re.compile(r"hosts \(\d+\):")
"""The first line printed by `ansible all --list-hosts`."""
_RANGE = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")
_PORT = re.compile(r"(?<=[^:]):[0-9]{1,5}\Z")
_NO_LIST = re.compile(r"---|[{\[].*|.*[^:]:", re.DOTALL)
"""Words (a key, a bracket) of YAML or JSON inventories and of `ansible-inventory --graph`."""


def expected_names(path: str) -> tuple[str, ...]:
    """Return the host names in a file, in file order without duplicates; raises ArchiveError.

    A name is the first word of a line. Comments begin with "#" or ";". In an Ansible INI inventory,
    `:vars` and `:children` sections are skipped, db[01:20] expands to twenty hosts, and the port is
    removed from db1:2222.
    """
    try:
        raw = answered_for(path, partial(_content, path))
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror or error}") from None
    if len(raw) > LARGEST_BYTES:
        raise ArchiveError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB")
    names: dict[str, None] = {}
    for word in _words(raw.decode("utf-8-sig", "surrogateescape")):
        for name in _expanded(word, path):
            names[name] = None
            if len(names) > MOST_HOSTS:
                raise ArchiveError(f"{path}: more than {MOST_HOSTS} hosts")
    if not names:
        raise ArchiveError(f"{path}: lists no host")
    return tuple(names)


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(LARGEST_BYTES + 1)


def _words(text: str) -> Iterator[str]:
    """Yield the first word of each line that names hosts."""
    skipped = False
    for line in map(str.strip, text.split("\n")):
        section = _SECTION.fullmatch(line.partition("#")[0].strip())
        if section:
            skipped = section[1].endswith(_NOT_HOSTS)
        elif line and not skipped and line[0] not in "#;" and not _COUNT_LINE.fullmatch(line):
            yield line.split()[0]


def _expanded(word: str, path: str) -> Iterator[str]:
    """Yield the hosts that a word such as db[01:20].example.com expands to; raises ArchiveError."""
    if _NO_LIST.fullmatch(word):
        raise ArchiveError(
            f"{path}: {word!r:.80}: not a list of hosts; of an inventory in YAML or JSON, give "
            "what `ansible all -i INVENTORY --list-hosts` prints"
        )
    if word.count("[") > MOST_RANGES:
        raise ArchiveError(f"{path}: {word:.80}: more than {MOST_RANGES} ranges in a name")
    found = _RANGE.search(word)
    if found is None:
        if "[" in word:
            raise ArchiveError(f"{path}: {word}: only ranges of numbers are read")
        yield _PORT.sub("", word) if word.count(":") == 1 else word
        return
    first, last = found.groups()
    for number in range(int(first), int(last) + 1):
        name = f"{word[: found.start()]}{number:0{len(first)}}{word[found.end() :]}"
        yield from _expanded(name, path)

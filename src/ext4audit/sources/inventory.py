"""The list of the hosts that a fleet should have (`--expect`): names, or an Ansible inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ext4audit.sources.containers import ArchiveError
from ext4audit.sources.waiting import about

LARGEST_BYTES = 16 << 20
MOST_HOSTS = 100_000
_SECTION = re.compile(r"\[([^]\s]*)\]")
_NOT_HOSTS = (":vars", ":children")
MOST_RANGES = 8
_COUNT_LINE = re.compile(r"hosts \(\d+\):")
"""The first line of `ansible all --list-hosts`."""
_RANGE = re.compile(r"\[([0-9]{1,9}):([0-9]{1,9})\]")


def expected_names(path: str) -> tuple[str, ...]:
    """Return the names in a file, each once, in its order; raises ArchiveError.

    A name is the first word of a line. Comments begin with "#" or ";". Of an Ansible inventory
    (INI) the sections of variables and of groups are left out, and db[01:20] is twenty hosts.
    """
    try:
        raw = about(path, partial(_content, path))
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
    """Yield the first word of each line that stands for hosts."""
    skipped = False
    for line in map(str.strip, text.split("\n")):
        section = _SECTION.fullmatch(line.partition("#")[0].strip())
        if section:
            skipped = section[1].endswith(_NOT_HOSTS)
        elif line and not skipped and line[0] not in "#;" and not _COUNT_LINE.fullmatch(line):
            yield line.split()[0]


def _expanded(word: str, path: str) -> Iterator[str]:
    """Yield the hosts of a word such as db[01:20].example.com; raises ArchiveError."""
    if word.count("[") > MOST_RANGES:
        raise ArchiveError(f"{path}: {word:.80}: more than {MOST_RANGES} ranges in a name")
    found = _RANGE.search(word)
    if found is None:
        if "[" in word:
            raise ArchiveError(f"{path}: {word}: only ranges of numbers are read")
        yield word
        return
    first, last = found.groups()
    for number in range(int(first), int(last) + 1):
        name = f"{word[: found.start()]}{number:0{len(first)}}{word[found.end() :]}"
        yield from _expanded(name, path)

"""Space and inodes in use, from `df` in an archive: sos runs `df -al` and `df -ali`.

The superblock's own counts of free blocks and inodes are no substitute: the kernel writes them
at times only, so that a filesystem could look emptier than it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ext4audit.evidence import Known
from ext4audit.sources.archive.capture import Capture

_HEADER = re.compile(r"Filesystem\s+(?P<unit>1K-blocks|1024-blocks|Inodes)\s.*")
_ROW = re.compile(
    r"(?<=\s)(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(?:-|\d{1,3}%)\s(?P<mount_point>/.*)"
)
_INODES = "Inodes"
KIB = 1024


class Counts(NamedTuple):
    """One filesystem's line of df: in KiB, or in inodes."""

    source: str
    mount_point: str
    total: int
    used: int
    free: int


class DiskFree:
    """The lines of all outputs of df by mount point, of blocks and of inodes."""

    def __init__(self, capture: Capture) -> None:
        self._rows: dict[tuple[str, str], list[Counts]] = {}
        self._origins: dict[str, str] = {}
        for output in capture.outputs("df"):
            for unit, counts in _rows(output.text):
                # The first output of each kind; another one may be from a second run.
                if self._origins.setdefault(unit, output.origin) == output.origin:
                    self._rows.setdefault((unit, counts.mount_point), []).append(counts)

    def statfs(
        self, mount_point: str, number: str, number_of: Callable[[str], str | None]
    ) -> Known[str] | None:
        """Return the numbers of statvfs(3) at a mount point, None where df has not both lines.

        `number` is the filesystem's device there, `number_of` returns that of a source. Lines of
        other devices are what lies below: df lists overmounted filesystems, too.
        """
        found = []
        for unit in ("", _INODES):
            rows = self._rows.get((unit, mount_point), ())
            own = [row for row in rows if number_of(row.source) in {None, number}]
            if not own:
                return None
            found.append(own[-1])
        blocks, inodes = found
        free = max(blocks.total - blocks.used, blocks.free)
        values = (KIB, blocks.total, free, blocks.free, inodes.total, inodes.free)
        origin = f"{self._origins['']}, {self._origins[_INODES]}"
        return Known(" ".join((number, *map(str, values))), origin)


def _rows(text: str) -> Iterator[tuple[str, Counts]]:
    """Yield the unit and the counts of each line; "-" stands for what df could not see."""
    unit: str | None = None
    for line in _joined(text):
        header = _HEADER.fullmatch(line)
        if header:
            unit = _INODES if header["unit"] == _INODES else ""
        row = _ROW.search(line) if unit is not None else None
        if row and unit is not None:
            total, used, free = (int(row[index]) for index in (1, 2, 3))
            source = line[: row.start()].strip()
            yield unit, Counts(source, row["mount_point"], total, used, free)


def _joined(text: str) -> Iterator[str]:
    """Yield the lines; before coreutils 8.9 a long source stands on a line of its own."""
    before = ""
    for line in text.split("\n"):
        if before and line[:1].isspace():
            yield before + line
        else:
            yield line
        before = "" if " " in line else line

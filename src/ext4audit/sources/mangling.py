"""The file names by which sos and Insights keep what a command printed.

Both make the name of the command line in the same way (sos 3.0 to 4.10; insights-core 3), and the
way is lossy: `/dev/vg/lv` and `/dev/vg.lv` become one name. sos tells a second file of one name
apart by a number at its end; a command that ran twice gets one too.
"""

from __future__ import annotations

import re

LONGEST_NAME = 255
"""NAME_MAX of Linux filesystems: sos cuts the name there."""

_PROGRAM_FOLDER = re.compile(r"/(?:usr/)?s?bin/")
_REPLACED = re.compile(r"[^\w./-]+")
_ENDS = " ._-"


def mangle(line: str) -> str:
    """Return the file name of a command line: "dumpe2fs_-h_.dev.vda1"."""
    folder = _PROGRAM_FOLDER.match(line)
    bare = line[folder.end() :] if folder else line
    return _REPLACED.sub("_", bare).replace("/", ".").strip(_ENDS)[:LONGEST_NAME]


def numbered(name: str, count: int) -> str:
    """Return the name that sos gives to the file number `count` of one name; 0 is the first."""
    if count == 0:
        return name
    number = f".{count}"
    return name[: LONGEST_NAME - len(number)] + number

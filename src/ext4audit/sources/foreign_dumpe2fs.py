"""What dumpe2fs printed of a device, found by any of the names that the device had.

sos and Insights run `dumpe2fs -h` on the sources of the mount table, which are often other names
than a person uses (/dev/root, /dev/disk/by-uuid/…). The file name that a command got is lossy,
and the text does not name its device: its UUID must agree with blkid's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.sources.foreign_capture import Capture, Output, judge

HEADER = re.compile(r"^Filesystem UUID: {10}(\S+)$", re.MULTILINE)
Blkid: TypeAlias = Mapping[str, Mapping[str, str]]
"""The keys and values of blkid(8) by path."""

GROUPS = re.compile(r"^Group \d+: \(Blocks \d+-\d+\)", re.MULTILINE)


def find_header(
    capture: Capture, paths: Sequence[str], blkid: Blkid, what: str
) -> Evidence[str] | None:
    """Return the superblock's text of the device that has these paths, None without any.

    A full dump (`-k filesys.dumpe2fs=on`) begins with the header, and serves as well.
    """
    outputs = [
        output
        for path in paths
        for line in (f"dumpe2fs -h {path}", f"dumpe2fs {path}")
        for output in capture.run(line)
    ]
    return _the_one(outputs, HEADER, _uuid_of(paths, blkid), what)


def find_groups(
    capture: Capture, paths: Sequence[str], blkid: Blkid, what: str
) -> Evidence[str] | None:
    """Return the full dump of the device that has these paths, None without any."""
    outputs = [output for path in paths for output in capture.run(f"dumpe2fs {path}")]
    return _the_one(outputs, GROUPS, _uuid_of(paths, blkid), what)


def _the_one(
    outputs: Sequence[Output], proof: re.Pattern[str], known_uuid: str, what: str
) -> Evidence[str] | None:
    """Return the only good output, or the one whose UUID is the device's."""
    judged = [judge(output, proof, what) for output in outputs]
    good = [each for each in judged if isinstance(each, Known)]
    if not good:
        return judged[0] if judged else None
    own = [each for each in good if not known_uuid or _uuid(each.value) == known_uuid]
    if len({_uuid(each.value) for each in own}) == 1:
        return own[0]
    detail = f"{good[0].origin}: {'not this device by its UUID' if not own else 'ambiguous name'}"
    return Unknown(what, Why.FAILED, f"{detail}; two devices may have one file name", _HINT)


_HINT = "capture again with: ext4audit collect"


def _uuid_of(paths: Sequence[str], blkid: Blkid) -> str:
    """Return the UUID that blkid saw on a device, "" where it saw none."""
    return next((blkid[path].get("UUID", "").lower() for path in paths if path in blkid), "")


def _uuid(text: str) -> str:
    found = HEADER.search(text)
    return found[1].lower() if found else ""

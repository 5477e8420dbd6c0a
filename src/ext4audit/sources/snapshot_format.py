"""The snapshot format, version 1: its words, its limits, its error.

A snapshot is a directory (or its files in another container) that people can read and compare.
`manifest.json` says when it was taken and holds one entry an answer, sorted by ask. An entry names
the ask and its argument, then holds the `unknown` that was the answer, or `origin` and one of

- `text`: a short printable text;
- `text_file`: a file under `answers/` that holds any other text, byte by byte as it was read;
- `names`: the names in a directory;
- `hex`: bytes, 16 a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ext4audit.sources import ask as asks
from ext4audit.sources.ask import Ask

FORMAT = "ext4audit-snapshot"
VERSION = 1
MANIFEST = "manifest.json"
ANSWERS = "answers"

# Room for 10,000 devices with ten answers each; beyond that a snapshot is an attack on memory.
MOST_ANSWERS = 100_000
LARGEST_MANIFEST_BYTES = 32 << 20
# No less than commands.LARGEST_OUTPUT_BYTES: what can be captured can be read back.
LARGEST_ANSWER_BYTES = 64 << 20
LARGEST_TOTAL_BYTES = 512 << 20

# No folder below `answers`, no leading dot: such a name cannot leave the directory.
ANSWER_FILE = re.compile(ANSWERS + r"/[A-Za-z0-9_=+:,@-][A-Za-z0-9_=+:,@.~-]{0,199}")

# The words of the format, apart from the names of the classes: kind -> class and argument.
KINDS: dict[str, tuple[Callable[..., Ask], str | None]] = {
    "read_file": (asks.ReadFile, "path"),
    "list_dir": (asks.ListDir, "path"),
    "run_command": (asks.RunCommand, "argv"),
    "uname": (asks.Uname, None),
    "virtual_memory": (asks.VirtualMemory, None),
    "effective_user": (asks.EffectiveUser, None),
    "udev_database": (asks.UdevDatabase, "device_number"),
    "resolve_path": (asks.ResolvePath, "path"),
    "real_path": (asks.RealPath, "path"),
    "tune_superblock": (asks.TuneSuperblock, "mount_point"),
    "filesystem_uuid": (asks.FilesystemUuid, "mount_point"),
}


class SnapshotError(ValueError):
    """A snapshot that is malformed, of another version, or beyond the limits; says where."""

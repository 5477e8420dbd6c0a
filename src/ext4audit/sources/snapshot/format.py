"""The snapshot format, version 1: its vocabulary, its limits, its error, and strict JSON access.

A snapshot is a directory, or its files in a tar, that people can read and compare; or its
manifest alone, with every answer inline. `manifest.json` holds when it was taken (`taken_at`),
perhaps of which `host` and by which `tool`, and one entry an answer. An entry names the ask
and its argument, perhaps the time of this answer (`taken_at`), then holds the `unknown` that was
the answer, or `origin` and one of

- `text`: a short printable text;
- `text_file`: a file under `answers/` that holds any other text, byte by byte as it was read;
- `names`: the names in a directory;
- `hex`: bytes, in lines of pairs of digits; or `base64`; or `bytes_file`, a file of the bytes.

A `run_command` may instead hold how the program ended: `status` (null where it was not waited for),
`timed_out`, `stdout` and `stderr`. The reader interprets it as the live source does its own runs.

Programs write ASCII JSON. The shell collector writes what it read: bytes in a string that are
not UTF-8 come back as themselves (surrogateescape).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ext4audit.sources import ask as asks
from ext4audit.sources.ask import Ask
from ext4audit.sources.text import decode

FORMAT = "ext4audit-snapshot"
VERSION = 1
MANIFEST = "manifest.json"
ANSWERS = "answers"

# Room for 10,000 devices with ten answers each; beyond that a snapshot is an attack on memory.
MOST_ANSWERS = 100_000
# The group descriptors of 64 TiB are 32 MiB, and twice that in hexadecimal.
LARGEST_MANIFEST_BYTES = 128 << 20
# No less than commands.LARGEST_OUTPUT_BYTES: what can be captured can be read back.
LARGEST_ANSWER_BYTES = 64 << 20
LARGEST_TOTAL_BYTES = 256 << 20

# No folder below `answers`, no leading dot: such a name cannot leave the directory.
ANSWER_FILE = re.compile(ANSWERS + r"/[A-Za-z0-9_=+:,@-][A-Za-z0-9_=+:,@.~-]{0,199}")

# The names in the format, independent of the names of the classes: kind -> class and arguments.
KINDS: dict[str, tuple[Callable[..., Ask], tuple[str, ...]]] = {
    "read_file": (asks.ReadFile, ("path",)),
    "list_dir": (asks.ListDir, ("path",)),
    "run_command": (asks.RunCommand, ("argv",)),
    "uname": (asks.Uname, ()),
    "virtual_memory": (asks.VirtualMemory, ()),
    "effective_user": (asks.EffectiveUser, ()),
    "udev_database": (asks.UdevDatabase, ("device_number",)),
    "resolve_path": (asks.ResolvePath, ("path",)),
    "real_path": (asks.RealPath, ("path",)),
    "stat_filesystem": (asks.StatFilesystem, ("path",)),
    "captured_dumpe2fs": (asks.CapturedDumpe2fs, ("path",)),
    "tune_superblock": (asks.TuneSuperblock, ("mount_point",)),
    "filesystem_uuid": (asks.FilesystemUuid, ("mount_point",)),
    "read_bytes": (asks.ReadBytes, ("path", "offset_bytes", "length_bytes", "reading")),
}


class SnapshotError(ValueError):
    """A snapshot that is malformed, of another version, or beyond the limits."""


Object: TypeAlias = Mapping[str, Any]

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def parse_manifest(manifest: bytes) -> object:
    """Parse JSON and check the version, before anything else of the shape is relied on.

    A string may hold bytes that are not UTF-8: the shell has no means to spell them otherwise.
    """
    try:
        top = json.loads(decode(manifest), object_pairs_hook=_unique)
    except SnapshotError:
        raise
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"not JSON: {error}") from None
    if not isinstance(top, dict) or top.get("format") != FORMAT:
        raise SnapshotError(f"not a manifest of the format {FORMAT}")
    version = top.get("version")
    if type(version) is not int or version != VERSION:
        raise SnapshotError(f"version {version!r:.40} of the format; this program reads {VERSION}")
    return top


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a duplicate key: one of the two would be lost silently."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise SnapshotError("a key stands twice in one object")
    return made


def checked(
    value: object, keys: set[str], what: str, optional: frozenset[str] = frozenset()
) -> Object:
    """Return an object that has these keys, perhaps the optional ones, and no other.

    A misspelt key is not ignored.
    """
    if isinstance(value, dict) and keys <= value.keys() <= keys | optional:
        return value
    perhaps = f" (perhaps {', '.join(sorted(optional))})" if optional else ""
    raise SnapshotError(f"{what}: not an object of {', '.join(sorted(keys))}{perhaps}")


def string(entry: Object, key: str) -> str:
    """Return a string; raises SnapshotError."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise SnapshotError(f"{key}: not a string")
    return value


def strings(entry: Object, key: str) -> tuple[str, ...]:
    """Return a list of strings; raises SnapshotError."""
    values = entry.get(key)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise SnapshotError(f"{key}: not a list of strings")
    return tuple(values)


def count(entry: Object, key: str) -> int:
    """Return a number of something; raises SnapshotError."""
    value = entry.get(key)
    if type(value) is not int or value < 0:
        raise SnapshotError(f"{key}: not a count")
    return value


def time(entry: Object, key: str) -> str:
    """Return a time in RFC 3339, UTC, to the second; raises SnapshotError."""
    value = string(entry, key)
    if _TIME.fullmatch(value) is None:
        raise SnapshotError(f"{key}: not a time as 2026-01-02T03:04:05Z: {value!r:.40}")
    return value

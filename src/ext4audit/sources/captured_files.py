"""Open captured evidence that is not a snapshot directory: files, and archives of other programs.

A file is a snapshot (tar, text, JSON, or the result of an Ansible task, which `ansible -t DIR`
writes for each host) or an archive. For any other text, the error message names the probable
cause, which is often a mistake in a pipe.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Mapping

from ext4audit.sources import ARCHIVE_MARKS, Answer, ArchiveError, Ask
from ext4audit.sources import decode as decode_text
from ext4audit.sources.archive import first_few, is_folder, is_wanted, recognise
from ext4audit.sources.captured import Captured, MapSource, is_wrapped, unwrap
from ext4audit.sources.containers import ARCHIVE_LIMITS, SNAPSHOT_LIMITS, Archive, MemoryArchive
from ext4audit.sources.containers.archives import DirectoryArchive, archive_in
from ext4audit.sources.containers.tar import (
    BLOCK_BYTES,
    TAR_MAGIC_AT,
    Stream,
    is_compressed,
    is_tar,
)
from ext4audit.sources.snapshot import (
    ANSWERS,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
    decode,
)
from ext4audit.sources.timeouts import BoundedCalls, Readable


def open_file(file: Readable, label: str) -> Captured:
    """Open evidence that is a single file; raises ArchiveError or SnapshotError."""
    stream = Stream(file, ARCHIVE_LIMITS)
    start = stream.peek(BLOCK_BYTES)
    if is_tar(start):
        return _open_tar(stream, label)
    if start.startswith(_ENCRYPTED):
        raise ArchiveError("encrypted, as by sos --encrypt: decrypt it first (gpg -d)")
    text = unwrap_task(without_byte_order_mark(stream.rest(LARGEST_MANIFEST_BYTES)))
    if is_wrapped(text):
        stream = Stream(io.BytesIO(unwrap(text)), ARCHIVE_LIMITS)
        if is_tar(stream.peek(BLOCK_BYTES)):
            return _open_tar(stream, label)
        text = stream.rest(LARGEST_MANIFEST_BYTES)
    if not text.lstrip().startswith(b"{"):
        raise ArchiveError(why_no_snapshot(text))
    answers, taken_at = decode(text, _no_file)
    return Captured("snapshot", label, taken_at, MapSource(answers))


def without_byte_order_mark(text: bytes) -> bytes:
    """Return a text as UTF-8 without byte order mark; `>` in PowerShell 5 writes UTF-16."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return text.decode("utf-16", "replace").encode("utf-8", "replace")
    return text.removeprefix(codecs.BOM_UTF8)


def open_directory(path: str, calls: BoundedCalls) -> Captured:
    """Open a directory that is not a snapshot; raises ArchiveError."""
    return open_archive(DirectoryArchive(path, ARCHIVE_LIMITS, calls), path)


def _no_file(name: str) -> bytes:
    raise SnapshotError(f"{name}: not here, in a snapshot that is one file")


def _open_tar(stream: Stream, label: str) -> Captured:
    archive = archive_in(stream, label, limits=ARCHIVE_LIMITS, wanted=_is_wanted)
    if not holds_snapshot(archive):
        return open_archive(archive, label)
    answers, taken_at = read_snapshot_tar(archive)
    return Captured("snapshot", label, taken_at, MapSource(answers))


def _is_wanted(name: str) -> bool:
    return may_be_part_of_snapshot(name) or is_wanted(name)


def open_archive(archive: MemoryArchive | DirectoryArchive, label: str) -> Captured:
    """Open an archive of another program; raises ArchiveError if its kind is unknown."""
    found = recognise(archive)
    if found is None:
        raise ArchiveError(f"neither a snapshot nor a known kind of archive{_inside(archive)}")
    return found._replace(label=label)


_MARKS = "|".join(map(re.escape, sorted({MANIFEST, *ARCHIVE_MARKS})))
_CAPTURED = re.compile(rf"(.+?)/(?:{_MARKS})(?:/.*)?|(.*\.t(?:ar(?:\.\w+)?|[gbx]z))", re.DOTALL)


def _inside(archive: MemoryArchive | DirectoryArchive) -> str:
    """Return a hint that names evidence deeper in a tar, as in one with many hosts, or ""."""
    if isinstance(archive, DirectoryArchive):
        return ""
    found = filter(None, map(_CAPTURED.fullmatch, archive.names()))
    places = dict.fromkeys(each[1] or each[2] for each in found)
    held = first_few(each for each in places if each.rpartition("/")[0] not in places)
    return f"; it holds {held}: unpack it, and audit the directory" if held else ""


_RESULT_MARKS = (b'"stdout"', b'"unreachable"', b'"failed"', b'"msg"')
_SHOWN = 200


def unwrap_task(text: bytes) -> bytes:
    """Return the stdout in the result of an Ansible task, or the text itself if it is not a result.

    `stdout_lines` repeats `stdout` and is not read. Raises SnapshotError with Ansible's reason if
    the task printed nothing.
    """
    if not text.lstrip().startswith(b"{") or not any(mark in text for mark in _RESULT_MARKS):
        return text
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(result, dict) or "answers" in result:
        return text
    printed = result.get("stdout")
    if isinstance(printed, str) and printed:
        return printed.encode("utf-8", "surrogatepass")
    reason = _reason(result)
    if reason is None:
        return text
    raise SnapshotError(f"Ansible has no snapshot: {reason}")


def _reason(result: Mapping[str, object]) -> str | None:
    """Return why a task printed nothing, or None if the object is not the result of a task."""
    if not result.keys() & {"stdout", "unreachable", "failed", "rc", "changed"}:
        return None
    texts = (result.get(key) for key in ("msg", "stderr"))
    message = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    what = "the host is unreachable" if result.get("unreachable") else "the task printed nothing"
    return f"{what}: {' '.join(message.split())[:_SHOWN]}" if message else what


_ENCRYPTED = (b"-----BEGIN PGP MESSAGE", b"\x84", b"\x85", b"\x8c", b"\xc1", b"\xc3")
"""How OpenPGP messages begin: with an encrypted session key (RFC 4880, 4.2, 5.1 and 5.3)."""
_LONGEST = 80
_TAR_MAGIC = re.compile(rb"ustar(?:\x0000|  \x00)")
_GZIP_MAGIC = b"\x1f\x8b\x08"
_REFUSED = re.compile(
    rb"password is required|\[sudo\]|a terminal is required|askpass|Permission denied|"
    rb"not in the sudoers file|command not found|: not found|"
    rb"Connection (?:refused|closed|timed out)"
)
EMPTY = (
    "empty: the command that captures printed nothing; did ssh fail, or sudo ask for a password "
    "(sudo -n)?"
)
NOISE = "other output precedes the snapshot, such as a login message: capture with --text"


def why_no_snapshot(text: bytes) -> str:
    """Return an error message for a text without a snapshot, with the probable cause."""
    if not text.strip():
        return EMPTY
    if is_compressed(text):
        return "compressed twice, or by a program that is not read: unpack it first"
    if text[:TAR_MAGIC_AT].count(0) and _TAR_MAGIC.match(text, TAR_MAGIC_AT):
        return "a tar whose first header is cut off or damaged"
    begin = _first_line(text)
    if _TAR_MAGIC.search(text) or _GZIP_MAGIC in text:
        return f"{NOISE}{begin}"
    if _REFUSED.search(text):
        return f"neither a snapshot nor an archive, but the message of a command that failed{begin}"
    return f"neither a snapshot nor an archive{begin}"


def _first_line(text: bytes) -> str:
    """Return a phrase that quotes the first line of a text, or "" if it is not printable."""
    line = decode_text(text.strip().partition(b"\n")[0]).strip()
    if not line or not line.isprintable():
        return ""
    return f"; it begins with {line[:_LONGEST]!r}"


def may_be_part_of_snapshot(name: str) -> bool:
    """Return whether a member of a tar may be part of a snapshot, in any directory."""
    parts = name.split("/")
    return parts[-1] == MANIFEST or ANSWERS in parts[:-1]


def holds_snapshot(archive: Archive) -> bool:
    """Return whether there is a manifest at the top level or in a top-level directory."""
    return bool(_manifests(archive))


def read_snapshot_tar(archive: MemoryArchive) -> tuple[dict[Ask, Answer], str]:
    """Return the answers of a snapshot in a tar, and the time the snapshot was taken.

    Raises SnapshotError if the snapshot is invalid, or if the tar holds a second snapshot or other
    files. Raises ArchiveError for a dangling link.
    """
    names = archive.names()
    if len(names) > SNAPSHOT_LIMITS.most_entries:
        raise SnapshotError(f"holds more than {SNAPSHOT_LIMITS.most_entries} files")
    manifests = _manifests(archive)
    if len(manifests) != 1:
        raise SnapshotError(f"holds {len(manifests)} snapshots: {', '.join(manifests[:3])!r:.200}")
    top = manifests[0].removesuffix(MANIFEST)
    inside = f"{top}{ANSWERS}/"
    others = [each for each in names if each != manifests[0] and not each.startswith(inside)]
    others += archive.specials()
    if others:
        raise SnapshotError(f"also contains other files: {others[0]!r:.200}")
    manifest = archive.read(manifests[0])
    if len(manifest) > LARGEST_MANIFEST_BYTES:
        raise SnapshotError(f"{MANIFEST}: larger than {LARGEST_MANIFEST_BYTES} bytes")
    return decode(manifest, lambda name: archive.read(top + name))


def _manifests(archive: Archive) -> list[str]:
    """Return the paths of the snapshot manifests at the top level and one level below.

    If the top level is the archive of another program, a manifest one level below belongs to that
    program, like `sos_reports/manifest.json` since sos 4.0, and is left out.
    """
    names = archive.children("")
    tops = ["", *(f"{name}/" for name in names if not ARCHIVE_MARKS.intersection(names))]
    return [
        top + MANIFEST
        for top in tops
        if not top or is_folder(archive, top)
        if MANIFEST in archive.children(top)
    ]

"""A snapshot in a tar."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import IO

from ext4audit.sources.archive_base import SNAPSHOT_LIMITS, Archive
from ext4audit.sources.archive_tree import MemoryArchive
from ext4audit.sources.ask import Answer, Ask
from ext4audit.sources.snapshot_decode import decode
from ext4audit.sources.snapshot_encode import encode
from ext4audit.sources.snapshot_format import (
    ANSWERS,
    LARGEST_MANIFEST_BYTES,
    MANIFEST,
    SnapshotError,
)

TOP = "ext4audit-snapshot"


def write_snapshot_tar(
    file: IO[bytes],
    answers: Mapping[Ask, Answer],
    *,
    taken_at: str,
    times: Mapping[Ask, str] = MappingProxyType({}),
    about: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a snapshot as tar.gz; the same answers make the same bytes.

    `times` and `about` are as `encode` takes them. All is below one directory, so that
    unpacking litters nobody's. Raises SnapshotError for more than can be read back, and OSError.
    """
    import gzip  # noqa: PLC0415 - only a capture pays for these
    import tarfile  # noqa: PLC0415

    files = encode(answers, taken_at, times=times, about=about)
    if len(files) > SNAPSHOT_LIMITS.most_entries - 2:
        raise SnapshotError(f"{len(files)} long answers are more than a tar snapshot can hold")
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(f"{TOP}/{name}")
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))


def is_part(name: str) -> bool:
    """Whether a member may be a part of a snapshot, whatever directory that lies in."""
    parts = name.split("/")
    return parts[-1] == MANIFEST or ANSWERS in parts[:-1]


def holds_snapshot(archive: Archive) -> bool:
    """Whether there is a manifest at the top, or in a directory at the top."""
    return bool(_manifests(archive))


def read_snapshot_tar(archive: MemoryArchive) -> tuple[dict[Ask, Answer], str]:
    """Return the answers of a snapshot in a tar, and the time they were taken.

    Raises SnapshotError, also for two snapshots in one tar and for anything that is no part of
    the snapshot: whose answers would it be? Raises ArchiveError for a link that leads nowhere.
    """
    names = archive.names()
    if len(names) > SNAPSHOT_LIMITS.most_entries:
        raise SnapshotError(f"holds more than {SNAPSHOT_LIMITS.most_entries} files")
    manifests = _manifests(archive)
    if len(manifests) != 1:
        raise SnapshotError(f"holds {len(manifests)} snapshots: {', '.join(manifests[:3])!r:.200}")
    top = manifests[0].removesuffix(MANIFEST)
    foreign = [name for name in names if not _belongs(name, top)] + list(archive.specials())
    if foreign:
        raise SnapshotError(f"also holds what is no part of the snapshot: {foreign[0]!r:.200}")
    manifest = archive.read(manifests[0])
    if len(manifest) > LARGEST_MANIFEST_BYTES:
        raise SnapshotError(f"{MANIFEST}: larger than {LARGEST_MANIFEST_BYTES} bytes")
    return decode(manifest, lambda name: archive.read(top + name))


def _belongs(name: str, top: str) -> bool:
    return name == top + MANIFEST or name.startswith(f"{top}{ANSWERS}/")


def _manifests(archive: Archive) -> list[str]:
    tops = ["", *(f"{name}/" for name in archive.children(""))]
    return [
        top + MANIFEST
        for top in tops
        if not top or archive.is_directory(top)
        if MANIFEST in archive.children(top)
    ]

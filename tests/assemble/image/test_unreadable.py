"""The report on an image whose superblock cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext4audit.assemble.devices.target import BadImage, PlainFile
from ext4audit.assemble.image import find_image
from ext4audit.assemble.image.unreadable import NO_BACKUP, explain
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import run
from support.images.mke2fs import needs_e2fsprogs, sparse_image
from support.images.partitioned import grow, write_at

MIB = 1 << 20


def reason(path: Path) -> str:
    """Return why a file is rejected."""
    found = find_image(LiveSource(), str(path))
    assert isinstance(found, BadImage), found
    return found.reason


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("options", "backups"),
    [
        (("-b", "1024"), "backups can be read, blocks 8193, 24577, 40961 of 1024 bytes"),
        (("-b", "2048"), "backups can be read, blocks 16384, 49152, 81920 of 2048 bytes"),
        (("-b", "4096"), "backups can be read, blocks 32768, 98304 of 4096 bytes"),
        (("-b", "4096", "-O", "^metadata_csum"), "backups can be read, blocks 32768, 98304 of"),
        (("-b", "4096", "-g", "8192"), "backups can be read, blocks 8192, 24576, 40960 of 4096"),
        (("-b", "1024", "-g", "8184"), "backups can be read, blocks 8185, 24553, 40921 of 1024"),
        (("-b", "4096", "-g", "32720"), "backups can be read, blocks 32720, 98160 of 4096 bytes"),
        (("-b", "1024", "-O", "bigalloc"), "backups can be read, blocks 131072, 393216 of 1024"),
        (("-b", "1024", "-O", "bigalloc", "-C", "4k"), "backups can be read, blocks 32768, 98304,"),
        (("-b", "4096", "-O", "sparse_super2"), "backups can be read, blocks 32768, 98304 of"),
        (("-b", "65536", "-O", "^has_journal"), "a backup can be read, block 65528 of 65536 bytes"),
    ],
)
def test_backups_are_found_where_mke2fs_puts_them(options: tuple[str, ...], backups: str) -> None:
    """At most three backups are named; each was parsed and records its own group."""
    with sparse_image((8192 if "65536" in options else 512) * MIB) as image:
        run("mke2fs", "-q", "-F", "-t", "ext4", *options, image)
        write_at(image, {1024: bytes(1024)})
        assert reason(image).startswith(f"its superblock is zeroed; {backups}")
        write_at(image, {1024: b"\xa5" * 1024})
        assert reason(image).startswith(f"its superblock is destroyed; {backups}")


@needs_e2fsprogs
def test_a_damaged_backup_is_not_named(tmp_path: Path) -> None:
    """A backup must have a correct checksum and be in its own place."""
    image = tmp_path / "fs"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", image, "64M")
    write_at(image, {1024: bytes(1024), 8193 * 1024 + 0x78: b"W"})
    assert "a backup" not in reason(image)
    assert "blocks 24577, 40961, 57345 of 1024 bytes" in reason(image)
    data = image.read_bytes()
    write_at(image, {8193 * 1024: data[24577 * 1024 : 24578 * 1024]})
    assert "8193" not in reason(image)


@needs_e2fsprogs
def test_where_no_backup_is_found_the_places_are_named(tmp_path: Path) -> None:
    """Any multiple of 8 may be the size of a group."""
    image = tmp_path / "fs"
    run("mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-g", "5000", image, "64M")
    write_at(image, {1024: bytes(1024)})
    assert reason(image).endswith("only zeros at byte 1024, and " + NO_BACKUP)


@pytest.mark.parametrize("start", [b"LUKS\xba\xbe", b"XFSB"])
def test_a_known_kind_is_named_whatever_the_file_is_called(tmp_path: Path, start: bytes) -> None:
    """A file smaller than any filesystem is recognized as well."""
    path = tmp_path / "file"
    path.write_bytes(start.ljust(2048, b"\0"))
    assert start[:3].decode().lower() in reason(path).lower()


def test_a_file_that_could_hold_a_filesystem_is_no_plain_file(tmp_path: Path) -> None:
    """mke2fs can make one of 64 KiB; a file named like an image counts at any size."""
    path, named = tmp_path / "file", tmp_path / "file.img"
    grow_to = {65535: PlainFile, 65536: BadImage}
    for size_bytes, kind in grow_to.items():
        path.touch()
        grow(path, size_bytes)
        assert isinstance(explain(LiveSource(), str(path)), kind)
    named.touch()
    assert reason(named) == "the file is empty"
    named.write_bytes(b"text\n")
    assert "no superblock at byte 1024" in reason(named)
    for size_bytes in (2048, 65536):
        grow(named, size_bytes)
        assert "only zeros at byte 1024" in reason(named)

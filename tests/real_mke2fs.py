"""Make real ext4 filesystems on sparse files and read where their metadata lies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ext4audit.facts.groups import GroupTable
from ext4audit.facts.layout import MetadataLayout, StripeGeometry
from ext4audit.facts.superblock import Superblock
from ext4audit.layout.load import measure
from ext4audit.layout.map_of import map_of
from ext4audit.parsers.dumpe2fs_groups import parse_group_table
from ext4audit.parsers.dumpe2fs_header import parse_superblock
from ext4audit.records import replace

TWELVE_DISKS_BLOCKS = 314376192
"""12 members of 100 GiB less 64 MiB for md's superblock, in blocks of 4 KiB."""
KIB = 1024
needs_e2fsprogs = pytest.mark.skipif(
    not (shutil.which("mkfs.ext4") and shutil.which("dumpe2fs")), reason="e2fsprogs is missing"
)


@contextmanager
def sparse_image(size_bytes: int) -> Iterator[Path]:
    """Yield an empty sparse file; on tmpfs, because ext4's files end at 16 TiB."""
    shared = Path("/dev/shm")  # noqa: S108 - a private directory is made below it
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as directory:
        image = Path(directory, "image")
        image.touch()
        with image.open("r+b") as file:
            file.truncate(size_bytes)
        yield image


def run(command: str) -> str:
    """Run a shell command that must succeed; return what it prints."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def read_superblock(image: Path) -> Superblock:
    """Read the superblock of an image."""
    return parse_superblock(run(f"LC_ALL=C dumpe2fs -h {image}"))


def read_table(image: Path) -> GroupTable:
    """Read where the metadata of each group of an image lies."""
    return parse_group_table(run(f"LC_ALL=C dumpe2fs -g {image}"))


def stripe(members: int, chunk_kib: int, level: str = "raid0", **changes: Any) -> StripeGeometry:
    """Describe an array of disks."""
    names = tuple(f"m{slot}" for slot in range(members))
    return replace(StripeGeometry("md127", level, chunk_kib * KIB, 0, names), **changes)


def measure_image(
    image: Path, members: int, chunk_kib: int, level: str = "raid0"
) -> MetadataLayout:
    """Count the metadata of an image per member of a stripe."""
    return measure(
        read_table(image), read_superblock(image), map_of(stripe(members, chunk_kib, level))
    )


def layout_of(
    options: str, members: int, chunk_kib: int, blocks: int, level: str = "raid0"
) -> MetadataLayout:
    """Make an ext4 of `blocks` blocks of 4 KiB with mkfs options; measure it on a stripe."""
    with sparse_image(blocks * 4 * KIB) as image:
        run(f"mkfs.ext4 -q -E lazy_itable_init=1,nodiscard {options} {image}")
        return measure_image(image, members, chunk_kib, level)

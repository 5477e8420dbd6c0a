"""Random mke2fs options, and the real mke2fs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from ext4audit.facts.layout import MetadataLayout, StripeGeometry
from ext4audit.facts.superblock import GroupTable, Superblock, sizes_of
from ext4audit.layout.bitmap_placement import measure
from ext4audit.layout.levels import map_of
from ext4audit.parsers.dumpe2fs import parse_group_table, parse_superblock
from support.timing import PATIENCE_SECONDS

MIB = 1 << 20
MOST_GROUPS = 8192
# Without sparse_super, every group has a copy of all descriptors: 4 GiB in total for 8192 groups.
MOST_GROUPS_WITH_COPIES = 512
LARGEST_BYTES = 4 << 40
# Without these, every inode table and the journal would be written into memory.
LAZY = ("lazy_itable_init=1", "lazy_journal_init=1", "nodiscard")
ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC0"}
FEATURES = (
    "^resize_inode",
    "meta_bg,^resize_inode",
    "sparse_super2,^resize_inode",
    "sparse_super2,meta_bg,^resize_inode",
    "^sparse_super,^resize_inode",
    "^64bit",
    "^flex_bg",
    "bigalloc",
    "bigalloc,meta_bg,^resize_inode",
    "^has_journal",
    "uninit_bg,^metadata_csum",
    "fast_commit,orphan_file",
    "quota,project,encrypt,verity,casefold,large_dir,ea_inode,inline_data,mmp,stable_inodes",
)


@dataclass(frozen=True, slots=True)
class MadeImage:
    """A filesystem that starts at `offset_bytes` of an image."""

    image: Path
    offset_bytes: int

    def dumpe2fs(self, *options: str) -> str:
        """Return the output of dumpe2fs, in UTC; libext2fs accepts an offset after the name."""
        done = subprocess.run(
            ["dumpe2fs", *options, f"{self.image}?offset={self.offset_bytes}"],
            capture_output=True,
            check=True,
            env=ENVIRONMENT,
        )
        return done.stdout.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class MkfsRequest:
    """Size, offset and options for mke2fs, which may refuse them."""

    size_bytes: int
    offset_bytes: int
    options: tuple[str, ...]

    @contextmanager
    def made(self) -> Iterator[MadeImage | None]:
        """Make the filesystem on a sparse file in memory; yield None if mke2fs refuses."""
        shared = Path("/dev/shm")  # noqa: S108 - a private directory is made below it
        with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as directory:
            image = Path(directory, "image")
            image.touch()
            os.truncate(image, self.offset_bytes + self.size_bytes)
            # -F twice: once for a regular file, once for blocks that are larger than a page.
            command = ["mke2fs", "-q", "-F", "-F", "-t", "ext4", *self.options, str(image)]
            kib = str(self.size_bytes >> 10) + "k"
            done = subprocess.run(
                [*command, kib],
                capture_output=True,
                check=False,
                env=ENVIRONMENT,
                timeout=PATIENCE_SECONDS,
            )
            yield MadeImage(image, self.offset_bytes) if done.returncode == 0 else None


@st.composite
def mkfs_requests(draw: st.DrawFn) -> MkfsRequest:
    """Draw the options that determine the location of metadata."""
    block_bytes = draw(st.sampled_from((1024, 2048, 4096, 4096, 4096, 65536)))
    features = draw(st.lists(st.sampled_from(FEATURES), max_size=3))
    most = 8 * min(block_bytes, 8191)
    per_group = draw(st.none() | st.integers(32, most // 8).map(lambda eighth: 8 * eighth))
    ratio = draw(st.sampled_from((1, 2, 4, 16))) if "bigalloc" in ",".join(features) else 1
    group_bytes = (per_group or most) * block_bytes * ratio
    copies = any("^sparse_super" in each for each in features)
    most_groups = MOST_GROUPS_WITH_COPIES if copies else MOST_GROUPS
    largest = min(LARGEST_BYTES, most_groups * group_bytes)
    size_bytes = int((2 * MIB) * (largest / (2 * MIB)) ** draw(st.floats(0, 1)))
    offset_bytes = draw(st.sampled_from((0, 0, 1024, 63 * 512 * 2, MIB, 5 * MIB + 3072)))
    flex_groups = st.none() | st.integers(0, 10).map(lambda power: 1 << power)
    options = ["-b", str(block_bytes), "-E", _extended(draw, features, offset_bytes)]
    for flag, value in (
        ("-g", per_group),
        ("-G", None if "^flex_bg" in features else draw(flex_groups)),
        ("-I", draw(st.none() | st.sampled_from((128, 256, 512, 1024)))),
        ("-i", draw(st.none() | st.sampled_from((4096, 16384, 131072, 4 << 20)))),
        ("-C", ratio * block_bytes if ratio > 1 else None),
        ("-O", ",".join(features) or None),
    ):
        options += [] if value is None else [flag, str(value)]
    return MkfsRequest(size_bytes // 1024 * 1024, offset_bytes, tuple(options))


def _extended(draw: st.DrawFn, features: list[str], offset_bytes: int) -> str:
    words = [*LAZY]
    if offset_bytes:
        words.append(f"offset={offset_bytes}")
    if any("sparse_super2" in each for each in features):
        words.append(f"num_backup_sb={draw(st.integers(0, 2))}")
    if draw(st.booleans()):
        stride = draw(st.sampled_from((1, 16, 128, 1000)))
        words.append(f"stride={stride},stripe_width={3 * stride}")
    if draw(st.integers(0, 4)) == 0:
        words.append("packed_meta_blocks=1")
    return ",".join(words)


TWELVE_DISKS_BLOCKS = 314376192
"""12 members of 100 GiB each, minus 64 MiB for md's superblock, in blocks of 4 KiB."""
KIB = 1024
needs_e2fsprogs = pytest.mark.skipif(
    not (shutil.which("mkfs.ext4") and shutil.which("dumpe2fs")), reason="e2fsprogs is missing"
)


@contextmanager
def sparse_image(size_bytes: int) -> Iterator[Path]:
    """Yield an empty sparse file, on tmpfs because files on ext4 have at most 16 TiB."""
    shared = Path("/dev/shm")  # noqa: S108 - a private directory is made below it
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as directory:
        image = Path(directory, "image")
        image.touch()
        with image.open("r+b") as file:
            file.truncate(size_bytes)
        yield image


def run(command: str) -> str:
    """Run a shell command that must succeed; return its output."""
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def read_superblock(image: Path) -> Superblock:
    """Return the superblock of an image."""
    return parse_superblock(run(f"LC_ALL=C dumpe2fs -h {image}"))


def read_table(image: Path) -> GroupTable:
    """Return the table with the metadata locations of each group of an image."""
    return parse_group_table(run(f"LC_ALL=C dumpe2fs -g {image}"))


def striped_geometry(
    members: int, chunk_kib: int, level: str = "raid0", **changes: Any
) -> StripeGeometry:
    """Build the geometry of an array of disks."""
    names = tuple(f"m{slot}" for slot in range(members))
    return StripeGeometry("md127", level, chunk_kib * KIB, 0, names)._replace(**changes)


def measure_image(
    image: Path, members: int, chunk_kib: int, level: str = "raid0"
) -> MetadataLayout:
    """Return the metadata layout of an image, counted per member of a stripe."""
    sizes = sizes_of(read_superblock(image))
    return measure(read_table(image), sizes, map_of(striped_geometry(members, chunk_kib, level)))


def layout_of(
    options: str, members: int, chunk_kib: int, blocks: int, level: str = "raid0"
) -> MetadataLayout:
    """Return the layout on a stripe of an ext4 with `blocks` 4 KiB blocks and mkfs options."""
    with sparse_image(blocks * 4 * KIB) as image:
        run(f"mkfs.ext4 -q -E lazy_itable_init=1,nodiscard {options} {image}")
        return measure_image(image, members, chunk_kib, level)

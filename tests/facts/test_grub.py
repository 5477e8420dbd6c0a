"""GRUB reads ext4 with the features that the table says it reads, and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ext4audit.facts.features_and_bugs import FEATURES, GRUB_SINCE, grub_obstacles, grub_reads
from support.images.mke2fs import needs_e2fsprogs
from support.timing import PATIENCE_SECONDS

GRUB = shutil.which("grub-fstest")
CONTENT = os.urandom(300_000)
"""The size does not fit into an inode or into the block of a directory."""
BLOCKS = 1024, 2048, 4096
MADE = [
    pytest.param(feature, block, id=f"{feature}-{block}")
    for feature in sorted({*FEATURES, *GRUB_SINCE, "encrypt", "sparse_super2"} - {"64bit"})
    for block in BLOCKS
]
pytestmark = [
    needs_e2fsprogs,
    pytest.mark.skipif(GRUB is None, reason="needs grub-fstest (Debian: grub-common)"),
]


def package() -> str:
    """Return the version of GRUB's package, as grub-fstest prints it."""
    printed = run("--version")
    match = re.fullmatch(rb"\S*grub-fstest \(GRUB\) (\S+)\s*", printed)
    assert match, printed
    return match[1].decode()


def run(*arguments: str | Path) -> bytes:
    """Run grub-fstest, which prints its errors on standard error."""
    assert GRUB
    command = [GRUB, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, check=False, timeout=PATIENCE_SECONDS
    ).stdout


def make(folder: Path, feature: str, block_bytes: int) -> Path:
    """Return an image with a feature and a file."""
    image, content = folder / "image", folder / "content"
    content.mkdir()
    (content / "kernel").write_bytes(CONTENT)
    words = ("-b", str(block_bytes), "-O", feature, "-d", content, image, "64M")
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *words], check=True, capture_output=True)
    return image


@pytest.mark.parametrize(("feature", "block_bytes"), MADE)
def test_grub_reads_what_the_table_says(feature: str, block_bytes: int, tmp_path: Path) -> None:
    """A readable file has every byte; of an unreadable one nothing is found."""
    image = make(tmp_path, feature, block_bytes)
    obstacles = grub_obstacles(frozenset({feature}), block_bytes)
    says = all(grub_reads(package(), each) for each in obstacles)
    read = run(image, "cat", "/kernel")
    assert read in {b"", CONTENT}
    assert (read == CONTENT) is says

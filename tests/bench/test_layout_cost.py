"""The cost of `ext4audit layout`, compared with dumpe2fs and a script that counts bitmaps.

The second method is that of the public article on this hotspot: print everything with dumpe2fs and
count the bitmaps of each disk with a script. Both run one after the other on sparse images in
memory, as whole processes. Run with `uv run pytest -m bench -s`: it prints what it measured.
`EXT4AUDIT_BENCH=full` also measures 64 TiB, where dumpe2fs and the script take a minute.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ext4audit.facts.layout import StripeGeometry
from ext4audit.layout.group_search import advise
from ext4audit.layout.levels import map_of
from ext4audit.layout.mkfs_parameters import DEFAULT_FEATURES, MkfsOptions, mke2fs_sizes
from support.images.mke2fs import needs_e2fsprogs, run, sparse_image, striped_geometry
from support.program import environment
from support.timing import command_seconds, relative_time

pytestmark = [pytest.mark.bench, needs_e2fsprogs]

TIB = 1 << 40
MIB = 1 << 20
TIMES_FASTER = {1: 1, 16: 20, 64: 40}
"""Minimum speedup of the layout by size in TiB, including the start of the process."""
SIZES_TIB = [1, 16, 64] if os.environ.get("EXT4AUDIT_BENCH") == "full" else [1, 16]
USED = "-O ^uninit_bg,^metadata_csum"
"""Without group checksums mke2fs writes all bitmaps, as in a filesystem in use."""
MEMORY_BYTES_OF_A_TIB = {"": 20 * MIB, USED: 90 * MIB}
COUNT_BITMAPS = (
    "/(Block|Inode) bitmap at/"
    '{for (i = 1; i < NF; i++) if ($i == "at") bitmaps[int($(i + 1) / 128) % 12]++}'
    'END {for (disk = 0; disk < 12; disk++) printf "%d ", bitmaps[disk]}'
)


def layout_command(image: Path) -> list[str]:
    """Return the command of the program, for 12 disks and chunks of 512 KiB."""
    words = f"-m ext4audit layout {image} --members 12 --chunk 512K -f json"
    return [sys.executable, *words.split()]


def article_command(image: Path) -> list[str]:
    """Return the command of the article."""
    return ["sh", "-c", f"dumpe2fs {image} 2>/dev/null | awk '{COUNT_BITMAPS}'"]


def cost(command: list[str]) -> float:
    """Return the CPU seconds of a command."""
    clean = {k: v for k, v in environment().items() if k != "PYTHONDONTWRITEBYTECODE"}
    return command_seconds(command, clean)


@pytest.mark.parametrize("options", ["", USED], ids=["fresh", "used"])
@pytest.mark.parametrize("tib", SIZES_TIB)
def test_the_layout_is_many_times_faster_than_all_of_dumpe2fs(tib: int, options: str) -> None:
    """The layout takes less than 1/20 of the article's CPU time at 16 TiB, and 1/40 at 64 TiB."""
    needed = tib * MEMORY_BYTES_OF_A_TIB[options]
    if shutil.disk_usage("/dev/shm").free < 2 * needed:  # noqa: S108 - the size of it only
        pytest.skip(f"needs {2 * needed >> 30} GiB of memory")
    with sparse_image(tib * TIB) as image:
        run(
            f"mkfs.ext4 -q -F {options} -E lazy_itable_init=1,lazy_journal_init=1,nodiscard {image}"
        )
        cost(layout_command(image))  # warm up: this writes the bytecode
        ours = min(cost(layout_command(image)) for _ in range(3))
        theirs = cost(article_command(image))
    print(
        f"\n{tib} TiB {'used' if options else 'fresh'}: {ours:.2f} s; "
        f"dumpe2fs and awk {theirs:.2f} s: {theirs / ours:.0f} times"
    )
    assert theirs > TIMES_FASTER[tib] * ours


@pytest.mark.parametrize(
    ("level", "members", "chunk_kib", "tib", "most"),
    [
        ("raid0", 12, 512, 1, 3),
        ("raid0", 64, 64, 64, 3),
        ("raid10", 24, 128, 64, 3),
        ("raid5", 16, 256, 16, 3),
        ("raid6", 64, 64, 64, 3),
        # Data and parity repeat only after N (N - 1) chunks; each of them is looked up once.
        ("raid5", 64, 64, 64, 40),
    ],
)
def test_advice_is_a_matter_of_milliseconds(
    level: str, members: int, chunk_kib: int, tib: int, most: int
) -> None:
    """It takes at most the time of 300,000 multiplications at any size, 4 million on wide RAID5."""
    array = map_of(striped_geometry(members, chunk_kib, level))
    sizes = mke2fs_sizes(tib * TIB)
    advice = advise(array, sizes)
    words = f"{advice.blocks_per_group_option} {advice.flex_bg_groups}" if advice else "none"
    taken = relative_time(lambda: advise(array, sizes))
    print(f"\n{level} of {members}, {chunk_kib} KiB, {tib} TiB: {taken:.2f} times: {words}")
    assert taken < most


@pytest.mark.parametrize(
    ("geometry", "gib", "flex", "clusters"),
    [
        (striped_geometry(32, 4, "raid6"), 166, 16, 16),
        (striped_geometry(16, 8, "raid5"), 199, 16, 16),
        (striped_geometry(28, 256, "raid5"), 7183, 16, 16),
        (striped_geometry(28, 1024, "raid6"), 269, 32, 4),
        (striped_geometry(24, 4), 1200, 1, 1),
    ],
)
def test_advice_that_finds_little_ends_soon(
    geometry: StripeGeometry, gib: int, flex: int, clusters: int
) -> None:
    """It takes at most the time of 5 million multiplications: 100 ms on a machine of 2024."""
    array = map_of(geometry)
    added = {"bigalloc"} if clusters > 1 else set()
    options = MkfsOptions(
        features=DEFAULT_FEATURES | added,
        flex_bg_groups=flex,
        block_bytes=4096,
        cluster_bytes=4096 * clusters,
    )
    sizes = mke2fs_sizes(gib << 30, options)
    taken = relative_time(lambda: advise(array, sizes), rounds=5)
    print(f"\n{geometry.level} of {len(geometry.members)}, {gib} GiB: {taken:.1f} times")
    assert taken < 50

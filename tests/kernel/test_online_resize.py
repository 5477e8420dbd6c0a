"""Reading the block groups of a filesystem while it grows and is in use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ext4audit.assemble.layout import read_group_table, read_image_group_table
from ext4audit.assemble.superblock import read_raw_superblock
from ext4audit.evidence import Known, Unknown
from ext4audit.facts.superblock import GroupTable
from ext4audit.parsers import parse_device_number
from ext4audit.parsers.dumpe2fs import parse_group_table
from ext4audit.sources.live import LiveSource
from support.filesystems.scratch import Scratch, may_resize, run
from support.timing import wait_until

pytestmark = pytest.mark.kernel
SIZES_MIB = range(96, 1025, 32)


@contextmanager
def busy(directory: Path) -> Iterator[None]:
    """Create and delete small files in many directories in the background."""
    stop = threading.Event()

    def work() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            place = directory / f"d{turn % 50}"
            place.mkdir(exist_ok=True)
            (place / str(turn)).write_bytes(b"x" * 5000)
            if turn > 100:
                (directory / f"d{(turn - 100) % 50}" / str(turn - 100)).unlink()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def read_once(path: str) -> GroupTable | Unknown:
    """Read superblock and groups as one scan does, and assert that they agree."""
    source = LiveSource()
    superblock = read_raw_superblock(source, path)
    assert isinstance(superblock, Known), superblock
    if path.startswith("/dev/"):
        sysfs = Path("/sys/block", Path(path).name, "dev")
        number = parse_device_number(sysfs.read_text(encoding="ascii"))
        table = read_group_table(source, path, number, superblock)
    else:
        table = read_image_group_table(source, path, superblock)
    if isinstance(table, Unknown):
        return table
    assert table.origin == f"group descriptors of {path}"
    assert table.value.groups == superblock.value.groups
    return table.value


def read_while_growing(path: str) -> list[GroupTable | Unknown]:
    """Grow the filesystem step by step, and read it continuously.

    A step starts after two more readings have ended: the second of them began after the last step.
    On a busy machine, readings could otherwise overlap every step, or miss all of them.
    """
    tables = [read_once(path)]

    def has_read(count: int) -> bool:
        return len(tables) >= count

    def grow() -> None:
        for mib in SIZES_MIB:
            wanted = len(tables) + 2
            assert wait_until(partial(has_read, wanted))
            run("resize2fs", path, f"{mib}M")

    with ThreadPoolExecutor(1) as pool:
        growth = pool.submit(grow)
        while not growth.done():
            tables.append(read_once(path))
        growth.result()
    return tables


def assert_consistent(tables: list[GroupTable | Unknown], last: GroupTable) -> None:
    """Assert that every table is a prefix of the last one, and that few are gaps."""
    gaps = [table for table in tables if isinstance(table, Unknown)]
    found = [table for table in tables if not isinstance(table, Unknown)]
    assert {gap.detail for gap in gaps} <= {"the filesystem is being resized"}
    assert len(gaps) <= len(tables) // 4
    for table in found:
        assert table == last.first(table.groups)
    assert len({table.groups for table in found}) > 3


@pytest.mark.parametrize("options", [(), ("-O", "meta_bg,^resize_inode")])
def test_a_growing_and_busy_filesystem_is_read_consistently(
    tmp_path: Path,
    private_mounts: None,  # noqa: ARG001 - a fixture that acts
    options: tuple[str, ...],
) -> None:
    """No group of a mounted filesystem moves while it grows, and none is read as zeros."""
    if not may_resize():
        pytest.skip("online resize needs CAP_SYS_RESOURCE")
    scratch = Scratch(tmp_path / "image", tmp_path / "mnt").make("-b", "1024", *options)
    run("truncate", "-s", "1G", scratch.image)
    scratch.mount()
    try:
        device = scratch.device
        with busy(scratch.mount_point):
            tables = read_while_growing(device)
        run("sync")
        last = parse_group_table(run("dumpe2fs", "-g", device))
    finally:
        scratch.unmount()
    assert last.groups == 128
    assert_consistent(tables, last)


def test_an_image_that_resize2fs_grows_is_read_consistently(tmp_path: Path) -> None:
    """The same holds for an image that is not mounted, which resize2fs itself writes."""
    image = Scratch(tmp_path / "image", tmp_path / "mnt").make("-b", "1024").image
    tables = read_while_growing(str(image))
    last = parse_group_table(run("dumpe2fs", "-g", image))
    assert last.groups == 128
    assert_consistent(tables, last)


def test_a_busy_filesystem_is_the_same_by_all_readers(
    tmp_path: Path,
    private_mounts: None,  # noqa: ARG001 - a fixture that acts
) -> None:
    """While files are created and deleted, every reading equals dumpe2fs's final output."""
    scratch = Scratch(tmp_path / "image", tmp_path / "mnt").make(size="1G").mount()
    try:
        device = scratch.device
        with busy(scratch.mount_point):
            tables = [read_once(device) for _ in range(200)]
        run("sync")
        listed = parse_group_table(run("dumpe2fs", "-g", device))
    finally:
        scratch.unmount()
    assert listed.groups == 8
    assert all(table == listed for table in tables)

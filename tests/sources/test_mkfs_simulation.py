"""MkfsSource: the real mke2fs on a sparse file in memory."""

from __future__ import annotations

import gc
import stat
from pathlib import Path

import pytest

from ext4audit.evidence import Known, Unknown, Why
from ext4audit.sources import ReadBytes, ReadFile, RunCommand, VirtualMemory
from ext4audit.sources.mkfs_simulation import MkfsSource
from support.images.mke2fs import needs_e2fsprogs
from support.timing import PATIENCE_SECONDS

DEVICE = "/dev/md0"
MAGIC = b"\x53\xef"
SUPERBLOCK = ReadBytes(DEVICE, 1024, 1024)
TOO_BIG = "Total journal size too big for filesystem."


def make(source: MkfsSource, *arguments: str) -> Known[str] | Unknown:
    """Run mke2fs with arguments on the planned device."""
    answer = source.fetch(RunCommand(("mke2fs", "-q", "-F", "-t", "ext4", *arguments, DEVICE)))
    assert isinstance(answer, Known | Unknown)
    return answer


def program(folder: Path, script: str) -> tuple[str, ...]:
    """Write a fake mke2fs into a folder, and return the search path that finds it."""
    path = folder / "mke2fs"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(folder),)


@needs_e2fsprogs
def test_what_mke2fs_made_can_be_read() -> None:
    """It is read under the planned device's name; the origin states that it is simulated."""
    with MkfsSource(DEVICE, 1 << 40, timeout_seconds=PATIENCE_SECONDS) as source:
        assert make(source, "-E", "lazy_itable_init=1,nodiscard") == Known(
            "", f"mke2fs -q -F -t ext4 -E lazy_itable_init=1,nodiscard {DEVICE}"
        )
        found = source.fetch(SUPERBLOCK)
    assert isinstance(found, Known)
    assert found.value[56:58] == MAGIC
    assert found.origin == "1024 bytes at 1024 of /dev/md0, simulated"


@needs_e2fsprogs
def test_each_run_starts_on_an_empty_file() -> None:
    """A dry run after a real one does not show the first filesystem."""
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS) as source:
        make(source)
        make(source, "-n")
        found = source.fetch(SUPERBLOCK)
    assert isinstance(found, Known)
    assert found.value == bytes(1024)


@needs_e2fsprogs
@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("-g", "100"), "mke2fs: blocks per group must be multiple of 8"),
        (("-O", "foo"), "Invalid filesystem option set: foo"),
        (("-E", "bar=1"), "Bad option(s) specified: bar"),
        (("-U", "zz"), "/dev/md0: could not parse UUID: zz"),
        (("-I", "7"), "mke2fs: invalid inode size 7 (min 128/max 4096)"),
        (("-I", "128", "-J", "size=900"), TOO_BIG),
        (("-O", "bigalloc", "-C", "128k", "-J", "size=900"), TOO_BIG),
        (("-O", "^64bit", "-J", "size=900"), TOO_BIG),
        (("-O", "^64bit,^extent", "-J", "size=900"), TOO_BIG),
        (("-b", "8192", "-J", "size=900"), TOO_BIG),
    ],
)
def test_a_refusal_has_the_message_of_mke2fs(arguments: tuple[str, ...], cause: str) -> None:
    """The banner and the warnings are removed, and the planned device is named."""
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS) as source:
        dry = RunCommand(("mke2fs", "-n", "-v", "-F", "-t", "ext4", *arguments, DEVICE))
        answers = (make(source, *arguments), source.fetch(dry))
    for answer in answers:
        assert isinstance(answer, Unknown)
        assert (answer.why, answer.detail) == (Why.FAILED, cause)


@needs_e2fsprogs
def test_the_configuration_can_be_that_of_another_host(tmp_path: Path) -> None:
    """The variable is MKE2FS_CONFIG of mke2fs(8)."""
    file = tmp_path / "mke2fs.conf"
    file.write_text("[defaults]\n\tblocksize = 2048\n\tinode_size = 256\n")
    with MkfsSource(
        DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS, configuration=str(file)
    ) as source:
        make(source)
        found = source.fetch(SUPERBLOCK)
    assert isinstance(found, Known)
    assert found.value[24] == 1  # s_log_block_size


@needs_e2fsprogs
def test_nothing_is_left_behind() -> None:
    """The file has no name, and its descriptor is closed."""
    gc.collect()  # descriptors left by earlier tests must not close meanwhile
    before = len(list(Path("/proc/self/fd").iterdir()))
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS) as source:
        make(source)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_run_that_takes_too_much_memory_is_stopped(tmp_path: Path) -> None:
    """No simulation may use half a gigabyte."""
    fill = 'for last in "$@"; do :; done; exec dd if=/dev/zero of="$last" bs=1M count=500'
    path = program(tmp_path, f"{fill} conv=notrunc 2>/dev/null")
    with MkfsSource(DEVICE, 1 << 40, timeout_seconds=PATIENCE_SECONDS, search_path=path) as source:
        answer = make(source)
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.detail) == (
        Why.UNSUPPORTED,
        "the simulation takes more than 300 MiB",
    )


def test_a_run_that_hangs_is_stopped(tmp_path: Path) -> None:
    """Its children are stopped as well."""
    path = program(tmp_path, "sleep 60 & wait")
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=0.2, search_path=path) as source:
        answer = make(source)
    assert isinstance(answer, Unknown)
    assert answer.why is Why.TIMED_OUT


def test_a_killed_run_is_no_refusal(tmp_path: Path) -> None:
    """The kernel kills when memory runs out, which is not a verdict on the plan."""
    path = program(tmp_path, "kill -9 $$")
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS, search_path=path) as source:
        answer = make(source)
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.detail) == (Why.UNSUPPORTED, "mke2fs was killed by signal 9")


def test_endless_output_fills_no_pipe(tmp_path: Path) -> None:
    """The output goes to memory as well, and its beginning is kept."""
    path = program(tmp_path, "yes no | head -c 3000000; exit 1")
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS, search_path=path) as source:
        answer = make(source)
    assert isinstance(answer, Unknown)
    assert answer.detail.startswith("no no no")
    assert len(answer.detail) == 400


def test_without_mke2fs_it_is_absent(tmp_path: Path) -> None:
    """The hint names the package."""
    with MkfsSource(
        DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS, search_path=(str(tmp_path),)
    ) as source:
        answer = make(source)
    assert isinstance(answer, Unknown)
    assert (answer.why, answer.hint) == (Why.ABSENT, "install e2fsprogs")


def test_nothing_else_is_answered() -> None:
    """No other program is run and no other file is read; the memory is this machine's."""
    with MkfsSource(DEVICE, 1 << 30, timeout_seconds=PATIENCE_SECONDS) as source:
        others = [
            source.fetch(RunCommand(("dumpe2fs", DEVICE))),
            source.fetch(ReadFile("/etc/fstab")),
            source.fetch(ReadBytes("/dev/sda", 0, 1)),
        ]
        assert {each.why for each in others if isinstance(each, Unknown)} == {Why.ABSENT}
        assert isinstance(source.fetch(VirtualMemory()), Known)
        beyond = source.fetch(ReadBytes(DEVICE, 1 << 30, 16))
    assert all(isinstance(each, Unknown) for each in others)
    assert isinstance(beyond, Unknown)
    assert beyond.detail == "0 of 16 bytes are there"

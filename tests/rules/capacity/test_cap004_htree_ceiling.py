"""CAP004: directories whose index may be full."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import ErrorCounters, Filesystem
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap004_htree_ceiling import (
    LONGEST_NAME_BYTES,
    USUAL_NAME_BYTES,
    check,
    least_names,
    leaves,
    usual_names,
)
from support.builders import filesystem, host, kernel, known, mount, superblock, unknown, usage
from support.remedies.case import RemedyCase

INDEXED = frozenset({"has_journal", "dir_index"})
LARGE = INDEXED | {"large_dir"}
MILLIONS = 2_000_000


def verdict(fs: Filesystem, release: str = "6.1.0-18-amd64") -> Verdict:
    """Judge one filesystem on a kernel."""
    return judge(check, fs, host(fs, kernel=known(kernel(release))))


def with_files(
    files: int,
    *,
    inodes: int = 6_553_600,
    block: int = 4096,
    warnings: int | None = 0,
    features: frozenset[str] = INDEXED,
    **changes: Any,
) -> Filesystem:
    """Build a filesystem with this many files, and this many warnings since its mount."""
    values: dict[str, Any] = {
        "usage": known(usage(inodes=inodes, free_inodes=inodes - files, block_bytes=block)),
        "errors": known(ErrorCounters(0, None if warnings is None else known(warnings))),
        "superblock": known(superblock(features=features, block_bytes=block)),
    }
    values.update(changes)
    return filesystem(**values)


SMALL_BLOCKS: dict[str, Any] = {"block": 1024, "inodes": 500_000}
UNREAD: dict[str, Any] = {"superblock": unknown("superblock")}
UNKNOWN_ERROR_COUNTS: dict[str, Any] = {"errors": unknown("recorded errors")}


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_files(MILLIONS), Outcome.PASS),
        (with_files(MILLIONS, warnings=1), Outcome.FAIL),
        (with_files(MILLIONS, warnings=None), Outcome.PASS),
        (with_files(MILLIONS, warnings=1, features=LARGE), Outcome.PASS),
        (with_files(MILLIONS, warnings=1, features=frozenset()), Outcome.NOT_APPLICABLE),
        (with_files(MILLIONS, **UNREAD), Outcome.PASS),
        (with_files(MILLIONS, warnings=1, **UNREAD), Outcome.UNDETERMINED),
        (with_files(MILLIONS, **UNKNOWN_ERROR_COUNTS), Outcome.UNDETERMINED),
        # Warnings have other causes: with so few files no directory can be full.
        (with_files(1_000_000, warnings=9), Outcome.PASS),
        (with_files(1_000_000, **UNREAD, **UNKNOWN_ERROR_COUNTS), Outcome.PASS),
        # The smallest number of names that can fill one directory.
        (with_files(1_809_989, warnings=1), Outcome.PASS),
        (with_files(1_809_990, warnings=1), Outcome.FAIL),
        (with_files(11, **SMALL_BLOCKS), Outcome.FAIL),
        (with_files(11, block=1024, inodes=418_446), Outcome.PASS),
        (with_files(11, block=1024, inodes=418_447), Outcome.FAIL),
        (with_files(11, **SMALL_BLOCKS, features=LARGE), Outcome.PASS),
        (with_files(11, **SMALL_BLOCKS, **UNREAD), Outcome.UNDETERMINED),
        # mke2fs uses 1 KiB blocks for a /boot of 500 MB.
        (with_files(300, block=1024, inodes=131_072), Outcome.PASS),
        (with_files(11, usage=unknown("space in use")), Outcome.UNDETERMINED),
        (with_files(11, alive=False, mounts=()), Outcome.NOT_APPLICABLE),
        (filesystem(), Outcome.PASS),
    ],
)
def test_cap004_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """A warning counts only if there are enough files to fill one directory."""
    assert verdict(fs).outcome is outcome


def test_cap004_finding_by_warnings_is_only_possible() -> None:
    """The counter does not show the reason for a warning."""
    (finding,) = verdict(with_files(MILLIONS, warnings=3)).findings
    assert (finding.severity, finding.confidence) == (Severity.MEDIUM, Confidence.POSSIBLE)
    assert "3 times" in finding.message
    assert "dmesg" in finding.remedies[0].summary


def test_cap004_small_blocks_are_info() -> None:
    """With 1 KiB blocks a directory can hold only some hundred thousand names."""
    (finding,) = verdict(with_files(11, **SMALL_BLOCKS)).findings
    assert finding.severity is Severity.INFO
    assert "about 418,000 names" in finding.message


@pytest.mark.parametrize(
    ("fs", "release", "printed"),
    [
        (with_files(11, **SMALL_BLOCKS), "6.1.0", True),
        (with_files(11, **SMALL_BLOCKS, mounts=(mount("/boot"),)), "6.1.0", False),
        (with_files(11, **SMALL_BLOCKS, mounts=(mount("/"),)), "6.1.0", False),
        (with_files(11, **SMALL_BLOCKS), "4.12.14", False),
        (with_files(11, **SMALL_BLOCKS), "4.13.0", True),
    ],
)
def test_cap004_prints_large_dir_only_if_kernel_and_boot_loader_support_it(
    fs: Filesystem, release: str, *, printed: bool
) -> None:
    """Linux before 4.13 and older boot loaders cannot read it; there is no rollback."""
    (finding,) = verdict(fs, release).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.lines]
    assert any("tune2fs -O large_dir /dev/sda" in command for command in commands) is printed
    assert not any(step.phase.value == "rollback" for r in finding.remedies for step in r.lines)


def test_cap004_says_who_cannot_mount_it_afterwards() -> None:
    """An old kernel refuses an incompat feature for read-only mounts as well (fs/ext4/super.c)."""
    finding = verdict(with_files(12_000_000, warnings=1)).findings[0]
    trade_off = finding.remedies[-1].trade_off or ""
    assert "Linux before 4.13 cannot mount the filesystem, not even read-only" in trade_off


def test_index_capacity_by_block_size() -> None:
    """Two levels hold what fits into the index blocks (fs/ext4/namei.c, with checksums)."""
    assert (leaves(1024), leaves(4096)) == (123 * 126, 507 * 510)
    assert usual_names(1024) == 15_498 * 27
    assert least_names(1024) < least_names(4096) == 258_570 * 7
    assert least_names(65536) == 8187 * 8190 * 124
    assert isinstance(filesystem().usage, Known)


@pytest.mark.parametrize(("length", "taken"), [(20, USUAL_NAME_BYTES), (255, LONGEST_NAME_BYTES)])
def test_size_of_a_directory_entry(length: int, taken: int) -> None:
    """Documentation/filesystems/ext4/directory.rst: entries are aligned to 4 bytes."""
    assert taken % 4 == 0
    assert 8 + length <= taken < 8 + length + 4


# A third level for directories with blocks of 1 KiB, without a rollback.
REMEDY_CASES = (
    RemedyCase(
        name="small blocks",
        remedy="a third index level",
        mke2fs=("-b", "1024", "-I", "256", "-N", "500000", "-E", "lazy_itable_init=1"),
        size="300M",
        fstab="defaults",
        restores=False,
    ),
)

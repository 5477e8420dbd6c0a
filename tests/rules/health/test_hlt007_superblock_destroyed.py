"""HLT007: the superblock on the device of a mounted filesystem is destroyed."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import PrimarySuperblock
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt007_superblock_destroyed import check
from support.builders import GIB, disk, filesystem, host, known, superblock, unknown

DUMPE2FS_TIMED_OUT = Unknown("superblock of /dev/sda", Why.TIMED_OUT, "no answer within 10 s")
BAD_MAGIC = Unknown("superblock of /dev/sda", Why.FAILED, "Bad magic number (exit status 1)")
BYTES_ORIGIN = "1024 bytes at 1024 of /dev/sda"


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def damaged_superblock(
    damage: str = "it is zeroed", failed: Unknown | None = BAD_MAGIC
) -> PrimarySuperblock:
    """Build a damaged primary superblock, which the kernel still has in memory."""
    return PrimarySuperblock(damage, failed, known(superblock(), "EXT4_IOC_GET_TUNE_SB_PARAM"))


def with_primary_superblock(primary: PrimarySuperblock, **changes: Any) -> Filesystem:
    """Build a filesystem with this primary superblock."""
    return filesystem(primary=known(primary, BYTES_ORIGIN), **changes)


def on_device_of(size_bytes: int, **changes: Any) -> Filesystem:
    """Build a filesystem of 100 GiB on a device of this size."""
    device = disk(size_sectors=known(size_bytes // 512, "/sys"))
    held = known(superblock(size_blocks=100 * GIB // 4096))
    return filesystem(**{"stack": known(device), "superblock": held, **changes})


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (filesystem(), Outcome.PASS),
        (with_primary_superblock(PrimarySuperblock()), Outcome.PASS),
        (with_primary_superblock(damaged_superblock()), Outcome.FAIL),
        (with_primary_superblock(damaged_superblock(failed=None)), Outcome.FAIL),
        (with_primary_superblock(damaged_superblock(), alive=False, mounts=()), Outcome.FAIL),
        (
            with_primary_superblock(damaged_superblock(), superblock=unknown("superblock")),
            Outcome.FAIL,
        ),
        (
            with_primary_superblock(PrimarySuperblock(failed=DUMPE2FS_TIMED_OUT)),
            Outcome.UNDETERMINED,
        ),
        (filesystem(primary=unknown("primary superblock")), Outcome.UNDETERMINED),
        (filesystem(stack=known(disk(kind="image"))), Outcome.NOT_APPLICABLE),
        (filesystem(stack=unknown("stack")), Outcome.UNDETERMINED),
        (on_device_of(100 * GIB), Outcome.PASS),
        (on_device_of(100 * GIB - 512), Outcome.FAIL),
        # The kernel does not compare it with a device that has no size.
        (on_device_of(0), Outcome.PASS),
        (on_device_of(GIB, superblock=unknown("superblock")), Outcome.UNDETERMINED),
    ],
)
def test_hlt007_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Damage is a finding even if the kernel answers; a failed dumpe2fs on whole bytes is a gap."""
    assert verdict(fs).outcome is outcome


def test_hlt007_compares_the_device_with_the_kernels_copy() -> None:
    """The device decides about the next mount, and the kernel's copy about this one."""
    (finding,) = verdict(with_primary_superblock(damaged_superblock())).findings
    assert finding.severity is Severity.CRITICAL
    assert finding.message == (
        "The superblock of /dev/sda is destroyed although it is mounted (it is zeroed): "
        "the next mount will fail."
    )
    assert [citation[:3] for citation in finding.citations] == [
        ("superblock on the device", "it is zeroed", BYTES_ORIGIN),
        ("dumpe2fs", "Bad magic number (exit status 1)", "superblock of /dev/sda"),
        ("kernel's copy", "a filesystem of 26214400 blocks", "EXT4_IOC_GET_TUNE_SB_PARAM"),
        ("mounted on", "/data", "/proc/self/mountinfo"),
    ]
    (remedy,) = finding.remedies
    assert "before any unmount or restart" in remedy.summary
    assert "e2fsck -b 32768 -B 4096" in remedy.summary


@pytest.mark.parametrize(
    ("changes", "then"),
    [
        ({}, "the next mount will fail"),
        ({"alive": False, "mounts": ()}, "it cannot be mounted"),
        # dumpe2fs reads the journal, which may be in the part that is cut off.
        ({"primary": known(PrimarySuperblock(failed=BAD_MAGIC))}, "the next mount will fail"),
    ],
)
def test_hlt007_finds_a_device_that_was_reduced_below_the_filesystem(
    changes: dict[str, Any], then: str
) -> None:
    """After lvreduce without resize2fs the mounted filesystem works until its end is used."""
    (finding,) = verdict(on_device_of(60 * GIB, **changes)).findings
    assert finding.severity is Severity.CRITICAL
    assert finding.message == (
        "/dev/sda is 40 GiB smaller than the filesystem on it: the end of the filesystem is cut "
        f"off, and {then}."
    )
    assert finding.summary == f"the device is smaller than the filesystem: {then}"
    assert finding.remedies[0].steps == ()


def test_hlt007_advice_for_an_unmounted_filesystem() -> None:
    """Without a block size, the user has to find the block of a backup superblock."""
    fs = with_primary_superblock(
        damaged_superblock(), alive=False, mounts=(), superblock=unknown("s"), usage=unknown("u")
    )
    (finding,) = verdict(fs).findings
    assert finding.message.endswith("is destroyed (it is zeroed): it cannot be mounted.")
    assert finding.remedies[0].summary.startswith("Find out what wrote to the device")
    assert "with the block of a backup" in finding.remedies[0].summary


def test_hlt007_gap_names_the_failed_tool() -> None:
    """The reason and the hint of its failure are in the report."""
    assert verdict(
        with_primary_superblock(PrimarySuperblock(failed=DUMPE2FS_TIMED_OUT))
    ).unknowns == (DUMPE2FS_TIMED_OUT,)


REMEDIES_NOT_RUN = (
    "Nothing is printed to run: what to copy away first, and from which backup to repair what "
    "else was overwritten, is for a person to decide."
)

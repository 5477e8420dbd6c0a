"""CAP002: much space of a data filesystem is reserved for root."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap002_reserved_blocks_huge import check
from support.builders import (
    GIB,
    filesystem,
    host,
    known,
    mount,
    options,
    superblock,
    unknown,
    usage,
)
from support.filesystems.scratch import run
from support.remedies.case import LoopMount, RemedyCase

BLOCK = 4096
UNREAD: dict[str, Any] = {"superblock": unknown("superblock")}


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def sized(
    gib: int, reserved_percent: float, *, free_percent: float = 50, **changes: Any
) -> Filesystem:
    """Build a filesystem of this size, with this reserve and share of free blocks."""
    total = gib * GIB // BLOCK
    reserved = int(total * reserved_percent / 100)
    free = int(total * free_percent / 100)
    found = usage(size_blocks=total, free_blocks=free, available_blocks=max(0, free - reserved))
    values: dict[str, Any] = {
        "usage": known(found, "statfs"),
        "superblock": known(superblock(size_blocks=total, reserved_blocks=reserved), "dumpe2fs"),
    }
    values.update(changes)
    return filesystem(**values)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (sized(2000, 5), Outcome.FAIL),
        (sized(2000, 5, **UNREAD), Outcome.FAIL),
        (sized(1000, 1), Outcome.PASS),
        (sized(1000, 1, **UNREAD), Outcome.PASS),
        (sized(1000, 0), Outcome.PASS),
        (sized(4000, 2), Outcome.FAIL),
        # The default of mke2fs on a small host or a cloud image.
        (sized(99, 5), Outcome.NOT_APPLICABLE),
        # The default on a larger volume with free space: a default install has no finding.
        (sized(500, 5), Outcome.PASS),
        (sized(500, 5, **UNREAD), Outcome.PASS),
        (sized(500, 5, free_percent=10), Outcome.FAIL),
        (sized(500, 5, free_percent=10, **UNREAD), Outcome.FAIL),
        (sized(2000, 5, mounts=(mount("/"),)), Outcome.NOT_APPLICABLE),
        (sized(2000, 5, mounts=(mount("/var"),)), Outcome.NOT_APPLICABLE),
        (sized(2000, 5, mounts=()), Outcome.NOT_APPLICABLE),
        (sized(2000, 5, read_only=known(value=True)), Outcome.NOT_APPLICABLE),
        (sized(2000, 5, read_only=unknown("read-only")), Outcome.UNDETERMINED),
        (sized(2000, 5, usage=unknown("space in use")), Outcome.UNDETERMINED),
        # The reserve was given to a user on purpose.
        (sized(2000, 5, options=known(options("resuid=1000"))), Outcome.NOT_APPLICABLE),
        # Users have no blocks left, so the rest of the reserve does not show its size.
        (sized(1000, 5, free_percent=1, **UNREAD), Outcome.UNDETERMINED),
        (sized(1000, 5, free_percent=4.5, **UNREAD), Outcome.FAIL),
        (sized(1000, 5, free_percent=1), Outcome.FAIL),
    ],
)
def test_cap002_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Size, share and mount point decide; without root, statfs's free counts show the reserve."""
    assert verdict(fs).outcome is outcome


def with_reserved_blocks(gib: int, blocks: int, **changes: Any) -> Filesystem:
    """Build a half-full filesystem that reserves exactly this many blocks."""
    total = gib * GIB // BLOCK
    own = superblock(size_blocks=total, reserved_blocks=blocks)
    return sized(gib, 0, **{"superblock": known(own, "dumpe2fs"), **changes})


def with_unavailable_blocks(gib: int, blocks: int) -> Filesystem:
    """Build a filesystem without superblock, whose free counts differ by this many blocks."""
    total = gib * GIB // BLOCK
    left = total // 20
    found = usage(size_blocks=total, free_blocks=left + blocks, available_blocks=left)
    return sized(gib, 0, usage=known(found, "statfs"), **UNREAD)


LITTLE_FREE_SPACE = {"free_percent": 5}
FOUR_PERCENT = 10_485_760


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        # If space is scarce, 4 % is the limit.
        (with_reserved_blocks(1000, FOUR_PERCENT - 1, **LITTLE_FREE_SPACE), Outcome.PASS),
        (with_reserved_blocks(1000, FOUR_PERCENT, **LITTLE_FREE_SPACE), Outcome.FAIL),
        (with_reserved_blocks(1000, FOUR_PERCENT), Outcome.PASS),
        # Space is scarce if less than 10 % of all blocks are left beyond the reserve.
        (sized(500, 5, free_percent=15), Outcome.PASS),
        (sized(500, 5, free_percent=14.9), Outcome.FAIL),
        # 50 GiB is the other limit, here less than 4 % of 2000 GiB.
        (with_reserved_blocks(2000, 50 * GIB // BLOCK), Outcome.PASS),
        (with_reserved_blocks(2000, 50 * GIB // BLOCK + 1), Outcome.FAIL),
        # The kernel's own 4096 clusters are not available either, but not reserved for root.
        (with_unavailable_blocks(1000, FOUR_PERCENT + 4095), Outcome.PASS),
        (with_unavailable_blocks(1000, FOUR_PERCENT + 4096), Outcome.FAIL),
    ],
)
def test_cap002_limits(fs: Filesystem, outcome: Outcome) -> None:
    """At each limit, one block more makes the difference."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("free_percent", "severity", "summary"),
    [
        (50, Severity.LOW, "more than 50 GiB are reserved for root"),
        (15.1, Severity.LOW, "more than 50 GiB are reserved for root"),
        (14.9, Severity.MEDIUM, "space is scarce, and much of it is reserved for root"),
        (1, Severity.MEDIUM, "space is scarce, and much of it is reserved for root"),
    ],
)
def test_cap002_severity_by_space_left_for_users(
    free_percent: float, severity: Severity, summary: str
) -> None:
    """If users have less than 10 % left, they need the space that is reserved."""
    (finding,) = verdict(sized(2000, 5, free_percent=free_percent)).findings
    assert (finding.severity, finding.summary) == (severity, summary)


@pytest.mark.parametrize(
    ("gib", "kept_gib"), [(100, 1), (1000, 10), (4000, 20)], ids=["100 GiB", "1000 GiB", "4000 GiB"]
)
def test_cap002_remedy_keeps_one_percent_or_20_gib(gib: int, kept_gib: int) -> None:
    """1 %, at most 20 GiB, stays reserved; the rollback restores the old number of blocks."""
    (finding,) = verdict(sized(gib, 5, free_percent=10)).findings
    kept, before = kept_gib * GIB // BLOCK, gib * GIB // BLOCK // 20
    (remedy,) = finding.remedies
    assert [step.command for step in remedy.lines] == [
        f"tune2fs -r {kept} /dev/sda",
        f"tune2fs -l /dev/sda | grep -qE '^Reserved block count: +{kept}$'",
        f"tune2fs -r {before} /dev/sda",
    ]


def test_cap002_prints_no_commands_without_root() -> None:
    """Without root there is a finding, and the remedy only names the option."""
    (finding,) = verdict(sized(2000, 5, **UNREAD)).findings
    assert finding.remedies[0].steps == ()
    assert "as root" in finding.remedies[0].summary


# Large filesystems on sparse images, whose reserve is changed while they are mounted.
LARGE = ("-J", "size=16", "-E", "lazy_itable_init=1,lazy_journal_init=1")


def fill_to_90_percent(loop_mount: LoopMount) -> None:
    """Leave users less than 10 % of the space; unwritten extents take no space in the image."""
    run("fallocate", "-l", "95G", str(loop_mount.mount_point / "ballast"))


REMEDY_CASES = (
    RemedyCase(
        name="mke2fs's 5 % of little space",
        remedy="Reserve 1 GiB",
        mke2fs=LARGE,
        size="104G",
        fstab="defaults",
        prepare=fill_to_90_percent,
    ),
    RemedyCase(
        name="more than 50 GiB",
        remedy="Reserve 16.5 GiB",
        mke2fs=(*LARGE, "-m", "3.5", "-T", "largefile4"),
        size="1650G",
    ),
)


@pytest.mark.parametrize(
    ("fs", "origin"),
    [
        (sized(2000, 5), "dumpe2fs"),
        (sized(2000, 5, **UNREAD), "statfs"),
        (sized(2000, 5, superblock=known(superblock(reserved_blocks=None), "ioctl")), "statfs"),
        (sized(1000, 1, superblock=known(superblock(reserved_blocks=None), "ioctl")), "statfs"),
    ],
)
def test_cap002_cites_the_origin_of_the_reserve(fs: Filesystem, origin: str) -> None:
    """The ioctl does not return the number; it is then the difference of two free counts."""
    judged = verdict(fs)
    cited = [*judged.evidence, *(each for found in judged.findings for each in found.citations)]
    assert [each.origin for each in cited if each.label == "reserved for root"] == [origin]

"""CAP001: a filesystem that runs out of inodes before it runs out of space."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap001_inode_exhaustion import check
from support.builders import GIB, disk, filesystem, host, known, mount, superblock, unknown, usage

INODES = 1_000_000


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def with_inodes_used(
    used: int, *, inodes: int = INODES, place: str = "/data", **changes: Any
) -> Filesystem:
    """Build a filesystem with this many inodes in use, mounted at a place."""
    found = usage(inodes=inodes, free_inodes=inodes - used)
    return filesystem(usage=known(found, "statfs"), mounts=(mount(place),), **changes)


READ_ONLY: dict[str, Any] = {"read_only": known(value=True)}
UNKNOWN_RO: dict[str, Any] = {"read_only": unknown("read-only")}


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_inodes_used(500_000), Outcome.PASS),
        (with_inodes_used(849_999), Outcome.PASS),
        (with_inodes_used(850_000), Outcome.FAIL),
        (with_inodes_used(850_000, **UNKNOWN_RO), Outcome.UNDETERMINED),
        (with_inodes_used(500_000, **UNKNOWN_RO), Outcome.PASS),
        # Read-only images are made with exactly as many inodes as they need.
        (with_inodes_used(INODES, **READ_ONLY), Outcome.NOT_APPLICABLE),
        (with_inodes_used(0, inodes=0), Outcome.NOT_APPLICABLE),
        (with_inodes_used(1, inodes=1), Outcome.FAIL),
        (filesystem(usage=unknown("space in use")), Outcome.UNDETERMINED),
        (filesystem(alive=False, mounts=(), usage=unknown("space")), Outcome.NOT_APPLICABLE),
        (filesystem(), Outcome.PASS),
    ],
)
def test_cap001_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The share of inodes in use decides, on a filesystem that is mounted writable."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("used", "severity"),
    [
        (850_000, Severity.MEDIUM),
        (949_999, Severity.MEDIUM),
        (950_000, Severity.HIGH),
        (989_999, Severity.HIGH),
        (990_000, Severity.CRITICAL),
        (INODES, Severity.CRITICAL),
    ],
)
def test_cap001_severity_by_share_of_inodes_in_use(used: int, severity: Severity) -> None:
    """The thresholds are 85, 95 and 99 %."""
    (finding,) = verdict(with_inodes_used(used)).findings
    assert finding.severity is severity
    assert "45 GiB of space are free" in finding.message
    assert finding.summary == ("no free inodes" if used == INODES else "inodes are running out")


def test_cap001_message_has_the_inodes_left() -> None:
    """The message also states the share in use."""
    (finding,) = verdict(with_inodes_used(850_000)).findings
    start = "85 % of the inodes are in use: only 150,000 more files can be created"
    assert finding.message.startswith(start)


def test_cap001_message_when_no_inode_is_left() -> None:
    """At 100 % no more files can be created."""
    (finding,) = verdict(with_inodes_used(INODES)).findings
    assert finding.message.startswith("100 % of the inodes are in use: no more files")


def test_cap001_message_when_the_space_is_used_up_as_well() -> None:
    """There is then nothing that the inodes keep from being used."""
    full = usage(inodes=INODES, free_inodes=0, free_blocks=1, available_blocks=0)
    (finding,) = verdict(filesystem(usage=known(full, "statfs"))).findings
    assert finding.message.endswith("no more files can be created, and no space is free.")


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_inodes_used(11, inodes=100_000, place="/var/lib/docker"), Outcome.FAIL),
        (with_inodes_used(11, inodes=100_000, place="/var/lib/docker/overlay2"), Outcome.FAIL),
        (with_inodes_used(11, inodes=100_000, place="/var/lib/dockers"), Outcome.PASS),
        (with_inodes_used(11, inodes=100_000, place="/data"), Outcome.PASS),
        # The defaults of mke2fs, up to the type "huge" with 64 KiB per inode.
        (with_inodes_used(11, inodes=6_553_600, place="/var/lib/docker"), Outcome.PASS),
        (with_inodes_used(11, inodes=1_638_400, place="/var/lib/docker"), Outcome.PASS),
        (with_inodes_used(11, inodes=1_638_375, place="/var/lib/docker"), Outcome.FAIL),
        # From 1000 used inodes on, the use decides instead of the ratio.
        (with_inodes_used(999, inodes=100_000, place="/var/lib/docker"), Outcome.FAIL),
        (with_inodes_used(1000, inodes=100_000, place="/var/lib/docker"), Outcome.PASS),
        (with_inodes_used(20_000, inodes=100_000, place="/var/lib/docker"), Outcome.PASS),
    ],
)
def test_cap001_inode_ratio_of_an_empty_filesystem(fs: Filesystem, outcome: Outcome) -> None:
    """Too few inodes for many small files are reported while the filesystem is still empty."""
    found = verdict(fs)
    assert found.outcome is outcome
    assert all(finding.severity is Severity.MEDIUM for finding in found.findings)


def test_cap001_cites_inodes_in_use() -> None:
    """The finding cites the inodes in use and their share."""
    found = usage(inodes=4000, free_inodes=1000)
    (cited, *_) = verdict(filesystem(usage=known(found, "statfs"))).evidence
    assert (cited.value, cited.origin) == ("3,000 of 4,000 in use (75 %)", "statfs")


def test_cap001_remedy_has_the_command_that_finds_the_files() -> None:
    """The mount point in the command is quoted, and file names never occur in it."""
    (finding,) = verdict(with_inodes_used(INODES, place="/my data")).findings
    find = finding.remedies[0].summary
    assert "find '/my data' -xdev -printf '%h\\n' | sort | uniq -c | sort -n | tail" in find
    assert finding.remedies[2].destructive
    assert all(not remedy.steps for remedy in finding.remedies)


@pytest.mark.parametrize(
    ("inodes", "dense"), [(INODES, 8192), (10_485_760, 5120), (52_428_800, 4096)]
)
def test_cap001_suggested_ratio_is_between_4_and_8_kib(inodes: int, dense: int) -> None:
    """The suggested ratio is between 4 and 8 KiB per inode, also for very dense filesystems."""
    (finding,) = verdict(with_inodes_used(inodes, inodes=inodes)).findings
    assert f"(mkfs.ext4 -i {dense})" in finding.remedies[2].summary


@pytest.mark.parametrize(("device_gib", "says"), [(100, "Grow the volume"), (300, "see CAP005")])
def test_cap001_suggests_resize2fs_if_the_device_has_room(device_gib: int, says: str) -> None:
    """More inodes by one resize2fs are suggested before a larger volume."""
    sectors = known(device_gib * GIB // 512, "/sys")
    own = known(superblock(size_blocks=100 * GIB // 4096))
    fs = with_inodes_used(INODES, stack=known(disk(size_sectors=sectors)), superblock=own)
    (finding,) = verdict(fs).findings
    assert says in finding.remedies[1].summary


REMEDIES_NOT_RUN = (
    "Which files go is for people to say, and inodes cannot be added in place: the remedies are "
    "advice without commands."
)

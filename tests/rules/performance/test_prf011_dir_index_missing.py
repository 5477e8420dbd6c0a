"""PRF011: directories without an index."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf011_dir_index_missing import check
from support.builders import GIB, disk, filesystem, known, mount, superblock, unknown
from support.filesystems.scratch import run_shell
from support.judging import only_finding, verdict_on
from support.remedies.case import LoopMount, RemedyCase

EXT4_FEATURES = frozenset({"has_journal", "extent", "metadata_csum"})


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def without_index(
    features: frozenset[str] = EXT4_FEATURES, *, gib: int = 100, **changes: Any
) -> Filesystem:
    """Build a filesystem of this size without dir_index."""
    facts = superblock(features=features, size_blocks=gib * GIB // 4096)
    return filesystem(**{"superblock": known(facts, "dumpe2fs -h /dev/sda"), **changes})


def commands(finding: Finding, which: int, phase: Phase) -> list[str]:
    """Return a remedy's commands of one phase."""
    return [step.command for step in finding.remedies[which].lines if step.phase is phase]


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(without_index(EXT4_FEATURES | {"dir_index"}), Outcome.PASS, id="there"),
        pytest.param(
            without_index(EXT4_FEATURES | {"dir_index"}, gib=1), Outcome.PASS, id="there, small"
        ),
        pytest.param(without_index(), Outcome.FAIL, id="ext4"),
        pytest.param(without_index(frozenset({"has_journal"})), Outcome.FAIL, id="ext3"),
        pytest.param(without_index(alive=False, mounts=()), Outcome.FAIL, id="not mounted"),
        pytest.param(
            without_index(frozenset({"ext_attr"})), Outcome.NOT_APPLICABLE, id="ext2 never had it"
        ),
        pytest.param(without_index(gib=1), Outcome.NOT_APPLICABLE, id="/boot is small"),
        pytest.param(
            filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED, id="needs root"
        ),
        pytest.param(
            filesystem(
                superblock=known(superblock(features=EXT4_FEATURES, block_bytes=None)),
                stack=unknown("stack"),
            ),
            Outcome.UNDETERMINED,
            id="size unread",
        ),
        pytest.param(
            filesystem(
                superblock=known(superblock(features=EXT4_FEATURES, block_bytes=None)),
                stack=known(disk()),
            ),
            Outcome.FAIL,
            id="size of the device",
        ),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Large ext3 and ext4 filesystems should have the feature."""
    assert verdict_of(fs).outcome is outcome


def test_online_remedy_indexes_new_directories() -> None:
    """The feature is set while mounted, which the kernel does not allow for clearing it."""
    finding = finding_of(without_index())
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.CONFIRMED)
    assert "100 GiB" in finding.message
    assert commands(finding, 0, Phase.PERSISTENT) == ["tune2fs -O dir_index /dev/sda"]
    assert commands(finding, 0, Phase.ROLLBACK) == [
        (
            "umount /data && test ! -e /sys/fs/ext4/sda && { e2fsck -f -p /dev/sda || "
            "test $? -eq 1; } && test ! -e /sys/fs/ext4/sda && tune2fs -O ^dir_index /dev/sda && "
            "{ e2fsck -f -p /dev/sda || test $? -eq 1; } && "
            "mount -t ext4 -o rw,relatime /dev/sda /data"
        )
    ]
    assert finding.remedies[0].disruption is Disruption.ONLINE


def test_offline_remedy_indexes_all_directories() -> None:
    """The indexes cannot be removed again, so there is no rollback."""
    finding = finding_of(without_index())
    unmount, index, again = commands(finding, 1, Phase.IMMEDIATE)
    assert (unmount, again) == (
        "umount /data",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
    )
    assert index == (
        "test ! -e /sys/fs/ext4/sda && tune2fs -O dir_index /dev/sda && "
        "{ e2fsck -f -p -D /dev/sda || test $? -eq 1; }"
    )
    assert commands(finding, 1, Phase.ROLLBACK) == []
    assert finding.remedies[1].disruption is Disruption.UNMOUNT


def test_root_remedy_requires_a_rescue_system() -> None:
    """It can be unmounted neither for indexing nor for the rollback."""
    finding = finding_of(without_index(mounts=(mount("/"),)))
    assert [remedy.steps for remedy in finding.remedies] == [(), ()]
    assert "rescue system" in finding.remedies[1].summary


# The feature is set while mounted; e2fsck -D indexes existing directories.
ONLINE, ALL = "grow from now on", "index all existing directories"
WITHOUT = ("-O", "^dir_index")


def create_large_directory(loop_mount: LoopMount) -> None:
    """Create a directory of many blocks without an index."""
    folder = loop_mount.mount_point / "many"
    folder.mkdir()
    run_shell(f"cd '{folder}' && seq -f a_rather_long_name_that_fills_blocks_%g 2000 | xargs touch")


REMEDY_CASES = (
    RemedyCase(
        "online",
        ONLINE,
        mke2fs=WITHOUT,
        size="2G",
        fstab="defaults",
        prepare=create_large_directory,
    ),
    RemedyCase("online, ext3", ONLINE, mke2fs=WITHOUT, size="2G", mkfs_type="ext3"),
    RemedyCase(
        "all directories",
        ALL,
        mke2fs=WITHOUT,
        size="2G",
        prepare=create_large_directory,
        restores=False,
    ),
    RemedyCase("not mounted", ALL, mke2fs=WITHOUT, size="2G", mounted=False, restores=False),
)

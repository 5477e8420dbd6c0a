"""LAY005: properties that a tiny filesystem keeps when it grows."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.layout.lay005_grown_from_tiny import check
from support.builders import GIB, disk, filesystem, host, known, superblock, unknown, usage

MIB = 1 << 20
NO_ROOT = unknown("superblock")


def verdict(fs: Filesystem) -> Verdict:
    """Judge a filesystem."""
    return judge(check, fs, host(fs))


def with_shape(
    size_gib: int = 200,
    *,
    block_bytes: int = 4096,
    per_inode: int = 16384,
    journal_mib: int | None = 1024,
    **changes: Any,
) -> Filesystem:
    """Build a filesystem of this shape, as reported by its superblock and the kernel."""
    blocks, inodes = size_gib * GIB // block_bytes, size_gib * GIB // per_inode
    held = superblock(
        block_bytes=block_bytes,
        size_blocks=blocks,
        inode_count=inodes,
        journal_bytes=journal_mib * MIB if journal_mib is not None else None,
        features=changes.pop("features", superblock().features),
    )
    reported = usage(
        block_bytes=block_bytes, size_blocks=blocks, free_blocks=blocks // 2, inodes=inodes
    )
    values: dict[str, Any] = {
        "superblock": known(held),
        "usage": known(reported),
        "stack": known(disk(size_sectors=known(size_gib * GIB // 512))),
    }
    values.update(changes)
    return filesystem(**values)


TINY_SHAPE = {"block_bytes": 1024, "per_inode": 4096, "journal_mib": 8}
OUTCOMES = {
    "the default": (with_shape(), Outcome.PASS),
    "the default, without root": (with_shape(superblock=NO_ROOT), Outcome.PASS),
    "the default, not mounted": (
        with_shape(usage=unknown("usage"), alive=False, mounts=()),
        Outcome.PASS,
    ),
    "grown from 400 MB": (with_shape(**TINY_SHAPE), Outcome.FAIL),
    "grown from 400 MB, without root": (with_shape(**TINY_SHAPE, superblock=NO_ROOT), Outcome.FAIL),
    "grown from 400 MB, not mounted": (
        with_shape(**TINY_SHAPE, usage=unknown("usage"), alive=False, mounts=()),
        Outcome.FAIL,
    ),
    "blocks and journal": (with_shape(block_bytes=1024, journal_mib=8), Outcome.FAIL),
    "inodes and journal": (with_shape(per_inode=8192, journal_mib=8), Outcome.FAIL),
    "a mail spool": (with_shape(per_inode=4096), Outcome.PASS),
    "small blocks alone": (with_shape(block_bytes=1024, journal_mib=256), Outcome.PASS),
    "a cloud image that grew": (with_shape(journal_mib=64), Outcome.PASS),
    "dense on 64 GiB": (with_shape(64, per_inode=4096, journal_mib=8), Outcome.PASS),
    "dense on 65 GiB": (with_shape(65, per_inode=4096, journal_mib=8), Outcome.FAIL),
    "17 GiB": (with_shape(17, block_bytes=1024, journal_mib=8), Outcome.PASS),
    "denser than an inode for 8 KiB": (with_shape(per_inode=8193, journal_mib=8), Outcome.PASS),
    "no journal": (with_shape(per_inode=4096, features=frozenset()), Outcome.PASS),
    "16 GiB": (with_shape(16, **TINY_SHAPE), Outcome.NOT_APPLICABLE),
    "16 GiB, without root": (with_shape(16, superblock=NO_ROOT), Outcome.NOT_APPLICABLE),
    "one clue, journal not seen": (
        with_shape(per_inode=4096, superblock=NO_ROOT),
        Outcome.UNDETERMINED,
    ),
    "nothing seen": (with_shape(superblock=NO_ROOT, usage=unknown("usage")), Outcome.UNDETERMINED),
}


@pytest.mark.parametrize(("fs", "outcome"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_lay005_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Two of three clues are a finding; the first two are visible without root."""
    assert verdict(fs).outcome is outcome


@pytest.mark.parametrize(
    ("size_gib", "severity"),
    [(200, Severity.MEDIUM), (1024, Severity.MEDIUM), (1025, Severity.HIGH)],
)
def test_lay005_severity_of_small_blocks_by_size(size_gib: int, severity: Severity) -> None:
    """Small blocks limit how far the filesystem can grow."""
    (finding,) = verdict(with_shape(size_gib, **TINY_SHAPE)).findings
    assert finding.severity is severity


def test_lay005_message_and_citations() -> None:
    """The message has the clues, and the evidence has the numbers."""
    (finding,) = verdict(with_shape(**TINY_SHAPE)).findings
    assert finding.message == (
        "The filesystem was probably created tiny and then grown: 1 KiB blocks, an inode per "
        "8 KiB or less, a small journal on 200 GiB waste space and slow it down."
    )
    values = {citation.label: citation.value for citation in finding.citations}
    assert values["inodes"] == "52428800, one per 4096 bytes; their tables take 12.5 GiB"


@pytest.mark.parametrize(
    ("fs", "remedies"),
    [
        (with_shape(**TINY_SHAPE), [Disruption.RECREATE, Disruption.UNMOUNT]),
        (
            with_shape(block_bytes=1024, per_inode=4096, journal_mib=256),
            [Disruption.RECREATE],
        ),
    ],
    ids=["small journal", "usual journal"],
)
def test_lay005_only_the_journal_has_commands(fs: Filesystem, remedies: list[Disruption]) -> None:
    """Blocks and inodes need mkfs, which is advised without commands."""
    (finding,) = verdict(fs).findings
    assert [remedy.disruption for remedy in finding.remedies] == remedies
    assert finding.remedies[0].steps == ()
    assert finding.remedies[0].destructive


REMEDIES_NOT_RUN = (
    "To recreate a filesystem is advice, and PRF009 has the commands for the journal."
)

"""PRF009: a journal that is too small because it did not grow with its filesystem."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.performance.prf009_journal_undersized import check
from support.builders import GIB, disk, filesystem, host, known, superblock, unknown, usage
from support.remedies.case import RemedyCase

MIB = 1 << 20


def verdict(fs: Filesystem) -> Verdict:
    """Judge a filesystem."""
    return judge(check, fs, host(fs))


def sized(journal_mib: int | None, size_gib: int = 100, **changes: Any) -> Filesystem:
    """Build a filesystem of this size with a journal of this size."""
    held = superblock(
        journal_bytes=journal_mib * MIB if journal_mib is not None else None,
        size_blocks=size_gib * GIB // 4096,
        journal_device=changes.pop("journal_device", None),
        features=changes.pop("features", superblock().features),
    )
    device = disk(size_sectors=known(size_gib * GIB // 512))
    return filesystem(superblock=known(held), stack=known(device), **changes)


OUTCOMES = {
    "the default": (sized(512), Outcome.PASS),
    "the default of mke2fs 1.42 at 1 TiB": (sized(128, 1024), Outcome.PASS),
    "a cloud image at 100 GiB": (sized(64), Outcome.PASS),
    "a cloud image at 200 GiB": (sized(64, 200), Outcome.FAIL),
    "made tiny": (sized(8), Outcome.FAIL),
    "20 GiB": (sized(4, 20), Outcome.NOT_APPLICABLE),
    "small, without root": (
        filesystem(superblock=unknown("superblock"), stack=known(disk(size_sectors=known(2048)))),
        Outcome.NOT_APPLICABLE,
    ),
    "small on a device of unknown size": (
        filesystem(superblock=sized(4, 10).superblock, stack=unknown("stack")),
        Outcome.NOT_APPLICABLE,
    ),
    "no journal": (sized(None, features=frozenset()), Outcome.NOT_APPLICABLE),
    "another device": (sized(None, journal_device=0x0811), Outcome.NOT_APPLICABLE),
    "read-only": (sized(8, read_only=known(value=True)), Outcome.NOT_APPLICABLE),
    "the default, read-only": (sized(512, read_only=known(value=True)), Outcome.PASS),
    "not mounted": (
        sized(8, alive=False, mounts=(), read_only=unknown("read-only")),
        Outcome.FAIL,
    ),
    "size not seen": (sized(None), Outcome.UNDETERMINED),
    "no superblock": (filesystem(superblock=unknown("superblock")), Outcome.UNDETERMINED),
}


@pytest.mark.parametrize(("fs", "outcome"), OUTCOMES.values(), ids=OUTCOMES.keys())
def test_prf009_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """Under an eighth of the usual journal size, on over 20 GiB, is a low finding."""
    judged = verdict(fs)
    assert judged.outcome is outcome
    assert all(finding.severity is Severity.LOW for finding in judged.findings)


def remedy_of(fs: Filesystem) -> Remedy:
    """Return the remedy of a filesystem."""
    (finding,) = verdict(fs).findings
    (remedy,) = finding.remedies
    return remedy


def test_prf009_commands_replace_the_journal() -> None:
    """If the new journal does not fit, the same command recreates the old one."""
    remedy = remedy_of(sized(8, fstab=known(())))
    take_out = "test ! -e /sys/fs/ext4/sda && tune2fs -O ^has_journal /dev/sda && "
    larger = "{ tune2fs -J size=512 /dev/sda || tune2fs -J size=8 /dev/sda; }"
    smaller = "{ tune2fs -J size=8 /dev/sda || tune2fs -J size=512 /dev/sda; }"
    commands = [(s.phase, s.command) for s in remedy.lines if "tune2fs" in s.command]
    assert commands == [
        (Phase.IMMEDIATE, take_out + larger),
        (Phase.ROLLBACK, take_out + smaller),
    ]


@pytest.mark.parametrize(
    "room", [known(usage(free_blocks=1024 * MIB // 4096 - 1)), unknown("usage")]
)
def test_no_command_if_the_journal_may_not_fit_again(room: Any) -> None:
    """tune2fs creates no journal larger than half of the free space."""
    remedy = remedy_of(sized(8, usage=room))
    assert remedy.steps == ()
    assert "as soon as 1024 MiB are free" in remedy.summary


def test_no_rollback_with_fast_commit() -> None:
    """The journal size that dumpe2fs prints includes the fast-commit area of unknown size."""
    features = superblock().features | {"fast_commit"}
    lines = remedy_of(sized(8, features=features)).lines
    assert lines
    assert all(line.phase is not Phase.ROLLBACK for line in lines)


def test_advice_only_in_another_namespace() -> None:
    """The processes in that namespace must unmount it first."""
    assert "mount namespace" in remedy_of(sized(8, mounts=())).summary


# The journal is replaced by a larger one, and the small one is restored.
REMEDY = "Replace the journal"
REMEDY_CASES = (
    RemedyCase(
        name="mounted",
        remedy=REMEDY,
        mke2fs=("-J", "size=4"),
        size="21G",
        fstab="noatime",
        mount="noatime",
    ),
    RemedyCase(
        name="not mounted, with an orphan file",
        remedy=REMEDY,
        mke2fs=("-J", "size=8", "-O", "orphan_file"),
        size="21G",
        mounted=False,
    ),
    RemedyCase(
        name="fast commits, whose journal cannot be made the same again",
        remedy=REMEDY,
        mke2fs=("-J", "size=8", "-O", "fast_commit"),
        size="21G",
        mounted=False,
        restores=False,
    ),
)

"""PRF006: inode tables that are not zeroed yet."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Finding, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf006_lazy_init_running import check
from support.builders import filesystem, host, known, options, unknown
from support.remedies.case import RemedyCase


def with_uninitialized_groups(groups: int, *tokens: str, **changes: Any) -> Filesystem:
    """Build a filesystem with this many groups to be zeroed."""
    return filesystem(unzeroed_groups=known(groups), options=known(options(*tokens)), **changes)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_uninitialized_groups(0), Outcome.PASS),
        (with_uninitialized_groups(1), Outcome.PASS),
        (with_uninitialized_groups(2), Outcome.FAIL),
        (with_uninitialized_groups(500, "noinit_itable"), Outcome.FAIL),
        (with_uninitialized_groups(500, alive=False), Outcome.NOT_APPLICABLE),
        (with_uninitialized_groups(500, read_only=known(value=True)), Outcome.NOT_APPLICABLE),
        (with_uninitialized_groups(500, read_only=unknown("read-only")), Outcome.UNDETERMINED),
        (filesystem(unzeroed_groups=unknown("groups")), Outcome.UNDETERMINED),
    ],
    ids="none last two stopped unmounted read-only state-unknown not-read".split(),
)
def test_prf006_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """A single remaining group is normal."""
    assert judge(check, fs, host(fs)).outcome is outcome


def found(fs: Filesystem) -> Finding:
    """Return the finding of a filesystem."""
    (finding,) = judge(check, fs, host(fs)).findings
    assert finding.severity is Severity.INFO
    return finding


def test_prf006_with_noinit_itable_does_not_wait() -> None:
    """With noinit_itable the kernel does not zero the tables."""
    assert "the kernel is zeroing them" in found(with_uninitialized_groups(9)).message
    assert len(found(with_uninitialized_groups(9)).remedies) == 2
    assert found(with_uninitialized_groups(9)).summary == "the kernel is still zeroing inode tables"
    assert (
        "noinit_itable prevents it" in found(with_uninitialized_groups(9, "noinit_itable")).message
    )
    assert (
        found(with_uninitialized_groups(9, "noinit_itable")).summary
        == "inode tables are not zeroed yet"
    )
    assert len(found(with_uninitialized_groups(9, "noinit_itable")).remedies) == 1


def test_prf006_commands() -> None:
    """Zeroed tables stay zeroed, so there is no rollback."""
    steps = found(with_uninitialized_groups(9)).remedies[1].lines
    assert steps[0].command == "mount -o remount,rw,relatime,init_itable=0 /dev/sda /data"
    assert steps[1].command.startswith("while dumpe2fs /dev/sda ")
    assert [step.phase for step in steps] == [Phase.IMMEDIATE, Phase.IMMEDIATE, Phase.VERIFY]
    assert found(with_uninitialized_groups(9, mounts=())).remedies[1].steps == ()


# The kernel zeroes inode tables without pauses, which cannot be undone.
REMEDY = "without pauses"
LAZY = ("-E", "lazy_itable_init=1")
REMEDY_CASES = (
    RemedyCase(
        name="put off for ever",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="1G",
        mount="noinit_itable",
        restores=False,
    ),
    RemedyCase(
        name="put off by fstab",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="1G",
        mount="nosuid,noinit_itable",
        fstab="noinit_itable",
        restores=False,
    ),
    RemedyCase(
        name="slowed down",
        remedy=REMEDY,
        mke2fs=LAZY,
        size="2G",
        mount="init_itable=100000",
        restores=False,
    ),
)

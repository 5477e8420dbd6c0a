"""CAP006: a filesystem that is nearly full."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap006_near_full import check
from support.builders import filesystem, host, known, superblock, unknown, usage


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def with_percent_used(percent: float, **changes: Any) -> Filesystem:
    """Build a filesystem for which df shows this percentage; a twentieth is reserved."""
    total = 1_000_000
    reserve = total // 20
    available = int((total - reserve) * (1 - percent / 100))
    found = usage(size_blocks=total, free_blocks=available + reserve, available_blocks=available)
    return filesystem(**{"usage": known(found, "statfs"), **changes})


@pytest.mark.parametrize(
    ("fs", "outcome", "severity"),
    [
        (with_percent_used(50), Outcome.PASS, None),
        (with_percent_used(94.9), Outcome.PASS, None),
        (with_percent_used(95.1), Outcome.FAIL, Severity.LOW),
        (with_percent_used(99.1), Outcome.FAIL, Severity.MEDIUM),
        (with_percent_used(100), Outcome.FAIL, Severity.MEDIUM),
        # Images fill their filesystem to the last block.
        (with_percent_used(100, read_only=known(value=True)), Outcome.NOT_APPLICABLE, None),
        (with_percent_used(100, read_only=unknown("read-only")), Outcome.UNDETERMINED, None),
        (filesystem(usage=unknown("space in use")), Outcome.UNDETERMINED, None),
        (filesystem(alive=False, mounts=()), Outcome.NOT_APPLICABLE, None),
    ],
)
def test_cap006_outcomes(fs: Filesystem, outcome: Outcome, severity: Severity | None) -> None:
    """A share of 95 % is low and 99 % is medium, as df counts."""
    found = verdict(fs)
    assert found.outcome is outcome
    assert [finding.severity for finding in found.findings] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("available", "words"),
    [(500, "95 % full"), (485, "95.1 % full"), (101, "98.9 % full")],
)
def test_cap006_percentage_has_one_decimal(available: int, words: str) -> None:
    """The share is that of 10,000 blocks available to users, rounded down."""
    found = usage(size_blocks=10_000, free_blocks=available, available_blocks=available)
    (finding,) = verdict(filesystem(usage=known(found))).findings
    assert finding.message.startswith(f"The filesystem is {words} (")


@pytest.mark.parametrize(
    ("available", "severity"),
    [(51, None), (50, Severity.LOW), (11, Severity.LOW), (10, Severity.MEDIUM)],
)
def test_cap006_thresholds_are_inclusive(available: int, severity: Severity | None) -> None:
    """Both thresholds are inclusive."""
    found = usage(size_blocks=1000, free_blocks=available, available_blocks=available)
    findings = verdict(filesystem(usage=known(found))).findings
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_cap006_message_has_the_space_left() -> None:
    """The message has df's share and the space left for users."""
    (finding,) = verdict(with_percent_used(96)).findings
    assert finding.message.startswith("The filesystem is 96 % full (148.4 MiB left)")
    (finding,) = verdict(with_percent_used(100)).findings
    assert finding.message == "The filesystem is full: only root can write."
    assert finding.summary == "no space left"


@pytest.mark.parametrize(
    ("reserved", "who", "remedies"),
    [(None, "only root", 3), (50_000, "only root", 3), (10_000, "only root", 2), (0, "nobody", 2)],
)
def test_cap006_does_not_enlarge_the_reserve(reserved: int | None, who: str, remedies: int) -> None:
    """With -m 0, as CSI drivers format, root's writes fail as well; -m 1 would take 1 %."""
    held = known(superblock(size_blocks=1_000_000, reserved_blocks=reserved))
    (finding,) = verdict(with_percent_used(100, superblock=held)).findings
    assert finding.message == f"The filesystem is full: {who} can write."
    assert len(finding.remedies) == remedies


REMEDIES_NOT_RUN = (
    "What is deleted, moved or bought is for people to say: the remedies have no commands."
)

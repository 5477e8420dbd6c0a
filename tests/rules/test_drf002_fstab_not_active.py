"""DRF002: what fstab asks for and does not get."""

from __future__ import annotations

from typing import Any

import pytest

from builders import filesystem, fstab_entry, host, kernel, known, mount, options, unknown
from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.host import Filesystem
from ext4audit.facts.kernel import Kernel
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drf002_fstab_not_active import check


def verdict(fs: Filesystem) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs))


def asked(*fstab: str, live: tuple[str, ...] = (), **changes: Any) -> Filesystem:
    """Build a filesystem for which fstab asks `fstab` while `live` is in force."""
    return filesystem(options=known(options(*live)), fstab=known((fstab_entry(*fstab),)), **changes)


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (asked("defaults"), Outcome.PASS),
        (asked("noatime", mounts=(mount(flags=("rw", "noatime")),)), Outcome.PASS),
        (asked("barrier=1", "data=ordered", "delalloc"), Outcome.PASS),
        (asked("nobarrier", live=("nobarrier",)), Outcome.PASS),
        (asked("noload", live=("norecovery",)), Outcome.PASS),
        (asked("nofail", "_netdev", "x-systemd.device-timeout=30s"), Outcome.PASS),
        (asked("usrquota", "stripe=0", "errors=remount-ro"), Outcome.PASS),
        (asked("nobarrier"), Outcome.FAIL),
        (asked("data=writeback"), Outcome.FAIL),
        (asked("nodelalloc"), Outcome.FAIL),
        (asked("noload"), Outcome.FAIL),
        (asked("noatime"), Outcome.FAIL),
        (asked("nosuid"), Outcome.FAIL),
        (asked("nobh"), Outcome.FAIL),
        (asked("nobarrier", mounts=()), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=known(())), Outcome.NOT_APPLICABLE),
        (filesystem(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
    ],
)
def test_drf002_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """An intention that is in force, however it is spelt, is no drift."""
    assert verdict(fs).outcome is outcome


def test_drf002_does_not_guess_what_it_cannot_see() -> None:
    """Without the options file an option that fstab asks for may or may not be in force."""
    fs = filesystem(
        options=known(options(complete=False)), fstab=known((fstab_entry("nobarrier"),))
    )
    found = verdict(fs)
    assert found.outcome is Outcome.UNDETERMINED
    assert found.unknowns


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("nobarrier", Severity.MEDIUM),
        ("noexec", Severity.MEDIUM),
        ("commit=60", Severity.LOW),
        ("noatime", Severity.LOW),
        ("nobh", Severity.INFO),
    ],
)
def test_drf002_severity(word: str, severity: Severity) -> None:
    """What other rules judge is medium, the rest low, and a word that ext4 ignores is info."""
    (finding,) = verdict(asked(word)).findings
    assert finding.severity is severity


def test_drf002_does_not_put_a_dangerous_option_in_force() -> None:
    """Where fstab asks for nobarrier and barriers are on, only fstab is to be corrected."""
    (finding,) = verdict(asked("nobarrier")).findings
    (remedy,) = finding.remedies
    assert "say what runs" in remedy.summary


def test_drf002_offers_no_remount_for_a_data_mode() -> None:
    """Every kernel refuses to change data= by remount: only fstab can be corrected."""
    (finding,) = verdict(asked("data=writeback")).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.steps]
    assert commands
    assert not any("remount" in command for command in commands)


@pytest.mark.parametrize(
    ("evidence", "offered"),
    [
        (known(kernel("4.18.0-553.el8_10.x86_64")), True),
        (known(kernel("6.12.95+deb12-amd64")), True),
        (known(kernel("6.13.0")), False),
        (known(kernel("7.2.13+deb14-amd64")), False),
        (unknown("kernel release"), False),
    ],
)
def test_drf002_offers_a_remount_to_nodelalloc_where_the_kernel_takes_it(
    evidence: Evidence[Kernel], offered: bool
) -> None:
    """7.2 answers such a remount with EINVAL, 6.12 does as it is told (both booted)."""
    fs = asked("nodelalloc")
    (finding,) = judge(check, fs, host(fs, kernel=evidence)).findings
    commands = [step.command for remedy in finding.remedies for step in remedy.steps]
    assert commands
    assert any(command == "mount -o remount /data" for command in commands) is offered

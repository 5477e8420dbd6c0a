"""DRF002: what fstab asks for and does not get."""

from __future__ import annotations

from typing import Any

import pytest

from builders import filesystem, fstab_entry, host, known, mount, options, unknown
from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
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

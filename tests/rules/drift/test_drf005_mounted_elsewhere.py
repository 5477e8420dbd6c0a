"""DRF005: a filesystem mounted in another mount namespace."""

from __future__ import annotations

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Host
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf005_mounted_elsewhere import check
from support.builders import filesystem, host, known, mount, unknown


def verdict(on: Host) -> Verdict:
    """Judge the only filesystem of a host."""
    return judge(check, on.filesystems[0], on)


HIDDEN = filesystem(mounts=(), fstype=known("ext4", "/proc/42/mountinfo"))
UNSEEN = filesystem(mounts=(), fstype=unknown("filesystem type"))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (host(filesystem()), Outcome.PASS),
        (host(filesystem(mounts=(mount(root="/sub"),))), Outcome.PASS),
        (host(HIDDEN), Outcome.FAIL),
        (host(UNSEEN), Outcome.FAIL),
        (host(HIDDEN, mounts=unknown("mount table")), Outcome.UNDETERMINED),
        (host(filesystem(alive=False, mounts=())), Outcome.NOT_APPLICABLE),
        # A container sees every filesystem of the host in /sys, but none of their mounts.
        (host(HIDDEN, container="docker"), Outcome.NOT_APPLICABLE),
    ],
)
def test_drf005_outcomes(on: Host, outcome: Outcome) -> None:
    """A filesystem that is active but not in the mount table is mounted elsewhere."""
    assert verdict(on).outcome is outcome


def test_drf005_message_has_the_device_number() -> None:
    """The mount table of each process is searched by device number, not by name."""
    (finding,) = verdict(host(HIDDEN, mounts=known((mount("/"),)))).findings
    assert finding.severity is Severity.INFO
    assert "grep -l ' 8:0 ' /proc/[0-9]*/mountinfo" in finding.remedies[0].summary
    assert finding.citations[1].value == "not among its 1 mounts"


def test_drf005_is_certain_only_if_a_mount_table_lists_it() -> None:
    """Without a mount table, a stale entry in the kernel's list or an open file looks the same."""
    (seen,), (unseen,) = (verdict(host(fs)).findings for fs in (HIDDEN, UNSEEN))
    assert (seen.confidence, unseen.confidence) == (Confidence.CONFIRMED, Confidence.POSSIBLE)
    assert seen.summary == "mounted in another mount namespace"
    assert unseen.summary == "active in the kernel, but in no readable mount table"
    assert seen.message.startswith("/dev/sda is mounted in another mount namespace")
    assert seen.citations[-1][:3] == ("mounted there as", "ext4", "/proc/42/mountinfo")
    assert "in no readable mount table" in unseen.message
    assert "or open files keep it active" in unseen.message


REMEDIES_NOT_RUN = (
    "Who has it mounted elsewhere is found by a command of the advice, which "
    "tests/kernel/targets/test_mounted_elsewhere.py runs; what to stop is for people to say."
)

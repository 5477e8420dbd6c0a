"""HLT005: md arrays that lack members or are resynchronizing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt005_array_degraded import check
from support.builders import disk, filesystem, host, known, md_state, raid, unknown


def array(
    level: str,
    disks: int,
    degraded: int | None,
    action: str | None = "idle",
    layout: int = -1,
) -> BlockDevice:
    """Build an array in this state."""
    members = [disk(f"vd{i}", DeviceNumber(253, i)) for i in range(disks)]
    made = raid(members, level=level, layout=layout)
    return replace(made, md_state=known(md_state(level, disks, degraded, action)))


def verdict(stack: Evidence[BlockDevice]) -> Verdict:
    """Judge a filesystem on a stack."""
    fs = filesystem(stack=stack)
    return judge(check, fs, host(fs))


@pytest.mark.parametrize(
    ("stack", "severity", "remedies"),
    [
        (array("raid5", 4, 1), Severity.HIGH, 1),
        (array("raid5", 4, 1, "recover"), Severity.HIGH, 0),
        (array("raid6", 6, 1), Severity.MEDIUM, 1),
        (array("raid6", 6, 2), Severity.HIGH, 1),
        # md stays up without them: drivers/md/raid5.c, raid5_calc_degraded() and has_failed().
        (array("raid5", 4, 2), Severity.CRITICAL, 1),
        (array("raid5", 4, 2, "recover"), Severity.CRITICAL, 1),
        (array("raid6", 6, 3), Severity.CRITICAL, 1),
        (array("raid10", 4, 1), Severity.HIGH, 1),
        (array("raid10", 4, 2), Severity.HIGH, 1),
        (array("raid10", 6, 1, layout=0x103), Severity.MEDIUM, 1),
        (array("raid10", 6, 1, layout=0x201), Severity.HIGH, 1),
        (array("raid10", 6, 2, layout=0x103), Severity.HIGH, 1),
        (array("raid1", 2, 1), Severity.HIGH, 1),
        (array("raid1", 12, 10), Severity.LOW, 1),
        (array("raid1", 32, 31), Severity.HIGH, 1),
        (array("raid1", 2, 0, "check"), Severity.INFO, 0),
        (array("raid5", 4, 0, "reshape"), Severity.INFO, 0),
    ],
)
def test_hlt005_severity_by_remaining_redundancy(
    stack: BlockDevice, severity: Severity, remedies: int
) -> None:
    """A storage appliance's mirror over empty bays is low; a running check is info."""
    (finding,) = verdict(known(stack)).findings
    assert finding.severity is severity
    assert len(finding.remedies) == remedies


@pytest.mark.parametrize(
    ("stack", "outcome"),
    [
        (known(array("raid5", 4, 0)), Outcome.PASS),
        (known(array("raid1", 24, 20)), Outcome.PASS),
        (known(array("raid5", 4, 0, "frozen")), Outcome.PASS),
        (known(array("raid0", 4, None, None)), Outcome.NOT_APPLICABLE),
        (known(disk()), Outcome.NOT_APPLICABLE),
        (known(array("raid5", 4, None)), Outcome.UNDETERMINED),
        (known(array("raid5", 4, 0, None)), Outcome.UNDETERMINED),
        (known(array("raid5", 4, 1, None)), Outcome.FAIL),
        (known(replace(array("raid5", 4, 0), md_state=unknown("md"))), Outcome.UNDETERMINED),
        (known(replace(array("raid5", 4, 0), md=unknown("md"))), Outcome.PASS),
        (known(replace(array("raid5", 4, 1), md=unknown("md"))), Outcome.FAIL),
        (unknown("stack"), Outcome.UNDETERMINED),
        (known(disk(kind="partition", below=unknown("disk"))), Outcome.UNDETERMINED),
    ],
)
def test_hlt005_outcomes(stack: Evidence[BlockDevice], outcome: Outcome) -> None:
    """An array without redundancy cannot be degraded, and an unread array does not pass."""
    assert verdict(stack).outcome is outcome


def test_hlt005_message_has_the_missing_members() -> None:
    """The message has the member counts of this array."""
    (finding,) = verdict(known(array("raid6", 6, 1, "recover"))).findings
    assert finding.message == (
        "md127 (raid6) lacks 1 of 6 members and is rebuilding: it survives one more "
        "failure, and reads are slower."
    )


def test_hlt005_does_not_add_members_to_an_array_that_has_failed() -> None:
    """Mdadm --add makes a spare of a member, and its data is then no longer used."""
    (finding,) = verdict(known(array("raid5", 4, 2))).findings
    assert finding.message == (
        "md127 (raid5) lacks 2 of 4 members: it has failed, data on them cannot be read, and "
        "writes fail."
    )
    (remedy,) = finding.remedies
    assert remedy.summary.startswith("Do not use mdadm --add")


@pytest.mark.parametrize(
    ("stack", "summary"),
    [
        (array("raid6", 6, 1), "the array lacks 1 member"),
        (array("raid6", 6, 2, "recover"), "the array lacks 2 members and is rebuilding"),
        (array("raid1", 2, 0, "check"), "the array is being checked"),
        (array("raid5", 4, 0, "reshape"), "the array is being reshaped"),
        (array("raid5", 4, 0, "new-action"), "the array is running new-action"),
    ],
)
def test_hlt005_summary_has_missing_members_and_sync_action(
    stack: BlockDevice, summary: str
) -> None:
    """A running rebuild needs no action, so the line must mention it."""
    (finding,) = verdict(known(stack)).findings
    assert finding.summary == summary


REMEDIES_NOT_RUN = "A failed disk is replaced by hand: its remedy is advice, without a command."

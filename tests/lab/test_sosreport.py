"""The archive that the real `sos` makes of a stack, audited elsewhere."""

from __future__ import annotations

import pytest

from ext4audit.api import audit_snapshot
from ext4audit.evidence import need
from ext4audit.report import Report, Verdict
from ext4audit.rules import all_rules
from lab.conftest import Guest


@pytest.fixture
def report(guest: Guest) -> Report:
    """Audit the archive that sos made in the guest."""
    assert "sosreport" in guest["sosreport"]["printed"]
    archive = guest.machine.results / "sosreport.tar.gz"
    return audit_snapshot(archive, rules=all_rules())


def verdict(report: Report, code: str) -> Verdict:
    """Return a rule's only verdict."""
    (found,) = [each for each in report.verdicts if each.rule.code == code]
    return found


def test_the_options_in_force_are_in_the_archive(report: Report) -> None:
    """Barriers that the superblock disables and no mount table shows are found off."""
    (fs,) = report.host.filesystems
    options = need(fs.options)
    assert need(options.token("delalloc")) == "nodelalloc"
    assert [option.token for option in options.hidden] == ["nobarrier"]
    (finding,) = verdict(report, "DUR001").findings
    assert (finding.severity.value, finding.confidence.value) == ("critical", "confirmed")


def test_the_stack_is_known_down_to_the_disks(report: Report) -> None:
    """The volume is on the array, and the array on four disks in slot order."""
    (fs,) = report.host.filesystems
    devices = need(fs.stack).walk()
    assert [device.kind for device in devices] == ["dm-linear", "raid0", *["disk"] * 4]


def test_the_hotspot_is_found_where_sos_dumped_the_descriptors(report: Report) -> None:
    """With `-k filesys.dumpe2fs=on` LAY001 knows each group, and where the volume starts."""
    (fs,) = report.host.filesystems
    assert fs.layout is not None
    layout = need(fs.layout)
    assert [member.bitmaps for member in layout.members] == [544, 0, 0, 0]
    found = verdict(report, "LAY001")
    assert (found.outcome.value, [one.severity.value for one in found.findings]) == (
        "fail",
        ["medium"],
    )

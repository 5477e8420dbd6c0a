"""DRF006: an ext4 entry of fstab that is not mounted."""

from __future__ import annotations

import pytest

from builders import filesystem, fstab_entry, host, known, mount, unknown
from ext4audit.engine import judge
from ext4audit.facts.host import Host
from ext4audit.facts.mount import FstabEntry
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drf006_fstab_entry_not_mounted import check


def verdict(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


def having(*entries: FstabEntry) -> Host:
    """Build a host with /data mounted and these fstab entries."""
    return host(filesystem(), fstab=known(entries))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        (having(fstab_entry()), Outcome.PASS),
        (having(fstab_entry(mount_point="/data/")), Outcome.PASS),
        (having(fstab_entry(mount_point="/srv")), Outcome.FAIL),
        (having(fstab_entry("nofail", mount_point="/srv")), Outcome.FAIL),
        (having(fstab_entry("noauto", mount_point="/srv")), Outcome.NOT_APPLICABLE),
        (having(fstab_entry(mount_point="/srv", fstype="auto")), Outcome.NOT_APPLICABLE),
        (having(fstab_entry("x-systemd.automount", mount_point="/srv")), Outcome.NOT_APPLICABLE),
        (having(), Outcome.NOT_APPLICABLE),
        (host(fstab=unknown("/etc/fstab")), Outcome.UNDETERMINED),
        (host(mounts=unknown("mount table")), Outcome.UNDETERMINED),
        (host(container="docker"), Outcome.NOT_APPLICABLE),
    ],
)
def test_drf006_outcomes(on: Host, outcome: Outcome) -> None:
    """What fstab wants at boot and the mount table lacks is a finding."""
    assert verdict(on).outcome is outcome


def test_drf006_has_no_command_for_a_device_that_is_not_here() -> None:
    """`mount` cannot cure a disk that is absent: no command is printed."""
    gone = fstab_entry(mount_point="/srv", number=unknown("device UUID=…"))
    (finding,) = verdict(having(gone)).findings
    assert finding.remedies == ()


def test_drf006_mounts_another_filesystem_over_the_place_is_mounted() -> None:
    """Whatever is mounted there: the directory below is not written into."""
    other = filesystem(mounts=(mount("/srv"),))
    assert verdict(host(other, fstab=known((fstab_entry(mount_point="/srv"),)))).outcome is (
        Outcome.PASS
    )

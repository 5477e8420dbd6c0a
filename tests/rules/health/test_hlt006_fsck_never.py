"""HLT006: filesystems that nothing ever checks."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Why
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabEntry
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.health.hlt006_fsck_never import check
from support.builders import filesystem, fstab_entry, host, known, superblock, unknown


def entry(number: int, *words: str, mount_point: str = "/data") -> FstabEntry:
    """Build an fstab entry with this sixth field."""
    made = fstab_entry(*words, mount_point=mount_point)
    return made._replace(line=made.line._replace(fsck_pass=number))


def with_entries(*entries: FstabEntry, **given: Any) -> Filesystem:
    """Build a filesystem with these entries, and these superblock fields."""
    fields = {"max_mount_count": -1, "check_interval_seconds": 0, **given}
    return filesystem(fstab=known(entries), superblock=known(superblock(**fields)))


def verdict(fs: Filesystem, **changes: Any) -> Verdict:
    """Judge a filesystem."""
    on: Host = host(fs, **changes)
    return judge(check, fs, on)


NO_SUPERBLOCK = {"superblock": unknown("superblock")}


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        (with_entries(entry(2)), Outcome.PASS),
        (with_entries(entry(0)), Outcome.FAIL),
        (with_entries(entry(0), max_mount_count=0), Outcome.FAIL),
        (with_entries(entry(0), max_mount_count=30), Outcome.PASS),
        (with_entries(entry(0), check_interval_seconds=86400), Outcome.PASS),
        (with_entries(entry(0, mount_point="/")), Outcome.NOT_APPLICABLE),
        (with_entries(entry(0, "bind", mount_point="/srv")), Outcome.NOT_APPLICABLE),
        (with_entries(entry(0, "noauto")), Outcome.NOT_APPLICABLE),
        (with_entries(), Outcome.NOT_APPLICABLE),
        (with_entries(entry(0), max_mount_count=None), Outcome.UNDETERMINED),
        (filesystem(fstab=known((entry(2),)), **NO_SUPERBLOCK), Outcome.PASS),
        (filesystem(fstab=known((entry(0),)), **NO_SUPERBLOCK), Outcome.UNDETERMINED),
        (filesystem(fstab=unknown("fstab")), Outcome.UNDETERMINED),
    ],
    ids=(
        "default never never-by-zero by-mounts by-time root bind noauto no-entry not-stated "
        "by-fstab not-read no-fstab"
    ).split(),
)
def test_hlt006_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """It passes if the boot checks it, or if the superblock sets a limit for checks."""
    judged = verdict(fs)
    assert judged.outcome is outcome
    assert all(finding.severity is Severity.INFO for finding in judged.findings)


@pytest.mark.parametrize("field", ["max_mount_count", "check_interval_seconds"])
def test_hlt006_unread_check_limit_is_undetermined(field: str) -> None:
    """Both fields are needed, and root can read both."""
    (gap,) = verdict(with_entries(entry(0), **{field: None})).unknowns
    assert (gap.what, gap.why) == ("when to check", Why.NOT_CAPTURED)


def test_hlt006_does_not_apply_in_a_container() -> None:
    """A container's fstab is not the host's."""
    assert verdict(with_entries(entry(0)), container="docker").outcome is Outcome.NOT_APPLICABLE


def test_hlt006_does_not_apply_to_unmounted_filesystems() -> None:
    """An unmounted filesystem is not judged."""
    fs = filesystem(alive=False, mounts=(), fstab=unknown("fstab"))
    assert verdict(fs).outcome is Outcome.NOT_APPLICABLE


def test_hlt006_names_the_fstab_line() -> None:
    """The remedy is a field of fstab, to be edited by hand."""
    (finding,) = verdict(with_entries(entry(0))).findings
    assert finding.remedies[0].summary == "Set the sixth field of line 7 of /etc/fstab to 2."
    both = with_entries(entry(0), entry(0)._replace(line=entry(0).line._replace(line_number=9)))
    (finding,) = verdict(both).findings
    assert finding.remedies[0].summary.startswith("Set the sixth field of line 7 and line 9 of ")


REMEDIES_NOT_RUN = "The sixth field of fstab is changed by hand: advice without commands."

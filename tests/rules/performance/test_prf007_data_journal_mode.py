from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import Provenance
from ext4audit.finding import Disruption, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf007_data_journal_mode import check
from support.builders import filesystem, fstab_entry, known, mount, options, unknown
from support.judging import only_finding, verdict_on
from support.remedies.case import RemedyCase

JOURNAL = "data=journal"


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def with_data_journal(place: str = "/data", **changes: Any) -> Filesystem:
    """Build a filesystem with data=journal in force, which its fstab entry also sets."""
    values = {"fstab": known((fstab_entry(JOURNAL, mount_point=place),)), **changes}
    values.setdefault("mounts", (mount(place),))
    return filesystem(options=known(options(JOURNAL)), **values)


@pytest.mark.parametrize(
    ("place", "severity"),
    [
        ("/data", Severity.LOW),
        ("/", Severity.LOW),
        ("/var/lib/mysql", Severity.MEDIUM),
    ],
)
def test_severity_by_mount_point(place: str, severity: Severity) -> None:
    """A mail spool, for which the mode was chosen, is at most low."""
    assert finding_of(with_data_journal(place)).severity is severity


def test_read_only_mount_is_info() -> None:
    """Nothing is written twice."""
    assert finding_of(with_data_journal(read_only=known(value=True))).severity is Severity.INFO


@pytest.mark.parametrize("token", ["data=ordered", "data=writeback"])
def test_other_modes_pass(token: str) -> None:
    """Writeback is for DUR003 to judge."""
    assert verdict_of(filesystem(options=known(options(token)))).outcome is Outcome.PASS


def test_nodelalloc_alone_passes() -> None:
    """The mode turns delayed allocation off, but it can be off without the mode."""
    fs = filesystem(options=known(options("nodelalloc", "nodioread_nolock")))
    assert verdict_of(fs).outcome is Outcome.PASS


@pytest.mark.parametrize("evidence", [unknown("options"), known(options(complete=False))])
def test_option_missing_from_the_mount_table_is_undetermined(evidence: Any) -> None:
    """The unread superblock may set the mode."""
    assert verdict_of(filesystem(options=evidence)).outcome is Outcome.UNDETERMINED


def test_unmounted_filesystem_is_not_applicable() -> None:
    """A filesystem has options in force only while the kernel has it mounted."""
    assert verdict_of(filesystem(alive=False, mounts=())).outcome is Outcome.NOT_APPLICABLE


def test_remedy_does_not_repeat_the_implied_nodelalloc() -> None:
    """The mount table also shows the implied nodelalloc, which would stay if it were repeated."""
    shown = ("rw", "nodelalloc", "nodioread_nolock", JOURNAL, "commit=30")
    found = options(JOURNAL, "nodelalloc", "nodioread_nolock", "commit=30", mount_table=shown)
    implied = tuple(
        option._replace(set_by=Provenance.IMPLIED) if option.token.startswith("no") else option
        for option in found.options
    )
    fs = with_data_journal(fstab=known(()), mounts=(mount(super_options=shown),))
    fs = fs._replace(options=known(found._replace(options=implied)))
    (remedy,) = finding_of(fs).remedies
    immediate = [step.command for step in remedy.lines if step.phase is Phase.IMMEDIATE]
    assert immediate == [
        "umount /data",
        "mount -t ext4 -o rw,relatime,commit=30 /dev/sda /data",
    ]
    assert remedy.disruption is Disruption.UNMOUNT


# From data=journal back to data=ordered, with the options that the mode had turned off.
SUMMARY = "Mount with data=ordered"

REMEDY_CASES = (
    RemedyCase(
        name="by fstab", remedy=SUMMARY, fstab="noatime,data=journal", mount="noatime,data=journal"
    ),
    RemedyCase(
        name="by the superblock's bits",
        remedy=SUMMARY,
        tune=("-o", "journal_data"),
        mount="nosuid",
    ),
    RemedyCase(name="by hand", remedy=SUMMARY, mount="nosuid,data=journal"),
)

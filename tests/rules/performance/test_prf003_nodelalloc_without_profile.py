"""PRF003: delayed allocation is off, although no profile demands that."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ext4audit.facts.host import ActiveProfile, Filesystem, Profile
from ext4audit.facts.mount import Provenance
from ext4audit.finding import Confidence, Disruption, Severity
from ext4audit.report import Outcome
from ext4audit.rules.performance.prf003_nodelalloc_without_profile import check
from support.builders import filesystem, fstab_entry, known, mount, options, unknown
from support.judging import verdict_on
from support.remedies.case import RemedyCase
from support.remedies.shell import RemedyShell
from support.remedies.steps_as_text import step_lines

TIDB = Profile("tidb", "TiDB", "nodelalloc is mandatory", "the vendor", options=("nodelalloc",))


verdict_of = partial(verdict_on, check)


def with_options(*tokens: str, **how: Any) -> Filesystem:
    """Build a filesystem mounted with these options."""
    return filesystem(options=known(options(*tokens, **how)))


def without_data_mode(**how: Any) -> Filesystem:
    """Build a filesystem with nodelalloc, whose complete options file has no data= line."""
    seen = options("nodelalloc", **how)
    rest = tuple(option for option in seen.options if option.name != "data")
    return filesystem(options=known(type(seen)(seen.source, True, rest, ("rw", "nodelalloc"))))


@pytest.mark.parametrize(
    ("fs", "outcome"),
    [
        pytest.param(filesystem(), Outcome.PASS, id="defaults"),
        pytest.param(with_options("delalloc", complete=False), Outcome.PASS, id="shown on"),
        pytest.param(with_options("nodelalloc"), Outcome.FAIL, id="nodelalloc"),
        pytest.param(with_options(hidden=("nodelalloc",)), Outcome.FAIL, id="hidden"),
        pytest.param(without_data_mode(), Outcome.FAIL, id="no journal"),
        pytest.param(
            without_data_mode(set_by=Provenance.IMPLIED),
            Outcome.FAIL,
            id="journal_data, no journal",
        ),
        pytest.param(
            with_options("nodelalloc", "data=journal"), Outcome.NOT_APPLICABLE, id="data=journal"
        ),
        pytest.param(
            with_options("nodelalloc", set_by=Provenance.IMPLIED),
            Outcome.NOT_APPLICABLE,
            id="implied",
        ),
        pytest.param(
            with_options("nodelalloc", "data=ordered", complete=False),
            Outcome.FAIL,
            id="a mount table that shows both",
        ),
        pytest.param(
            with_options("nodelalloc", complete=False),
            Outcome.UNDETERMINED,
            id="a mount table may hide data=journal",
        ),
        pytest.param(with_options(complete=False), Outcome.UNDETERMINED, id="not seen"),
        pytest.param(filesystem(options=unknown("options")), Outcome.UNDETERMINED, id="unread"),
        pytest.param(filesystem(fstype=known("ext3")), Outcome.NOT_APPLICABLE, id="ext3"),
        pytest.param(filesystem(fstype=unknown("type")), Outcome.UNDETERMINED, id="type unread"),
        pytest.param(filesystem(alive=False), Outcome.NOT_APPLICABLE, id="not mounted"),
    ],
)
def test_outcomes(fs: Filesystem, outcome: Outcome) -> None:
    """The option is a finding if somebody set it, not if data=journal or ext3 implies it."""
    assert verdict_of(fs).outcome is outcome


def test_a_stored_data_mode_without_a_journal_is_named_as_the_cause() -> None:
    """No step clears it, so the next mount disables delayed allocation again."""
    (finding,) = verdict_of(without_data_mode(set_by=Provenance.IMPLIED)).findings
    assert finding.remedies[0].summary.endswith(
        " Each mount disables it again while the superblock has the default journal_data."
    )


def test_read_only_filesystem_is_not_applicable() -> None:
    """Nothing is allocated there."""
    fs = filesystem(options=known(options("nodelalloc")), read_only=known(value=True))
    assert verdict_of(fs).note == "it is read-only"


def test_profile_that_demands_nodelalloc_passes() -> None:
    """The best-known false positive: TiDB's own check fails without nodelalloc."""
    verdict = verdict_of(with_options("nodelalloc"), profiles=(ActiveProfile(TIDB),))
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert verdict.note == "TiDB requires nodelalloc (profile tidb)"


def test_severity_and_commands() -> None:
    """The remount sets delalloc, whatever fstab has, and keeps all other options."""
    fs = filesystem(
        options=known(options("nodelalloc")),
        mounts=(mount(flags=("rw", "noatime")),),
        fstab=known((fstab_entry("noatime", "nodelalloc"),)),
    )
    (finding,) = verdict_of(fs).findings
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.CONFIRMED)
    (remedy,) = finding.remedies
    assert step_lines(remedy.steps) == [
        "immediate: mount -o remount,rw,noatime,delalloc /dev/sda /data",
        "persistent: fstab 7: noatime,nodelalloc -> noatime",
        "verify: grep -qx delalloc /proc/fs/ext4/sda/options",
    ]
    assert remedy.disruption is Disruption.REMOUNT
    assert "Files that are open or cached keep the old allocation mode" in remedy.summary


ATTEMPTS = 5
"""The number of attempts, because another program's sync(2) may interfere."""
WRITE_TO_OPEN_AND_NEW_FILE = """
set -e
cd {where}
echo old > held
exec 7>> held
mount -o remount,delalloc .
dd if=/dev/zero bs=4k count=8 status=none >&7
echo 3 > /proc/sys/vm/drop_caches
dd if=/dev/zero bs=4k count=8 status=none >&7
filefrag -v held
dd if=/dev/zero bs=4k count=8 status=none of=new && filefrag -v new
"""


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_remount_does_not_affect_open_files(tmp_path: Path) -> None:
    """Blocks for such a file are allocated at once, even after its cached pages were dropped."""
    for number in range(ATTEMPTS):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        held, new = _extents(folder).split("\nheld: ")
        assert "delalloc" not in held
        if "delalloc" in new:
            return
    pytest.fail("the new file had its blocks at once, too")


def _extents(folder: Path) -> str:
    """Return the extents of a file that was open at the remount, and of a new one.

    The new file is examined right after it is written, before any writeback.
    """
    shell = RemedyShell(folder)
    try:
        shell.mount("nodelalloc")
        return shell.check(WRITE_TO_OPEN_AND_NEW_FILE.format(where=shell.where))
    finally:
        shell.close()


# Delayed allocation is turned on by a remount, wherever nodelalloc was set.
SUMMARY = "Enable delayed allocation"
REMEDY_CASES = (
    RemedyCase("set by fstab", SUMMARY, mount="nodelalloc", fstab="nodelalloc"),
    RemedyCase("set by the superblock", SUMMARY, tune=("-o", "nodelalloc"), fstab="noatime"),
    RemedyCase("set by hand", SUMMARY, mount="nodelalloc,nosuid"),
)


def test_no_command_in_another_namespace() -> None:
    """A remount needs the mount point."""
    (finding,) = verdict_of(with_options("nodelalloc")._replace(mounts=())).findings
    assert finding.remedies[0].steps == ()
    assert ", in the mount namespace that has it mounted." in finding.remedies[0].summary

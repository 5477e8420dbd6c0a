"""Taking evidence away never makes a report calmer.

Each run tries the same sample of losses on the fixture hosts. If EXT4AUDIT_LOSSES is "all", all of
them are tried, some 15,000 audits:

    EXT4AUDIT_LOSSES=all uv run pytest tests/end_to_end/test_missing_evidence.py
"""

from __future__ import annotations

import os
import random

import pytest

from ext4audit.evidence import Why
from ext4audit.report import Outcome
from ext4audit.sources import Ask, ReadFile, RunCommand
from support.examples import share_of
from support.hosts.evidence_loss import (
    EXCUSES,
    LOSS_MODES,
    Excuse,
    Loss,
    improvements,
    losses,
    missing_directories,
    related_losses,
    report_without,
)
from support.hosts.fixture_hosts import FIXTURE_HOSTS, every_fixture_host

SAMPLED = None if os.environ.get("EXT4AUDIT_LOSSES") == "all" else share_of(10)
"""Number of losses tried for each host, None for all."""
MOUNTINFO = ReadFile("/proc/self/mountinfo")
FSTAB = ReadFile("/etc/fstab")
VIRTUAL = RunCommand(("systemd-detect-virt", "--vm"))
ARRAY, LVM = "raid0-12-disks-default-mkfs", "lvm-striped"
EVERY_WAY = pytest.mark.parametrize("way", LOSS_MODES)


def tried(fixture: str) -> list[Loss]:
    """Return the losses to try: all, or the same sample in each run."""
    every = list(losses(fixture))
    return every if SAMPLED is None else random.Random(fixture).sample(every, SAMPLED)  # noqa: S311


@every_fixture_host
def test_who_knows_less_is_not_calmer(fixture: str) -> None:
    """Losing an answer never removes an unknown or a finding, or makes a report complete."""
    broken = {str(loss): found for loss in tried(fixture) if (found := improvements(loss))}
    assert broken == {}


@every_fixture_host
def test_who_loses_all_of_one_kind_is_not_calmer(fixture: str) -> None:
    """A lost device, directory, program or all superblocks can be two sources of one fact."""
    every = list(related_losses(fixture))
    if SAMPLED is not None:
        every = random.Random(fixture).sample(every, min(len(every), SAMPLED))  # noqa: S311
    broken = {str(loss): found for loss in every if (found := improvements(loss))}
    assert broken == {}


@every_fixture_host
def test_another_root_without_sys_or_dev_is_not_calmer(fixture: str) -> None:
    """In a chroot all files of /sys are absent, which no real host lacks."""
    broken = {
        str(loss): found for loss in missing_directories(fixture) if (found := improvements(loss))
    }
    assert broken == {}


@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda excuse: excuse.change)
def test_every_excuse_is_needed(excuse: Excuse) -> None:
    """An unneeded exception would hide the next defect."""
    every = (loss for s in FIXTURE_HOSTS for loss in (*losses(s), *related_losses(s)))
    asked_for = (loss for loss in every if any(map(excuse.asks, (loss.ask, *loss.more))))
    assert any(excuse.change in improvements(loss, excuses=()) for loss in asked_for)


def outcomes(loss: Loss, *codes: str) -> list[Outcome]:
    """Return the outcomes of these rules without an answer."""
    return [v.outcome for v in report_without(loss).verdicts if v.rule.code in codes]


def answered(fixture: str, ending: str) -> list[Ask]:
    """Return the asks for existing files of a host whose path has this ending."""
    asks = {loss.ask: None for loss in losses(fixture) if loss.mode == "garbled"}
    return [ask for ask in asks if isinstance(ask, ReadFile) and ask.path.endswith(ending)]


@EVERY_WAY
@pytest.mark.parametrize("fixture", [ARRAY, "partition-on-md"])
def test_an_array_whose_level_is_not_known_may_stripe(fixture: str, way: str) -> None:
    """Its name shows that it is an array; assuming that it does not stripe would be a guess."""
    (level,) = answered(fixture, "/md/level")
    loss = Loss(fixture, level, way)
    assert outcomes(loss, "LAY001")[0] in {Outcome.UNDETERMINED, Outcome.FAIL}
    assert not report_without(loss).complete


@EVERY_WAY
def test_a_logical_volume_is_one_without_its_name(way: str) -> None:
    """Its kernel name is dm-N, and its table is requested by number: nothing is lost."""
    (name,) = answered(LVM, "/dm/name")
    assert outcomes(Loss(LVM, name, way), "LAY001") != [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("way", ["removed", "denied", "timed out"])
def test_a_machine_that_may_be_virtual_is_not_called_physical(way: str) -> None:
    """A systemd-detect-virt that was refused or hung proves nothing."""
    loss = Loss("healthy-debian-12-cloud", VIRTUAL, way)
    assert outcomes(loss, "CMP004") == [Outcome.UNDETERMINED]
    assert not report_without(loss).complete


@EVERY_WAY
@pytest.mark.parametrize("ending", ["/size", "/uevent"])
def test_a_device_of_unknown_size_is_not_called_large_enough(ending: str, way: str) -> None:
    """LAY005 ignores small devices and passes large ones: without the size it does neither."""
    asks = answered("dm-linear", ending)
    seen = [outcomes(Loss("dm-linear", ask, way), "LAY005") for ask in asks]
    assert [Outcome.UNDETERMINED] in seen
    assert [Outcome.PASS] not in seen


@EVERY_WAY
def test_without_a_mount_table_nothing_is_said_to_be_unmounted(way: str) -> None:
    """Nor can it be called intentionally read-only, or a mount without /boot and root."""
    judged = ("CAP002", "CMP001", "DRF001", "DRF002", "SEC002")
    found = outcomes(Loss("healthy-rhel-9", MOUNTINFO, way), *judged)
    assert found
    assert set(found) == {Outcome.UNDETERMINED}


@EVERY_WAY
def test_a_finding_does_not_say_what_an_unread_fstab_holds(way: str) -> None:
    """Saying that neither fstab nor the superblock sets an option requires both to be read."""
    report = report_without(Loss("md-raid1-write-through-nobarrier", FSTAB, way))
    summaries = [r.summary for f in report.findings for r in f.remedies]
    assert not any("Neither fstab" in each for each in summaries)
    assert any("fstab or the mount table could not be read" in each for each in summaries)


def test_the_kinds_of_gaps_are_those_of_a_host() -> None:
    """What a host does not have is not a gap."""
    unknowns = {u.why for u in report_without(Loss(ARRAY, MOUNTINFO, "removed")).host.gaps}
    assert unknowns == {Why.NOT_CAPTURED}

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
every_loss_mode = pytest.mark.parametrize("mode", LOSS_MODES)


def tried_losses(fixture: str) -> list[Loss]:
    """Return the losses to try: all, or the same sample in each run."""
    every = list(losses(fixture))
    return every if SAMPLED is None else random.Random(fixture).sample(every, SAMPLED)  # noqa: S311


@every_fixture_host
def test_losing_one_answer_gives_no_better_verdicts(fixture: str) -> None:
    """Losing an answer never removes an unknown or a finding, or makes a report complete."""
    broken = {str(loss): found for loss in tried_losses(fixture) if (found := improvements(loss))}
    assert broken == {}


@every_fixture_host
def test_losing_related_answers_gives_no_better_verdicts(fixture: str) -> None:
    """A lost device, directory, program or all superblocks can be two sources of one fact."""
    every = list(related_losses(fixture))
    if SAMPLED is not None:
        every = random.Random(fixture).sample(every, min(len(every), SAMPLED))  # noqa: S311
    broken = {str(loss): found for loss in every if (found := improvements(loss))}
    assert broken == {}


@every_fixture_host
def test_chroot_without_sys_or_dev_gives_no_better_verdicts(fixture: str) -> None:
    """In a chroot all files of /sys are absent, which no real host lacks."""
    broken = {
        str(loss): found for loss in missing_directories(fixture) if (found := improvements(loss))
    }
    assert broken == {}


@pytest.mark.parametrize("excuse", EXCUSES, ids=lambda excuse: excuse.change)
def test_every_allowed_change_occurs(excuse: Excuse) -> None:
    """An unneeded exception would hide the next defect."""
    every = (loss for s in FIXTURE_HOSTS for loss in (*losses(s), *related_losses(s)))
    asked_for = (loss for loss in every if any(map(excuse.asks, (loss.ask, *loss.more))))
    assert any(excuse.change in improvements(loss, excuses=()) for loss in asked_for)


def outcomes(loss: Loss, *codes: str) -> list[Outcome]:
    """Return the outcomes of these rules without an answer."""
    return [v.outcome for v in report_without(loss).verdicts if v.rule.code in codes]


def asks_with_answers(fixture: str, ending: str) -> list[Ask]:
    """Return the asks for existing files of a host whose path has this ending."""
    asks = {loss.ask: None for loss in losses(fixture) if loss.mode == "garbled"}
    return [ask for ask in asks if isinstance(ask, ReadFile) and ask.path.endswith(ending)]


@every_loss_mode
@pytest.mark.parametrize("fixture", [ARRAY, "partition-on-md"])
def test_array_of_unknown_level_may_stripe(fixture: str, mode: str) -> None:
    """Its name shows that it is an array; assuming that it does not stripe would be a guess."""
    (level,) = asks_with_answers(fixture, "/md/level")
    loss = Loss(fixture, level, mode)
    assert outcomes(loss, "LAY001")[0] in {Outcome.UNDETERMINED, Outcome.FAIL}
    assert not report_without(loss).complete


@every_loss_mode
def test_logical_volume_is_recognized_without_its_name(mode: str) -> None:
    """Its kernel name is dm-N, and its table is requested by number: nothing is lost."""
    (name,) = asks_with_answers(LVM, "/dm/name")
    assert outcomes(Loss(LVM, name, mode), "LAY001") != [Outcome.NOT_APPLICABLE]


@pytest.mark.parametrize("mode", ["removed", "denied", "timed out"])
def test_possibly_virtual_machine_is_not_called_physical(mode: str) -> None:
    """A systemd-detect-virt that was refused or hung proves nothing."""
    loss = Loss("healthy-debian-12-cloud", VIRTUAL, mode)
    assert outcomes(loss, "CMP004") == [Outcome.UNDETERMINED]
    assert not report_without(loss).complete


@every_loss_mode
@pytest.mark.parametrize("ending", ["/size", "/uevent"])
def test_device_of_unknown_size_does_not_pass(ending: str, mode: str) -> None:
    """LAY005 ignores small devices and passes large ones: without the size it does neither."""
    asks = asks_with_answers("dm-linear", ending)
    seen = [outcomes(Loss("dm-linear", ask, mode), "LAY005") for ask in asks]
    assert [Outcome.UNDETERMINED] in seen
    assert [Outcome.PASS] not in seen


@every_loss_mode
def test_without_a_mount_table_no_filesystem_counts_as_unmounted(mode: str) -> None:
    """Nor can it be called intentionally read-only, or a mount without /boot and root."""
    judged = ("CAP002", "CMP001", "DRF001", "DRF002", "SEC002")
    found = outcomes(Loss("healthy-rhel-9", MOUNTINFO, mode), *judged)
    assert found
    assert set(found) == {Outcome.UNDETERMINED}


@every_loss_mode
def test_finding_makes_no_claim_about_an_unread_fstab(mode: str) -> None:
    """Saying that neither fstab nor the superblock sets an option requires both to be read."""
    report = report_without(Loss("md-raid1-write-through-nobarrier", FSTAB, mode))
    summaries = [r.summary for f in report.findings for r in f.remedies]
    assert not any("Neither fstab" in each for each in summaries)
    assert any("fstab or the mount table could not be read" in each for each in summaries)


def test_absent_files_are_not_gaps() -> None:
    """What a host does not have is not a gap."""
    unknowns = {u.why for u in report_without(Loss(ARRAY, MOUNTINFO, "removed")).host.gaps}
    assert unknowns == {Why.NOT_CAPTURED}

"""CAP007: quotas that are set in fstab or prepared, but not in force."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap007_quota_mismatch import check
from support.builders import filesystem, fstab_entry, host, known, mount, superblock, unknown
from support.remedies.case import RemedyCase
from support.remedies.steps_as_text import step_lines

FEATURE = known(superblock(features=frozenset({"has_journal", "quota"})), "dumpe2fs")


def verdict(fs: Filesystem, container: str | None = None) -> Verdict:
    """Judge one filesystem."""
    return judge(check, fs, host(fs, container=container))


def with_quota_options(live: tuple[str, ...], asked: tuple[str, ...], **changes: Any) -> Filesystem:
    """Build a filesystem with options in force and options in fstab."""
    values: dict[str, Any] = {
        "mounts": (mount(super_options=("rw", *live)),),
        "fstab": known((fstab_entry(*asked),), "/etc/fstab"),
    }
    values.update(changes)
    return filesystem(**values)


BOTH = ("usrquota", "grpquota")
JOURNALED = ("usrjquota=aquota.user", "jqfmt=vfsv1")


@pytest.mark.parametrize(
    ("fs", "outcome", "words"),
    [
        # Nearly all filesystems.
        (with_quota_options((), ()), Outcome.NOT_APPLICABLE, []),
        (
            with_quota_options((), BOTH),
            Outcome.FAIL,
            ["usrquota, grpquota for /data"],
        ),
        (with_quota_options((), ("quota",)), Outcome.FAIL, ["sets quota for /data"]),
        (with_quota_options((), ("noquota",)), Outcome.NOT_APPLICABLE, []),
        (
            with_quota_options(("quota", "usrquota"), ("quota",), superblock=FEATURE),
            Outcome.PASS,
            [],
        ),
        (
            with_quota_options(("usrquota",), BOTH, superblock=FEATURE),
            Outcome.FAIL,
            ["sets grpquota"],
        ),
        (with_quota_options(BOTH, BOTH, superblock=FEATURE), Outcome.PASS, []),
        (with_quota_options(BOTH, (), superblock=FEATURE), Outcome.PASS, []),
        (with_quota_options(BOTH, BOTH), Outcome.FAIL, [" use quota files of the old format"]),
        (
            with_quota_options(JOURNALED, JOURNALED),
            Outcome.FAIL,
            [" use quota files of the old format"],
        ),
        (with_quota_options((), (), superblock=FEATURE), Outcome.FAIL, ["The feature quota is on"]),
        (
            with_quota_options((), BOTH, superblock=FEATURE),
            Outcome.FAIL,
            ["usrquota, grpquota for /data"],
        ),
        (with_quota_options((), (), superblock=unknown("superblock")), Outcome.UNDETERMINED, []),
        (with_quota_options((), (), fstab=unknown("fstab")), Outcome.UNDETERMINED, []),
        (with_quota_options((), (), mounts=()), Outcome.NOT_APPLICABLE, []),
    ],
)
def test_cap007_outcomes(fs: Filesystem, outcome: Outcome, words: list[str]) -> None:
    """Quotas set in fstab must be in force, and usage that is counted should be limited."""
    found = verdict(fs)
    assert found.outcome is outcome, (found.note, found.findings)
    assert len(found.findings) == len(words)
    for finding, word in zip(found.findings, words, strict=True):
        assert word in finding.message
        assert finding.severity is Severity.LOW


def test_cap007_does_not_apply_in_a_container() -> None:
    """The fstab in a container is not the host's."""
    assert verdict(with_quota_options((), BOTH), "docker").outcome is Outcome.NOT_APPLICABLE


def test_cap007_state_of_old_quotas_is_undetermined() -> None:
    """quotaon(8) leaves no trace in the options."""
    (finding,) = verdict(with_quota_options(BOTH, BOTH)).findings
    assert finding.confidence is Confidence.POSSIBLE
    assert "quotaon -p" in finding.remedies[0].summary


@pytest.mark.parametrize(
    ("fs", "fact"),
    [
        (with_quota_options((), BOTH), "/data usrquota,grpquota"),
        (with_quota_options(("usrquota",), BOTH, superblock=FEATURE), "/data grpquota"),
        (with_quota_options(BOTH, BOTH), "quota files"),
        (with_quota_options((), (), superblock=FEATURE), "quota counts"),
    ],
)
def test_cap007_fact_of_each_mismatch(fs: Filesystem, fact: str) -> None:
    """The fact for a baseline is the mount point with the options, or the kind of mismatch."""
    (finding,) = verdict(fs).findings
    assert finding.fact == fact


def test_cap007_removes_only_quota_options_from_fstab() -> None:
    """All other options stay, and the rollback restores the quota options."""
    (finding,) = verdict(with_quota_options((), ("noatime", *JOURNALED))).findings
    remedy = next(remedy for remedy in finding.remedies if remedy.steps)
    words = ",".join(("noatime", *JOURNALED))
    there, *_checks, back = step_lines(remedy.lines)
    assert there == f"persistent: fstab 7: {words} -> noatime"
    place = r" \/data ext4"
    assert back == f"rollback: sed -i '7s/{place} noatime /{place} {words} /' /etc/fstab"


# Options in fstab that nobody needs.
REMEDIES_NOT_RUN = (
    "Not every kernel has quotas built in, and quotaon is in a package of its own: putting them in "
    "force is advice without commands."
)
NOT_APPLICABLE_ONLY = (Outcome.NOT_APPLICABLE,)

REMEDY_CASES = (
    RemedyCase(
        name="plain words",
        remedy="from fstab",
        fstab="noatime,usrquota,grpquota",
        cured=NOT_APPLICABLE_ONLY,
    ),
    RemedyCase(
        name="journaled words",
        remedy="from fstab",
        fstab="usrjquota=aquota.user,grpjquota=aquota.group,jqfmt=vfsv1",
        cured=NOT_APPLICABLE_ONLY,
    ),
)

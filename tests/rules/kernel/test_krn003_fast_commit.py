from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.finding import Confidence, Disruption, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn003_fast_commit import check
from support.builders import filesystem, host, kernel, known, mount, options, superblock, unknown
from support.remedies.case import RemedyCase, on_kernel

FAST = superblock(features=frozenset({"has_journal", "extent", "fast_commit"}))
AFFECTED_RELEASE = "5.15.20"


def verdict_of(release: str, **changes: Any) -> Verdict:
    """Judge a filesystem with fast_commit on a kernel."""
    around = {key: changes.pop(key) for key in ("kernel",) if key in changes}
    fs = filesystem(**{"superblock": known(FAST, "dumpe2fs -h /dev/sda"), **changes})
    return judge(check, fs, host(fs, **{"kernel": known(kernel(release, ""), "uname"), **around}))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("5.15.20", (Severity.HIGH, Confidence.CONFIRMED)),
        ("5.10.50", (Severity.HIGH, Confidence.CONFIRMED)),
        ("5.10.262", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.15.60", (Severity.LOW, Confidence.LIKELY)),
        ("5.14.0-427.el9.x86_64", (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_fast_commit_on_affected_kernels_fails(
    release: str, grade: tuple[Severity, Confidence]
) -> None:
    """Losing data is worse than failing to replay a newer kernel's journal."""
    verdict = verdict_of(release)
    assert verdict.outcome is Outcome.FAIL
    assert [(f.severity, f.confidence) for f in verdict.findings] == [grade]


@pytest.mark.parametrize(
    ("release", "changes"),
    [
        ("6.1.76", {}),
        ("6.18.5", {"superblock": unknown("the superblock")}),
        (AFFECTED_RELEASE, {"superblock": known(superblock())}),
        ("5.15.0-91-generic", {"superblock": known(superblock())}),
    ],
    ids=["corrected", "corrected, not root", "off", "off, update not known"],
)
def test_fixed_kernels_and_filesystems_without_fast_commit_pass(
    release: str, changes: dict[str, Any]
) -> None:
    """By default mke2fs does not set it; on a fixed kernel the superblock is not needed."""
    assert verdict_of(release, **changes).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"alive": False, "mounts": ()}, "it is not mounted"),
        (
            {"options": known(options("data=journal"))},
            "with data=journal, the kernel makes no fast commits",
        ),
    ],
)
def test_data_journal_is_not_applicable(changes: dict[str, Any], note: str) -> None:
    """data=journal turns fast commits off."""
    verdict = verdict_of(AFFECTED_RELEASE, **changes)
    assert (verdict.outcome, verdict.note) == (Outcome.NOT_APPLICABLE, note)


@pytest.mark.parametrize(
    ("release", "changes", "gap"),
    [
        (AFFECTED_RELEASE, {"superblock": unknown("the superblock")}, "the superblock"),
        (AFFECTED_RELEASE, {"kernel": unknown("the kernel")}, "the kernel"),
        ("5.15.0-91-generic", {}, "stable update of the kernel"),
    ],
)
def test_without_kernel_or_superblock_it_is_undetermined(
    release: str, changes: dict[str, Any], gap: str
) -> None:
    """Missing evidence is not a pass."""
    verdict = verdict_of(release, **changes)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert [each.what for each in verdict.unknowns] == [gap]


def test_unknown_options_do_not_pass() -> None:
    """data=journal is rare, so the feature decides if the options are unknown."""
    assert verdict_of(AFFECTED_RELEASE, options=unknown("the options")).outcome is Outcome.FAIL


def test_read_only_filesystem_is_latent() -> None:
    """Nothing is committed there."""
    (finding,) = verdict_of(AFFECTED_RELEASE, read_only=known(value=True)).findings
    assert finding.severity is Severity.INFO


def test_message_and_citations() -> None:
    """The kernel, the bug and the feature are cited, each with its origin."""
    (finding,) = verdict_of(AFFECTED_RELEASE).findings
    assert "fsync() had confirmed" in finding.message
    assert [(each.label, each.value, each.origin) for each in finding.citations] == [
        (
            "kernel",
            "5.15.20 (older than 5.15.27, which added e85c81ba8859 and bdc8a53a6f2f)",
            "uname",
        ),
        (
            "kernel bug requires",
            "a crash: power failure, hard reset, panic",
            "https://github.com/etcd-io/bbolt/blob/main/README.md#known-issues",
        ),
        ("feature fast_commit", "set", "dumpe2fs -h /dev/sda"),
    ]


def test_remedy_removes_the_feature_while_unmounted() -> None:
    """The check before tune2fs prevents changes while another mount namespace uses it."""
    (finding,) = verdict_of(AFFECTED_RELEASE).findings
    away, update = finding.remedies
    assert [(step.phase, step.command) for step in away.lines] == [
        (Phase.IMMEDIATE, "umount /data"),
        (
            Phase.IMMEDIATE,
            "test ! -e /sys/fs/ext4/sda && tune2fs -O ^fast_commit /dev/sda",
        ),
        (Phase.IMMEDIATE, "mount -t ext4 -o rw,relatime /dev/sda /data"),
        (
            Phase.VERIFY,
            "tune2fs -l /dev/sda | grep '^Filesystem features:' | grep -qvw fast_commit",
        ),
        (Phase.ROLLBACK, "umount /data"),
        (Phase.ROLLBACK, "test ! -e /sys/fs/ext4/sda && tune2fs -O fast_commit /dev/sda"),
        (Phase.ROLLBACK, "mount -t ext4 -o rw,relatime /dev/sda /data"),
    ]
    assert away.disruption is Disruption.UNMOUNT
    assert update.summary == "Update the kernel to 5.15.87, 6.1.4, 6.2 or later, and restart."


def test_root_remedy_requires_a_rescue_system() -> None:
    """No command unmounts the running system's root."""
    (finding,) = verdict_of(AFFECTED_RELEASE, mounts=(mount("/"),)).findings
    assert finding.remedies[0].steps == ()
    assert "rescue system" in finding.remedies[0].summary


# KRN003 on real filesystems, judged as on Linux 5.15.20: the feature is removed.
AWAY = "remove the feature fast_commit"
ON_5_15 = on_kernel("5.15.20")

REMEDY_CASES = (
    RemedyCase(
        name="made with it, no fstab",
        remedy=AWAY,
        mke2fs=("-O", "fast_commit"),
        alter=ON_5_15,
    ),
    RemedyCase(
        name="set by tune2fs, other options in fstab",
        remedy=AWAY,
        tune=("-O", "fast_commit"),
        mount="noatime,commit=10",
        fstab="noatime,commit=10",
        alter=ON_5_15,
    ),
    RemedyCase(
        name="mounted otherwise than fstab says",
        remedy=AWAY,
        mke2fs=("-O", "fast_commit"),
        mount="nosuid,nodev",
        fstab="defaults",
        alter=ON_5_15,
    ),
)

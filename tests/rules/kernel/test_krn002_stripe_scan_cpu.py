from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.finding import Confidence, Disruption, Phase, Remedy, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn002_stripe_scan_cpu import check
from support.builders import (
    filesystem,
    fstab_entry,
    host,
    kernel,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.hosts.plans import disk_plan, host_of, plan
from support.images.mke2fs import needs_e2fsprogs
from support.remedies.case import RemedyCase, on_kernel
from support.remedies.steps_as_text import step_lines

STRIPED = superblock(stride_blocks=128, stripe_width_blocks=384)


def verdict_of(release: str, *tokens: str, **changes: Any) -> Verdict:
    """Judge a filesystem with these options, and a stripe in its superblock, on this kernel."""
    around = {
        key: changes.pop(key) for key in ("kernel", "kernel_arguments", "planned") if key in changes
    }
    values = {
        "options": known(options(*tokens), "/proc/fs/ext4/sda/options"),
        "superblock": known(STRIPED, "dumpe2fs -h /dev/sda"),
        **changes,
    }
    fs = filesystem(**values)
    return judge(check, fs, host(fs, **{"kernel": known(kernel(release, ""), "uname"), **around}))


def remedy_of(*tokens: str, **changes: Any) -> Remedy:
    """Return the remedy that turns the stripe off."""
    (finding,) = verdict_of("6.6.9", *tokens, **changes).findings
    return finding.remedies[0]


@pytest.mark.parametrize(
    ("read_only", "severity"),
    [
        (known(value=True), Severity.INFO),
        (known(value=False), Severity.MEDIUM),
        (unknown("read-only"), Severity.MEDIUM),
    ],
)
def test_severity_on_read_only_filesystems(read_only: Evidence[bool], severity: Severity) -> None:
    """The writeback thread then has no work; if the state is unknown, writes are possible."""
    (finding,) = verdict_of("6.6.9", "stripe=384", read_only=read_only).findings
    assert finding.severity is severity
    assert ("mounted read-only" in finding.message) is (severity is Severity.INFO)


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("6.5.3", (Severity.MEDIUM, Confidence.LIKELY)),
        ("6.3.13", (Severity.INFO, Confidence.POSSIBLE)),
        ("6.4.16", (Severity.LOW, Confidence.POSSIBLE)),
        ("6.6.31", (Severity.MEDIUM, Confidence.LIKELY)),
        ("6.6.120", (Severity.LOW, Confidence.POSSIBLE)),
        ("6.7.1", (Severity.MEDIUM, Confidence.LIKELY)),
        ("6.1.192", (Severity.INFO, Confidence.POSSIBLE)),
        ("6.1.0-18-amd64", (Severity.INFO, Confidence.POSSIBLE)),
        ("6.5.0-14-generic", (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_stripe_on_affected_kernels_fails(release: str, grade: tuple[Severity, Confidence]) -> None:
    """It is likely from 6.5 on, and possible if a vendor may have fixed it.

    A RAID on Debian 12 has a stripe by default and a kernel with few reports, which is info.
    """
    verdict = verdict_of(release, "stripe=384")
    assert verdict.outcome is Outcome.FAIL
    assert [(f.severity, f.confidence) for f in verdict.findings] == [grade]


@pytest.mark.parametrize(
    ("release", "options_in_force"),
    [
        ("6.8.0", unknown("the options")),
        ("6.12.43", known(options("stripe=384"))),
        ("5.14.0-427.el9.x86_64", known(options("stripe=384"))),
        ("5.15.0-91-generic", known(options("stripe=384"))),
        ("6.6.9", known(options("stripe=0"))),
        ("6.6.9", known(options())),
        ("6.1.0-18-amd64", known(options())),
    ],
)
def test_other_kernels_and_filesystems_without_stripe_pass(
    release: str, options_in_force: Any
) -> None:
    """A healthy RAID on RHEL 9, or on Ubuntu 22.04 or 24.04, gives no finding."""
    assert verdict_of(release, options=options_in_force).outcome is Outcome.PASS


def test_unmounted_filesystem_is_not_applicable() -> None:
    """The allocator is not used."""
    verdict = verdict_of("6.6.9", "stripe=384", alive=False, mounts=())
    assert (verdict.outcome, verdict.note) == (Outcome.NOT_APPLICABLE, "it is not mounted")


@pytest.mark.parametrize(
    "changes",
    [
        {"options": unknown("the options")},
        {"options": known(options(complete=False))},
        {"kernel": unknown("the kernel"), "options": known(options("stripe=384"))},
    ],
    ids=["no options", "a silent mount table", "no kernel"],
)
def test_without_kernel_or_stripe_it_is_undetermined(changes: dict[str, Any]) -> None:
    """Missing evidence is not a pass."""
    assert verdict_of("6.6.9", **changes).outcome is Outcome.UNDETERMINED


def test_read_only_filesystem_is_latent() -> None:
    """Nothing is allocated there."""
    (finding,) = verdict_of("6.6.9", "stripe=384", read_only=known(value=True)).findings
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("has a stripe of 384 blocks and is mounted read-only.")


def test_cites_kernel_bug_active_stripe_and_superblock() -> None:
    """The options in force and the superblock can differ."""
    (finding,) = verdict_of("6.6.9", "stripe=48").findings
    reported = {each.label: (each.value, each.origin) for each in finding.citations}
    assert reported["kernel"] == (
        "6.6.9 (6.5 or later, where the bug was first seen, and without 1f6bc02f1848 of 6.8)",
        "uname",
    )
    assert (
        reported["kernel bug requires"][1] == "https://bugzilla.kernel.org/show_bug.cgi?id=217965"
    )
    assert reported["option in force: stripe"] == ("stripe=48", "/proc/fs/ext4/sda/options")
    assert reported["RAID hints"] == ("stride 128, width 384 blocks", "dumpe2fs -h /dev/sda")


def test_remedy_removes_the_stripe_from_mount_superblock_and_fstab() -> None:
    """`stripe=0` is never written to fstab, where it has no effect."""
    remedy = remedy_of("stripe=48", fstab=known((fstab_entry("stripe=48"),)))
    assert step_lines(remedy.steps)[:3] == [
        "immediate: mount -o remount,rw,relatime,stripe=0 /dev/sda /data",
        "persistent: fstab 7: stripe=48 -> defaults",
        "persistent: tune2fs -E stride=0,stripe_width=0 /dev/sda",
    ]
    undo = [step.command for step in remedy.lines if step.phase is Phase.ROLLBACK]
    assert undo[0] == "tune2fs -E stride=128,stripe_width=384 /dev/sda"
    assert undo[-1] == "mount -o remount,rw,relatime,stripe=48 /dev/sda /data"
    assert remedy.disruption is Disruption.REMOUNT


def test_no_commands_without_the_superblock() -> None:
    """The values that tune2fs overwrites could not be restored."""
    remedy = remedy_of("stripe=384", superblock=unknown("the superblock"))
    assert remedy.steps == ()
    assert "scan as root" in remedy.summary


def test_remedy_names_rootflags() -> None:
    """No command edits the boot loader's configuration."""
    remedy = remedy_of(
        "stripe=384",
        mounts=(mount("/"),),
        kernel_arguments=known(("rootflags=stripe=384",)),
    )
    assert "rootflags=" in remedy.summary


@needs_e2fsprogs
def test_plans_with_and_without_a_stripe() -> None:
    """The remedy changes the kernel, not the stripe; a plan without a stripe passes."""
    hosts = [host_of(of) for of in (plan(release="6.6.9"), disk_plan(release="6.6.9"))]
    judged = [judge(check, each.filesystems[0], each) for each in hosts]
    assert [each.outcome for each in judged] == [Outcome.FAIL, Outcome.PASS]
    cited = {each.label: each.value for each in judged[0].findings[0].citations}
    assert cited["option in force: stripe"] == "stripe=1536"
    (remedy,) = judged[0].findings[0].remedies
    assert "Update the kernel" in remedy.summary
    assert check.in_plans


# KRN002 on real filesystems: the stripe is set in the superblock, in fstab, or by a remount.
#
# They are judged as on Linux 6.6.9; the commands are the same on every kernel.
OFF = "Turn the stripe off"
ON_6_6 = on_kernel("6.6.9")

REMEDY_CASES = (
    RemedyCase(
        name="stripe in the superblock, no fstab",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in the superblock, fstab of defaults",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        fstab="noatime",
        mount="noatime",
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in fstab",
        remedy=OFF,
        mount="noatime,stripe=48",
        fstab="noatime,stripe=48",
        alter=ON_6_6,
    ),
    RemedyCase(
        name="stripe in both, with different numbers",
        remedy=OFF,
        mke2fs=("-E", "stride=16,stripe_width=64"),
        mount="nodev,stripe=48",
        fstab="nodev,stripe=48",
        alter=ON_6_6,
    ),
    RemedyCase(name="stripe of a mount by hand", remedy=OFF, mount="stripe=48", alter=ON_6_6),
)


def test_no_command_in_another_namespace() -> None:
    """A remount needs the mount point."""
    (finding,) = verdict_of("6.6.9", "stripe=384", mounts=()).findings
    assert finding.remedies[0].steps == ()
    assert ", in the mount namespace that has it mounted." in finding.remedies[0].summary

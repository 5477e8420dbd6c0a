from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import ActiveProfile, all_profiles
from ext4audit.facts.mount import Provenance
from ext4audit.finding import Confidence, Disruption, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.performance.prf001_dioread_nolock_nodelalloc import check
from support.builders import filesystem, fstab_entry, host, kernel, known, mount, options, unknown
from support.remedies.shell import RemedyShell

BOTH = ("dioread_nolock", "nodelalloc")
AFFECTED_RELEASE = "4.19.222"
VENDOR_CONFIRMED = (Severity.HIGH, Confidence.CONFIRMED)
SAME_CODE = (Severity.MEDIUM, Confidence.LIKELY)
UNEXAMINED = (Severity.LOW, Confidence.POSSIBLE)


def verdict_of(release: str, *tokens: str, **changes: Any) -> Verdict:
    """Judge a filesystem with these options on a kernel."""
    values = {"options": known(options(*tokens, release=release)), **changes}
    fs = filesystem(**values)
    return judge(check, fs, host(fs, kernel=known(kernel(release), "uname")))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("4.19.24-9.al7", VENDOR_CONFIRMED),
        ("4.19.24-9.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.34-11.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.57-15.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.91-9.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.91-18.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.91-22.2.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.91-25.6.al7.x86_64", VENDOR_CONFIRMED),
        ("4.19.91-25.8.al7.aarch64", VENDOR_CONFIRMED),
        ("4.19.24-8.al7.x86_64", UNEXAMINED),
        ("4.4.95-1.al7.x86_64", UNEXAMINED),
        ("4.19.91-c8dfc93.al7.x86_64", UNEXAMINED),
        ("4.19.91-0.1.git.6eb3a5047051.al7.x86_64", UNEXAMINED),
        ("3.10.0-1160.el7.x86_64", SAME_CODE),
        ("4.14.67", SAME_CODE),
        ("4.19.222", SAME_CODE),
        ("5.4.286", SAME_CODE),
        ("5.5.19", SAME_CODE),
        ("4.19.91-26.6.an7.x86_64", UNEXAMINED),
        ("4.19.91-25.al7x.x86_64", UNEXAMINED),
        ("5.3.18-150300.59.93-default", UNEXAMINED),
        ("4.18.0-147.el8.x86_64", SAME_CODE),
        ("4.18.0-240.22.1.el8_3.x86_64", SAME_CODE),
        ("4.18.0-305.el8.x86_64", UNEXAMINED),
        ("4.18.0-553.16.1.el8_10.x86_64", UNEXAMINED),
        ("5.6.0-rc7", SAME_CODE),
        ("5.6.12", SAME_CODE),
    ],
)
def test_both_options_fail_on_affected_kernels(
    release: str, grade: tuple[Severity, Confidence]
) -> None:
    """The vendor's range is confirmed, the same code elsewhere likely, unexamined code possible."""
    verdict = verdict_of(release, *BOTH)
    assert verdict.outcome is Outcome.FAIL
    assert [(f.severity, f.confidence) for f in verdict.findings] == [grade]


@pytest.mark.parametrize(
    "release",
    [
        "4.19.91-26.al7",
        "4.19.91-26.al7.x86_64",
        "4.19.91-26.6.al7.x86_64",
        "4.19.91-27.7.al7.x86_64",
        "5.6.13",
        "5.7.0",
        "5.10.134-15.1.al8.x86_64",
        "5.10.0-28-amd64",
        "6.1.0-18-amd64",
        "6.18.44",
        "10.0.1",
    ],
)
def test_both_options_pass_on_fixed_kernels(release: str) -> None:
    """The options file lists both, but the kernel ignores dioread_nolock."""
    verdict = verdict_of(release, *BOTH)
    assert verdict.outcome is Outcome.PASS
    assert [each.label for each in verdict.evidence] == ["kernel"]


def test_fixed_kernel_passes_without_options() -> None:
    """Evidence that does not matter is not needed: an unreadable options file still passes."""
    assert verdict_of("6.1.0", options=unknown("the options")).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("release", "tokens"),
    [
        (AFFECTED_RELEASE, ()),
        (AFFECTED_RELEASE, ("nodelalloc",)),
        (AFFECTED_RELEASE, ("dioread_nolock",)),
        (AFFECTED_RELEASE, ("nodelalloc", "dioread_lock")),
        ("4.19.91-18.al7.x86_64", ("nodioread_nolock", "nodelalloc")),
        ("5.6.12", ()),
        ("5.6.12", ("nodelalloc", "nodioread_nolock")),
    ],
)
def test_one_option_alone_passes(release: str, tokens: tuple[str, ...]) -> None:
    """`nodioread_nolock` contains `dioread_nolock`, so whole tokens are compared."""
    verdict = verdict_of(release, *tokens)
    assert verdict.outcome is Outcome.PASS
    assert "option in force: delalloc" in [each.label for each in verdict.evidence]


def test_nodelalloc_fails_if_dioread_nolock_is_the_default() -> None:
    """From 5.6.0 to 5.6.12 dioread_nolock is on by default."""
    assert verdict_of("5.6.12", "nodelalloc").outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"fstype": known("ext3")}, "it is mounted as ext3, which has no dioread_nolock"),
        ({"fstype": known("ext2")}, "it is mounted as ext2, which has no dioread_nolock"),
        ({"alive": False, "options": unknown("options")}, "it is not mounted"),
        (
            {"options": known(options(*BOTH, "data=journal", release=AFFECTED_RELEASE))},
            "data=journal turns both options off",
        ),
    ],
)
def test_not_applicable_to_ext3_and_data_journal(changes: dict[str, Any], note: str) -> None:
    """ext3 lists both options even if nobody set them; data=journal clears them."""
    verdict = verdict_of(AFFECTED_RELEASE, *BOTH, **changes)
    assert (verdict.outcome, verdict.note) == (Outcome.NOT_APPLICABLE, note)


@pytest.mark.parametrize(
    "evidence",
    [
        unknown("the options"),
        known(options(release=AFFECTED_RELEASE, complete=False)),
        known(options("dioread_nolock", release=AFFECTED_RELEASE, complete=False)),
        known(options("nodelalloc", release=AFFECTED_RELEASE, complete=False)),
    ],
    ids=["nothing", "an empty mount table", "only one shown", "only the other shown"],
)
def test_possibly_hidden_option_is_undetermined(evidence: Any) -> None:
    """The unread superblock may set nodelalloc."""
    assert verdict_of(AFFECTED_RELEASE, options=evidence).outcome is Outcome.UNDETERMINED


def test_unknown_kernel_is_undetermined() -> None:
    """Without a kernel release the effect of the options is unknown."""
    fs = filesystem(options=known(options(*BOTH, release=AFFECTED_RELEASE)))
    verdict = judge(check, fs, host(fs, kernel=unknown("the kernel")))
    assert [each.what for each in verdict.unknowns] == ["the kernel"]


def test_both_options_in_the_mount_table_fail() -> None:
    """Without the options file, an option in the mount table is in force."""
    shown = known(options(*BOTH, release=AFFECTED_RELEASE, complete=False))
    assert verdict_of(AFFECTED_RELEASE, options=shown).outcome is Outcome.FAIL


def test_read_only_superblock_is_latent() -> None:
    """Nothing is written until someone remounts it."""
    (finding,) = verdict_of(AFFECTED_RELEASE, *BOTH, read_only=known(value=True)).findings
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LIKELY)


def test_cites_kernel_options_fstab_and_mount_points() -> None:
    """The finding cites everything that the vendor's support would need, with its origin."""
    (finding,) = verdict_of(
        "4.19.91-24.8.al7.x86_64",
        *BOTH,
        fstab=known((fstab_entry("noatime", *BOTH),)),
        mounts=(mount(), mount("/srv/tikv", root="/tikv", mount_id=31)),
    ).findings
    assert [(each.label, each.value, each.origin) for each in finding.citations] == [
        (
            "kernel",
            (
                "4.19.91-24.8.al7.x86_64 (Alibaba Cloud Linux 2, inside [4.19.24-9.al7, "
                "4.19.91-26.al7))"
            ),
            "uname",
        ),
        ("option in force: delalloc", "nodelalloc", "/proc/fs/ext4/sda/options"),
        ("fstab line 7", "noatime,dioread_nolock,nodelalloc", "/etc/fstab"),
        ("mount table", "rw,dioread_nolock,nodelalloc", "/proc/self/mountinfo"),
        ("option in force: dioread_nolock", "dioread_nolock", "/proc/fs/ext4/sda/options"),
        ("mount points", "/data, /srv/tikv", "/proc/self/mountinfo"),
    ]


def test_remedies_with_immediate_effect_are_first() -> None:
    """dioread_lock affects open files, delalloc does not; the kernel update has no steps."""
    (finding,) = verdict_of("4.19.91-18.al7.x86_64", *BOTH).findings
    lock, delalloc, update = finding.remedies
    assert delalloc.steps[0].command == "mount -o remount,rw,relatime,delalloc /dev/sda /data"
    assert lock.steps[0].command == "mount -o remount,rw,relatime,dioread_lock /dev/sda /data"
    assert (update.steps, update.disruption) == ((), Disruption.REBOOT)
    assert update.summary == "Update the kernel to 4.19.91-26.al7 or later, and restart."
    assert "unmount" in (delalloc.trade_off or "")
    assert "also for open files" in (lock.trade_off or "")
    assert "Files that are open or cached keep the old allocation mode" in delalloc.summary


def test_kernel_advice_by_vendor() -> None:
    """Advice about Alibaba's kernel is only given on that kernel."""
    (finding,) = verdict_of(AFFECTED_RELEASE, *BOTH).findings
    assert finding.remedies[2].summary == "Update the kernel to 5.7 or later, and restart."


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[RemedyShell]:
    """Return a shell on a real filesystem mounted with both options."""
    shell = RemedyShell(tmp_path)
    try:
        shell.write_fstab("noatime,dioread_nolock,nodelalloc")
        shell.mount()
        yield shell
    finally:
        shell.close()


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("which", [0, 1], ids=["dioread_lock", "delalloc"])
def test_both_remedies_on_a_real_filesystem(shell: RemedyShell, which: int) -> None:
    """Judged as on an old kernel, it passes after the steps and after a new mount."""
    old = known(kernel(AFFECTED_RELEASE), "test")
    fs = shell.filesystem({"delalloc": Provenance.MOUNT, "dioread_nolock": Provenance.MOUNT})
    before = shell.state()
    remedy = judge(check, fs, host(fs, kernel=old)).findings[0].remedies[which]
    steps = {phase: [s.command for s in remedy.lines if s.phase is phase] for phase in Phase}
    for step in remedy.lines:
        if step.phase is not Phase.ROLLBACK:
            shell.check(step.command)
    assert judge(check, shell.filesystem(), host(fs, kernel=old)).outcome is Outcome.PASS
    shell.unmount()
    shell.mount()
    for command in steps[Phase.VERIFY]:
        shell.check(command)
    for command in steps[Phase.ROLLBACK]:
        shell.check(command)
    assert shell.state() == before


def test_remedy_with_a_profile_that_demands_nodelalloc() -> None:
    """The remedy sets nothing that the vendor forbids, and names the profile."""
    fs = filesystem(options=known(options(*BOTH, release=AFFECTED_RELEASE)))
    tidb = ActiveProfile(all_profiles()["tidb"])
    verdict = judge(check, fs, host(fs, kernel=known(kernel(AFFECTED_RELEASE)), profiles=(tidb,)))
    (finding,) = verdict.findings
    assert finding.citations[-1].label == "profile tidb"
    assert "fails without nodelalloc" in finding.citations[-1].value
    (remedy,) = finding.remedies
    assert remedy.summary.startswith(
        "Keep nodelalloc, required by TiDB and TiKV (profile tidb), and disable dioread_nolock."
    )
    assert not any(",delalloc" in step.command for step in remedy.lines)


def test_profile_of_another_filesystem_is_ignored() -> None:
    """The profile only applies to its mount points."""
    fs = filesystem(options=known(options(*BOTH, release=AFFECTED_RELEASE)))
    elsewhere = ActiveProfile(all_profiles()["tidb"], "/var/*")
    verdict = judge(
        check, fs, host(fs, kernel=known(kernel(AFFECTED_RELEASE)), profiles=(elsewhere,))
    )
    assert len(verdict.findings[0].remedies) == 3


def test_no_command_in_another_namespace() -> None:
    """A remount needs the mount point."""
    (finding,) = verdict_of(AFFECTED_RELEASE, "nodelalloc", "dioread_nolock", mounts=()).findings
    assert finding.remedies[0].steps == ()
    assert ", in the mount namespace that has it mounted." in finding.remedies[0].summary

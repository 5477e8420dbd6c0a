from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import DeviceNumber, Mount
from ext4audit.finding import Confidence, Disruption, Phase, Severity
from ext4audit.report import Outcome
from ext4audit.rules.durability.dur003_writeback_data_mode import check
from support.builders import (
    filesystem,
    fstab_entry,
    known,
    mount,
    options,
    superblock,
    unknown,
)
from support.filesystems.scratch import run
from support.judging import only_finding, verdict_on
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import step_lines

WRITEBACK = "data=writeback"
NOLOCK_OFF = "nodioread_nolock"
NO_JOURNAL = options()
NO_JOURNAL_OPTIONS = type(NO_JOURNAL)(
    NO_JOURNAL.source,
    complete=True,
    options=tuple(option for option in NO_JOURNAL.options if option.name != "data"),
    mount_table=("rw",),
)


verdict_of = partial(verdict_on, check)
finding_of = partial(only_finding, check)


def writeback(*tokens: str, **changes: Any) -> Filesystem:
    """Build a filesystem with data=writeback, which its fstab entry also sets."""
    values = {"fstab": known((fstab_entry(WRITEBACK, *tokens),)), **changes}
    return filesystem(options=known(options(WRITEBACK, *tokens)), **values)


@pytest.mark.parametrize(
    ("place", "severity"),
    [
        ("/data", Severity.MEDIUM),
        ("/", Severity.MEDIUM),
        ("/homework", Severity.MEDIUM),
        ("/home", Severity.HIGH),
        ("/var/lib/docker", Severity.HIGH),
        ("/var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/a/mount", Severity.HIGH),
    ],
)
def test_severity_is_higher_on_multi_user_filesystems(place: str, severity: Severity) -> None:
    """Data exposed by a crash there belongs to another user."""
    finding = finding_of(writeback(NOLOCK_OFF, mounts=(mount(place),)))
    assert finding.severity is severity
    assert ("mount points", place) in [(each.label, each.value) for each in finding.citations]


OVERLAY = mount(
    "/var/lib/docker/overlay2/1/merged",
    number=DeviceNumber(0, 50),
    fstype="overlay",
    super_options=("rw", "lowerdir=/l", "upperdir=/var/lib/docker/overlay2/1/diff"),
    mount_id=40,
)


@pytest.mark.parametrize(
    ("others", "mounts_around", "severity"),
    [
        ((OVERLAY,), {}, Severity.HIGH),
        ((OVERLAY,), {"container": "docker"}, Severity.MEDIUM),
        (
            (OVERLAY, mount("/var/lib/docker", number=DeviceNumber(8, 16), mount_id=31)),
            {},
            Severity.MEDIUM,
        ),
        ((), {}, Severity.MEDIUM),
    ],
    ids=["on the root", "seen from within", "on another filesystem", "none"],
)
def test_container_layers_count_as_multiple_users(
    others: tuple[Mount, ...], mounts_around: dict[str, Any], severity: Severity
) -> None:
    """Container storage is usually in a directory of the root filesystem."""
    fs = writeback(NOLOCK_OFF, mounts=(mount("/"),))
    finding = finding_of(fs, mounts=known((*fs.mounts, *others)), **mounts_around)
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("place", "tokens", "grade"),
    [
        ("/data", (), (Severity.LOW, Confidence.LIKELY)),
        ("/home", (), (Severity.LOW, Confidence.LIKELY)),
        ("/home", ("nodelalloc",), (Severity.HIGH, Confidence.CONFIRMED)),
        ("/home", ("nodioread_nolock",), (Severity.HIGH, Confidence.CONFIRMED)),
    ],
)
def test_severity_with_unwritten_extents_is_low_and_likely(
    place: str, tokens: tuple[str, ...], grade: tuple[Severity, Confidence]
) -> None:
    """With delalloc and dioread_nolock most new blocks read as zeros until data is written."""
    finding = finding_of(writeback(*tokens, mounts=(mount(place),)))
    assert (finding.severity, finding.confidence) == grade
    assert ("prevent it for most files" in finding.message) is (not tokens)


def test_files_without_extents_have_no_unwritten_blocks() -> None:
    """An ext3 that is mounted as ext4 lists both options, but maps its files without extents."""
    old = superblock(features=superblock().features - {"extent"})
    finding = finding_of(writeback(superblock=known(old)))
    assert (finding.severity, finding.confidence) == (Severity.MEDIUM, Confidence.CONFIRMED)
    unread = verdict_of(writeback(superblock=unknown("superblock")))
    assert unread.findings[0].severity is Severity.LOW
    assert [gap.what for gap in unread.unknowns] == ["superblock"]


def test_severity_on_kernels_without_dioread_nolock_by_default() -> None:
    """Before 5.6 dioread_nolock is off by default."""
    fs = filesystem(options=known(options(WRITEBACK, release="4.19.0-26-amd64")))
    assert finding_of(fs).confidence is Confidence.CONFIRMED


def test_read_only_mount_is_info() -> None:
    """Nothing is being written when it crashes."""
    finding = finding_of(writeback(read_only=known(value=True)))
    assert finding.severity is Severity.INFO
    assert finding.message.endswith("as soon as it is mounted writable.")


@pytest.mark.parametrize(
    "fs",
    [
        filesystem(),
        filesystem(options=known(options("data=journal"))),
        filesystem(fstab=known((fstab_entry(WRITEBACK),))),
        filesystem(
            options=known(options("data=ordered")),
            superblock=known(superblock(default_mount_options=("journal_data_writeback",))),
        ),
    ],
    ids=["default", "journal", "fstab not in force", "superblock overruled"],
)
def test_other_modes_pass_with_evidence(fs: Filesystem) -> None:
    """The option in force counts, not what some configuration sets."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.PASS
    assert verdict.evidence[0].label == "option in force: data"


@pytest.mark.parametrize(
    ("fs", "note"),
    [
        (filesystem(alive=False, mounts=()), "it is not mounted"),
        (filesystem(options=known(NO_JOURNAL_OPTIONS)), "without a journal"),
    ],
)
def test_not_applicable_without_an_active_journal(fs: Filesystem, note: str) -> None:
    """The options file then has no data= line."""
    verdict = verdict_of(fs)
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert note in (verdict.note or "")


@pytest.mark.parametrize(
    "evidence",
    [unknown("the options"), known(options(complete=False)), known(options("rw", complete=False))],
)
def test_option_missing_from_the_mount_table_is_undetermined(evidence: Any) -> None:
    """The superblock may hide the mode."""
    assert verdict_of(filesystem(options=evidence)).outcome is Outcome.UNDETERMINED


def test_cites_the_superblock_as_the_origin() -> None:
    """DUR002 reports that it is hidden; this rule reports its effect."""
    fs = filesystem(
        options=known(options(hidden=[WRITEBACK])),
        superblock=known(superblock(default_mount_options=("journal_data_writeback",))),
    )
    finding = finding_of(fs)
    assert ("set by", "superblock, default mount options") in [
        (each.label, each.value) for each in finding.citations
    ]
    commands = [step.command for step in finding.remedies[0].lines]
    assert commands == [
        "umount /data",
        "tune2fs -o ^journal_data_writeback /dev/sda",
        "mount -t ext4 -o rw,relatime /dev/sda /data",
        "grep -qx data=ordered /proc/fs/ext4/sda/options",
        (
            "tune2fs -l /dev/sda | grep -q UUID: && "
            "! tune2fs -l /dev/sda | grep -iE '^(default )?mount options:' "
            "| grep -qwE 'data=writeback|journal_data_writeback'"
        ),
        "umount /data",
        "tune2fs -o journal_data_writeback /dev/sda",
        "mount -t ext4 -o rw,relatime,data=writeback /dev/sda /data",
    ]


def test_remedy_edits_fstab_before_the_unmount() -> None:
    """No remount changes the mode, and a mount before the edit would read the old option."""
    (remedy,) = finding_of(writeback()).remedies
    assert step_lines(remedy.steps) == [
        "persistent: fstab 7: data=writeback -> defaults",
        "immediate: umount /data",
        "immediate: mount -t ext4 -o rw,relatime /dev/sda /data",
        "verify: grep -qx data=ordered /proc/fs/ext4/sda/options",
    ]
    assert remedy.disruption is Disruption.UNMOUNT


def test_remedy_removes_journal_async_commit_too() -> None:
    """The kernel refuses the option in ordered mode."""
    (remedy,) = finding_of(writeback("journal_async_commit")).remedies
    assert "journal_async_commit is removed too" in remedy.summary
    checks = [step.command for step in remedy.lines if step.phase is Phase.VERIFY]
    assert any("! grep -qx journal_async_commit" in command for command in checks)


@pytest.mark.parametrize(
    ("fs", "arguments", "words"),
    [
        (
            writeback(mounts=(mount("/"),), fstab=known((fstab_entry(mount_point="/"),))),
            ("rootflags=data=writeback",),
            "Then restart: the root cannot be unmounted. Correct rootflags=",
        ),
        (
            writeback(mounts=(mount(), mount("/bind", root="/dir", mount_id=31))),
            (),
            "Then unmount it from all its mount points",
        ),
        (writeback(mounts=()), (), "in the mount namespace that has it mounted"),
    ],
    ids=["root", "several mounts", "another namespace"],
)
def test_no_unmount_command_if_one_unmount_is_not_enough(
    fs: Filesystem, arguments: tuple[str, ...], words: str
) -> None:
    """The origin of the mode is still corrected, and the advice describes the rest."""
    (remedy,) = finding_of(fs, kernel_arguments=known(arguments)).remedies
    assert words in remedy.summary
    assert not any(step.command.startswith(("umount", "mount")) for step in remedy.lines)


def test_root_remedy_requires_a_restart() -> None:
    """The remedy says so at its start."""
    fs = writeback(mounts=(mount("/"),), fstab=known((fstab_entry(WRITEBACK, mount_point="/"),)))
    (remedy,) = finding_of(fs).remedies
    assert remedy.disruption is Disruption.REBOOT
    assert Phase.PERSISTENT in [step.phase for step in remedy.lines]


# Back to data=ordered: unmounted, after correcting what set data=writeback.
SUMMARY = "Mount with data=ordered"


def _store_a_list(loop_mount: LoopMount) -> None:
    """Write what tune2fs 1.47.0 cannot: two options in the superblock's string."""
    request = "set_super_value mount_opts data=writeback,commit=30"
    run("debugfs", "-w", "-R", request, loop_mount.device)
    loop_mount.mount("noexec")


REMEDY_CASES = (
    RemedyCase(
        name="by fstab",
        remedy=SUMMARY,
        fstab="noatime,data=writeback",
        mount="noatime,data=writeback",
    ),
    RemedyCase(
        name="by the superblock's bits",
        remedy=SUMMARY,
        tune=("-o", "journal_data_writeback"),
        fstab="defaults",
    ),
    RemedyCase(
        name="by the superblock's string",
        remedy=SUMMARY,
        tune=("-E", "mount_opts=data=writeback"),
    ),
    RemedyCase(
        name="by a list in the superblock's string",
        remedy=SUMMARY,
        mounted=False,
        prepare=_store_a_list,
    ),
    RemedyCase(
        name="by hand, with flags that fstab does not have",
        remedy=SUMMARY,
        mount="nosuid,noexec,commit=30,data=writeback",
    ),
    RemedyCase(
        name="with journal_async_commit, which ordered refuses",
        remedy=SUMMARY,
        fstab="data=writeback,journal_async_commit",
        mount="data=writeback,journal_async_commit",
    ),
    RemedyCase(
        name="as ext3",
        remedy=SUMMARY,
        mkfs_type="ext3",
        mount_type="ext3",
        fstab="data=writeback",
        mount="data=writeback",
    ),
)

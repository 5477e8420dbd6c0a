"""DRF004: a data mode of the root that only fstab sets."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, all_profiles
from ext4audit.finding import Confidence, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf002_fstab_not_active import check as not_active
from ext4audit.rules.drift.drf004_root_data_mode_in_fstab import check
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
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.steps_as_text import step_lines


def root_filesystem(*fstab: str, live: str = "data=ordered", **changes: Any) -> Filesystem:
    """Build the root filesystem with the data mode `live` in force and `fstab` in fstab."""
    values: dict[str, Any] = {
        "mounts": (mount("/"),),
        "options": known(options(live)),
        "fstab": known((fstab_entry(*fstab, mount_point="/"),)),
    }
    return filesystem(**{**values, **changes})


def verdict(fs: Filesystem, *arguments: str, **changes: Any) -> Verdict:
    """Judge one filesystem of a host with these kernel arguments."""
    values: dict[str, Any] = {"kernel_arguments": known(("root=/dev/sda", "ro", *arguments))}
    return judge(check, fs, host(fs, **{**values, **changes}))


WRITEBACK = known(superblock(default_mount_options=("journal_data_writeback", "acl")))
OSTREE = (mount("/sysroot"), mount("/", root="/ostree/deploy/fedora/deploy/1.0"))
STRING = known(superblock(mount_option_string="nodelalloc,data=journal"))

VOID_STRING = known(superblock(mount_option_string="data=journal,noatime"))


@pytest.mark.parametrize(
    ("fs", "arguments", "outcome"),
    [
        (root_filesystem("defaults"), (), Outcome.NOT_APPLICABLE),
        (root_filesystem("data=ordered"), (), Outcome.PASS),
        (root_filesystem("data=writeback"), (), Outcome.FAIL),
        # The root of an ostree system shows only one directory of the filesystem.
        (root_filesystem("data=writeback", mounts=OSTREE), (), Outcome.FAIL),
        (root_filesystem("data=writeback", superblock=WRITEBACK), (), Outcome.PASS),
        (
            root_filesystem("data=ordered", live="data=writeback", superblock=WRITEBACK),
            (),
            Outcome.FAIL,
        ),
        (root_filesystem("data=journal", superblock=STRING), (), Outcome.PASS),
        # The kernel refuses noatime there, and so the whole string.
        (root_filesystem("data=journal", superblock=VOID_STRING), (), Outcome.FAIL),
        (root_filesystem("data=writeback"), ("rootflags=data=writeback",), Outcome.PASS),
        (root_filesystem("data=writeback"), ("rootflags=data=journal",), Outcome.FAIL),
        # An initramfs that mounts with the fstab options (dracut): the mode is in force.
        (root_filesystem("data=writeback", live="data=writeback"), (), Outcome.PASS),
        (root_filesystem("data=journal", mounts=(mount("/data"),)), (), Outcome.NOT_APPLICABLE),
        (
            root_filesystem("data=journal", superblock=known(superblock(features=frozenset()))),
            (),
            Outcome.NOT_APPLICABLE,
        ),
        (root_filesystem("data=journal", fstab=known(())), (), Outcome.NOT_APPLICABLE),
        (root_filesystem("data=journal", fstab=unknown("fstab")), (), Outcome.UNDETERMINED),
        (root_filesystem("data=journal", options=unknown("options")), (), Outcome.UNDETERMINED),
        (
            root_filesystem("data=journal", superblock=unknown("superblock")),
            (),
            Outcome.UNDETERMINED,
        ),
    ],
)
def test_drf004_outcomes(fs: Filesystem, arguments: tuple[str, ...], outcome: Outcome) -> None:
    """The mode must be in force before fstab is read, otherwise the remount at boot fails."""
    assert verdict(fs, *arguments).outcome is outcome


def test_drf004_fstab_of_nixos_is_applied_by_its_initramfs() -> None:
    """The next boot mounts the root with the mode, so that it is drift like any other (DRF002)."""
    entry = fstab_entry("data=writeback", mount_point="/")
    fs = root_filesystem(
        fstab=known((entry._replace(line=entry.line._replace(generator="NixOS")),))
    )
    assert verdict(fs).outcome is Outcome.NOT_APPLICABLE
    (drift,) = judge(not_active, fs, host(fs)).findings
    assert "sets data=writeback, but data=ordered is in force" in drift.message
    (remedy,) = drift.remedies
    assert remedy.summary.startswith("Change fstab to match the options in force")


def judged_on(release: str, fs: Filesystem, *arguments: str, **changes: Any) -> Verdict:
    """Judge one filesystem on a host with this kernel."""
    return verdict(fs, *arguments, kernel=known(kernel(release, "")), **changes)


@pytest.mark.parametrize(
    ("release", "fs", "arguments", "outcome"),
    [
        ("6.18.0", root_filesystem("nodelalloc"), (), Outcome.FAIL),
        ("6.18.0", root_filesystem("nombcache"), (), Outcome.FAIL),
        ("6.18.0", root_filesystem("no_mbcache"), (), Outcome.FAIL),
        ("6.18.0", root_filesystem("dax=never"), (), Outcome.FAIL),
        ("6.12.95", root_filesystem("nodelalloc"), (), Outcome.PASS),
        ("5.4.0", root_filesystem("dax"), (), Outcome.PASS),
        # A remount turns delayed allocation on, and keeps a state that is in force.
        ("6.18.0", root_filesystem("delalloc", live="nodelalloc"), (), Outcome.PASS),
        ("6.18.0", root_filesystem("nodelalloc", live="nodelalloc"), (), Outcome.PASS),
        ("6.18.0", root_filesystem("nodelalloc"), ("rootflags=nodelalloc",), Outcome.PASS),
        ("6.18.0", root_filesystem("nodelalloc", superblock=STRING), (), Outcome.PASS),
        (
            "6.18.0",
            root_filesystem("nodelalloc", superblock=known(superblock(features=frozenset()))),
            (),
            Outcome.FAIL,
        ),
        (
            "6.18.0",
            root_filesystem("nombcache", options=known(options(complete=False))),
            (),
            Outcome.UNDETERMINED,
        ),
    ],
)
def test_drf004_other_options_that_a_remount_refuses(
    release: str, fs: Filesystem, arguments: tuple[str, ...], outcome: Outcome
) -> None:
    """6.18 refuses each of them in a remount to rw, and the filesystem stays ro."""
    assert judged_on(release, fs, *arguments).outcome is outcome


def test_drf004_on_an_unknown_kernel() -> None:
    """Whether a remount turns delayed allocation off depends on its version."""
    unread = unknown("kernel")
    assert verdict(root_filesystem("nodelalloc"), kernel=unread).outcome is Outcome.UNDETERMINED
    assert verdict(root_filesystem("nombcache"), kernel=unread).outcome is Outcome.FAIL


def test_drf004_reports_each_option_by_itself() -> None:
    """A data mode keeps the name that its finding always had."""
    found = judged_on("6.18.0", root_filesystem("data=journal", "nodelalloc"))
    assert [each.fact for each in found.findings] == ["", "nodelalloc"]
    assert {each.severity for each in found.findings} == {Severity.CRITICAL}
    assert [r.summary for r in found.findings[1].remedies] == [
        "Remove nodelalloc from fstab. PRF003 reports nodelalloc."
    ]


def test_drf004_keeps_what_a_profile_requires() -> None:
    """The root needs it on the kernel command line too, which no command edits."""
    tidb = (ActiveProfile(all_profiles()["tidb"]),)
    (finding,) = judged_on("6.18.0", root_filesystem("nodelalloc"), profiles=tidb).findings
    (remedy,) = finding.remedies
    assert (remedy.steps, "rootflags=" in remedy.summary) == ((), True)


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [((), Outcome.PASS), (("rootflags=nodelalloc",), Outcome.FAIL)],
    ids=["DRF004 reports it", "the boot sets it"],
)
def test_drf002_leaves_to_drf004_what_it_reports(
    arguments: tuple[str, ...], outcome: Outcome
) -> None:
    """One entry leads to one finding, and drift that no remount spoils to one of DRF002."""
    fs = root_filesystem("nodelalloc", "relatime")
    changes: dict[str, Any] = {"kernel": known(kernel("6.18.0", ""))}
    found = judge(not_active, fs, host(fs, kernel_arguments=known(arguments), **changes))
    assert found.outcome is outcome


def test_drf004_in_a_container_and_without_the_command_line() -> None:
    """A container does not boot; an unread /proc/cmdline may set the mode."""
    fs = root_filesystem("data=journal")
    assert verdict(fs, container="lxc").outcome is Outcome.NOT_APPLICABLE
    unread = unknown("kernel command line")
    assert verdict(fs, kernel_arguments=unread).outcome is Outcome.UNDETERMINED


@pytest.mark.parametrize(
    ("fs", "arguments", "severity", "confidence"),
    [
        (root_filesystem("data=journal"), (), Severity.CRITICAL, Confidence.LIKELY),
        (root_filesystem("data=journal"), ("rw",), Severity.MEDIUM, Confidence.LIKELY),
        (
            root_filesystem("data=journal", read_only=known(value=True)),
            (),
            Severity.CRITICAL,
            Confidence.CONFIRMED,
        ),
    ],
)
def test_drf004_severity(
    fs: Filesystem, arguments: tuple[str, ...], severity: Severity, confidence: Confidence
) -> None:
    """A root mounted read-write by the kernel stays so; a read-only root confirms the failure."""
    (finding,) = verdict(fs, *arguments).findings
    assert (finding.severity, finding.confidence) == (severity, confidence)


def test_drf004_remedy_removes_the_mode_or_stores_it_in_the_superblock() -> None:
    """The kernel finds a mode in the superblock before any file can be read."""
    stored = superblock(default_mount_options=("journal_data_writeback",))
    live = known(options(hidden=["data=writeback"]))
    fs = root_filesystem("noatime", "data=ordered", superblock=known(stored), options=live)
    (finding,) = verdict(fs).findings
    assert finding.message == (
        "/etc/fstab line 7 sets data=ordered for the root, but neither /proc/cmdline rootflags= "
        "nor the superblock sets it: the next boot's remount fails, and the root stays read-only."
    )
    forget, store = finding.remedies
    assert step_lines(forget.steps)[0] == "persistent: fstab 7: noatime,data=ordered -> noatime"
    assert [(step.phase, step.command) for step in store.lines] == [
        (Phase.PERSISTENT, "tune2fs -o journal_data_ordered /dev/sda"),
        (
            Phase.VERIFY,
            "tune2fs -l /dev/sda | grep -qE '^Default mount options:.* journal_data_ordered( |$)'",
        ),
        (Phase.ROLLBACK, "tune2fs -o journal_data_writeback /dev/sda"),
    ]


@pytest.mark.parametrize(
    ("mode", "code"), [("data=writeback", "DUR003"), ("data=journal", "PRF007")]
)
def test_drf004_remedy_never_stores_a_dangerous_mode(mode: str, code: str) -> None:
    """The remedy refers to that rule, and does not make the mode permanent."""
    (finding,) = verdict(root_filesystem(mode)).findings
    assert [remedy.summary for remedy in finding.remedies] == [
        f"Remove {mode} from fstab. {code} reports {mode}."
    ]


def test_drf002_leaves_the_data_mode_of_the_root_to_drf004() -> None:
    """One entry leads to one finding."""
    fs = root_filesystem("data=journal", "relatime")
    assert judge(not_active, fs, host(fs)).outcome is Outcome.PASS


# An entry for / whose device is mounted elsewhere; the test boots nothing.
def write_root_entry(words: str, loop_mount: LoopMount) -> None:
    """Write an entry that mounts the device as the root."""
    loop_mount.fstab.write_text(f"# test\n{loop_mount.device} / ext4 {words} 0 1\n")


def with_filesystem_as_root(host: Host) -> Host:
    """Return the host with the filesystem as its root."""
    (fs, *_) = host.filesystems
    mounts = tuple(mount._replace(mount_point="/") for mount in fs.mounts)
    entries = host.fstab.value if isinstance(host.fstab, Known) else ()
    own = tuple(e for e in entries if e.line.mount_point == "/")
    entries = tuple(e._replace(device_number=Known(fs.device_number, "test")) for e in own)
    return host._replace(
        filesystems=(fs._replace(mounts=mounts, fstab=Known(entries, "/etc/fstab")),),
        kernel_arguments=Known(("ro",), "/proc/cmdline"),
        container=known(None),
    )


REMEDY_CASES = (
    RemedyCase(
        name="taken out of fstab",
        remedy="from fstab",
        prepare=lambda loop_mount: write_root_entry("errors=remount-ro,data=writeback", loop_mount),
        alter=with_filesystem_as_root,
        # Without the option there is nothing to judge.
        cured=(Outcome.NOT_APPLICABLE,),
    ),
    RemedyCase(
        name="stored in the place of another mode",
        remedy="Store data=ordered",
        tune=("-o", "journal_data_writeback"),
        prepare=lambda loop_mount: write_root_entry("data=ordered", loop_mount),
        alter=with_filesystem_as_root,
    ),
)
REMEDIES_NOT_RUN = (
    "The boot that the mode spoils, and the one that it does not, cannot be run here."
)


@pytest.mark.parametrize(
    ("token", "release", "changes", "outcome"),
    [
        ("data=journal", "6.1.76", {}, Outcome.FAIL),
        ("data=writeback", "6.1.76", {}, Outcome.FAIL),
        ("nombcache", "6.1.76", {}, Outcome.FAIL),
        ("nodelalloc", "6.18.44", {}, Outcome.FAIL),
        ("nodelalloc", "6.1.76", {}, Outcome.PASS),
        ("data=ordered", "6.18.44", {}, Outcome.PASS),
        ("data=writeback", "6.1.76", {"superblock": WRITEBACK}, Outcome.PASS),
        ("data=journal", "6.1.76", {"mounts": (mount("/data"),)}, Outcome.NOT_APPLICABLE),
        ("noatime", "6.1.76", {}, Outcome.NOT_APPLICABLE),
    ],
)
def test_a_plan_has_no_option_in_force_before_the_remount_of_the_root(
    token: str, release: str, changes: dict[str, Any], outcome: Outcome
) -> None:
    """The options of a plan are those of fstab; the first mount of the root is without them."""
    fs = root_filesystem(token, live=token, **changes)
    judged = judge(
        check,
        fs,
        host(fs, planned=True, kernel=known(kernel(release)), kernel_arguments=known(())),
    )
    assert judged.outcome is outcome
    for finding in judged.findings:
        assert finding.severity is Severity.CRITICAL
        assert "which only rootflags= of the boot loader or the superblock" in finding.message
        assert [remedy.steps for remedy in finding.remedies] == [()]


def test_a_plan_for_an_unknown_kernel_may_name_an_option_that_its_remount_refuses() -> None:
    """Whether a remount sets nodelalloc depends on the kernel."""
    fs = root_filesystem("nodelalloc", live="nodelalloc")
    unsure = host(fs, planned=True, kernel=unknown("--kernel"), kernel_arguments=known(()))
    assert judge(check, fs, unsure).outcome is Outcome.UNDETERMINED

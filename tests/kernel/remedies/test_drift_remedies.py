"""Drift between fstab and the kernel: the printed commands are run, and cure it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.engine import judge
from ext4audit.finding import Phase, Remedy
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drift.drf006_fstab_entry_not_mounted import check as not_mounted
from support.filesystems.scratch import (
    Scratch,
    apply_remedy,
    assembled_host,
    roll_back,
    run,
    unique_label,
)
from support.remedies.case import succeeds

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("remedies")]
Make = Callable[..., Scratch]


def write_fstab(fstab: Path, one: Scratch, options: str) -> None:
    """Write an fstab with one entry, by UUID if the loop device is not attached yet."""
    fstab.write_text(f"# scratch\n{one.image} {one.mount_point} ext4 loop,{options} 0 0\n")


def remedy(verdict: Verdict, word: str) -> Remedy:
    """Return the remedy whose summary contains a word."""
    assert verdict.outcome is Outcome.FAIL
    (finding,) = verdict.findings
    return next(remedy for remedy in finding.remedies if word in remedy.summary)


def test_drf001_keeps_a_remounted_option_over_an_unmount(scratch: Make, etc: Path) -> None:
    """After the fstab edit the option is in force again after unmount and mount."""
    one = scratch().make().mount("commit=20")
    write_fstab(etc, one, "nosuid")
    run("mount", "-o", "remount,nosuid", one.mount_point)
    apply_remedy(remedy(one.judge("DRF001"), "Keep"))
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF001").outcome is Outcome.PASS
    assert "commit=20" in one.mount_table_options
    one.unmount()
    one.fsck()


def test_drf001_remount_applies_fstab(scratch: Make, etc: Path) -> None:
    """The remount applies the intended option, and its rollback the old one."""
    one = scratch().make().mount("nobarrier")
    write_fstab(etc, one, "relatime")
    back = remedy(one.judge("DRF001"), "Revert to")
    apply_remedy(back)
    assert one.judge("DRF001").outcome is Outcome.PASS
    roll_back(back)
    assert one.judge("DRF001").outcome is Outcome.FAIL


def test_drf001_offers_no_remount_that_the_kernel_ignores(scratch: Make, etc: Path) -> None:
    """`prefetch_block_bitmaps` is accepted without effect, so only the edit of fstab is offered."""
    one = scratch().make().mount("no_prefetch_block_bitmaps")
    write_fstab(etc, one, "relatime")
    (finding,) = one.judge("DRF001").findings
    assert [each.summary.partition(":")[0] for each in finding.remedies] == ["Keep it"]
    run("mount", "-o", "remount,prefetch_block_bitmaps", one.device, one.mount_point)
    assert one.judge("DRF001").outcome is Outcome.FAIL


def test_drf002_sets_a_state_whose_default_no_kernel_lists(scratch: Make, etc: Path) -> None:
    """Without `data_err=abort`, the options file has no data_err= at all."""
    one = scratch().make().mount()
    write_fstab(etc, one, "data_err=abort")
    cure = remedy(one.judge("DRF002"), "Remount with the options")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    assert one.judge("DRF002").outcome is Outcome.FAIL


def test_drf001_rollback_of_the_edit_restores_fstab(scratch: Make, etc: Path) -> None:
    """After apply and rollback fstab is byte for byte the same."""
    one = scratch().make().mount("commit=20")
    write_fstab(etc, one, "relatime")
    before = etc.read_bytes()
    keep = remedy(one.judge("DRF001"), "Keep")
    apply_remedy(keep)
    assert etc.read_bytes() != before
    roll_back(keep)
    assert etc.read_bytes() == before


def test_drf002_remount_activates_fstab_options(scratch: Make, etc: Path) -> None:
    """Options and flags that fstab sets take effect, and are rolled back."""
    one = scratch().make().mount("nodev")
    write_fstab(etc, one, "nodev,noatime,commit=30,nosuid,noinit_itable")
    cure = remedy(one.judge("DRF002"), "Remount with the options")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    verdict = one.judge("DRF002")
    assert verdict.outcome is Outcome.FAIL
    assert "nodev" in one.mount_table_options


def test_drf002_removes_an_inactive_data_mode_from_fstab(scratch: Make, etc: Path) -> None:
    """A remount cannot change a data mode; fstab can be changed to match."""
    one = scratch().make().mount()
    write_fstab(etc, one, "data=writeback")
    apply_remedy(remedy(one.judge("DRF002"), "Change fstab to match"))
    assert one.judge("DRF002").outcome is Outcome.PASS
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF002").outcome is Outcome.PASS


def test_drf002_remount_keeps_flags_that_fstab_does_not_know(scratch: Make, etc: Path) -> None:
    """A nosuid and read-only mount stays so; the option takes effect, no flag changes.

    A hardening flag is judged by SEC002, whose remedy restores it.
    """
    one = scratch().make().mount("nosuid,ro")
    write_fstab(etc, one, "noexec,init_itable=20")
    cure = remedy(one.judge("DRF002"), "Remount with the options")
    flags = run("findmnt", "-no", "VFS-OPTIONS", one.mount_point)
    assert {"ro", "nosuid"} <= set(flags.strip().split(","))
    apply_remedy(cure)
    assert run("findmnt", "-no", "VFS-OPTIONS", one.mount_point) == flags
    assert "init_itable=20" in one.mount_table_options
    roll_back(cure)
    assert run("findmnt", "-no", "VFS-OPTIONS", one.mount_point) == flags
    assert "init_itable=20" not in one.mount_table_options


def test_drf002_writes_the_active_option_to_fstab(scratch: Make, etc: Path) -> None:
    """The option in fstab is replaced by the one that a remount has put in force."""
    one = scratch().make().mount("commit=20")
    write_fstab(etc, one, "commit=10")
    before = etc.read_bytes()
    cure = remedy(one.judge("DRF002"), "Change fstab to match")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    assert one.judge("DRF001").outcome is Outcome.PASS
    roll_back(cure)
    assert etc.read_bytes() == before


def test_drf006_mounts_the_entry(scratch: Make, etc: Path) -> None:
    """An entry whose device exists is mounted by the printed command, and rolled back."""
    one = scratch().make()
    one.mount_point.mkdir()
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        etc.write_text(f"{device} {one.mount_point} ext4 defaults 0 0\n")

        def verdict() -> Verdict:
            return judge(not_mounted, None, assembled_host())

        (finding,) = verdict().findings
        apply_remedy(finding.remedies[0])
        assert verdict().outcome is Outcome.PASS
        roll_back(finding.remedies[0])
        assert verdict().outcome is Outcome.FAIL
    finally:
        run("losetup", "--detach", device)


@pytest.mark.parametrize("word", ["relatime", "atime", "noatime"])
def test_drf002_remount_changes_access_times(scratch: Make, etc: Path, word: str) -> None:
    """The remount names the option, because otherwise the kernel keeps the one in force."""
    one = scratch().make().mount("relatime" if word == "noatime" else "noatime")
    write_fstab(etc, one, word)
    cure = remedy(one.judge("DRF002"), "Remount with the options")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    assert one.judge("DRF002").outcome is Outcome.FAIL


@pytest.mark.parametrize("words", ["errors=remount-ro", "lazytime", "errors=remount-ro,nodiratime"])
def test_drf002_remount_brings_errors_and_flags_in_force(
    scratch: Make, etc: Path, words: str
) -> None:
    """An explicit errors= is compared, and a remount applies it."""
    one = scratch().make().mount("errors=continue")
    write_fstab(etc, one, words)
    cure = remedy(one.judge("DRF002"), "Remount with the options")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    assert one.judge("DRF002").outcome is Outcome.FAIL


def test_drf006_prints_no_mount_that_the_kernel_refuses(
    scratch: Make, etc: Path, tmp_path: Path
) -> None:
    """While it is mounted writable, a second mount of the device with ro is EBUSY."""
    one = scratch().make().mount()
    other = tmp_path / "other"
    other.mkdir()
    etc.write_text(f"{one.device} {other} ext4 ro 0 0\n")
    (finding,) = judge(not_mounted, None, one.host()).findings
    (advice,) = finding.remedies
    assert advice.steps == ()
    with pytest.raises(AssertionError, match="already mounted"):
        run("mount", other)


@pytest.mark.parametrize("word", ["strictatime", "sync", "nobarrier", "discard", "commit=300"])
def test_drf001_never_adds_a_dangerous_option_to_fstab(scratch: Make, etc: Path, word: str) -> None:
    """The finding names that rule, and offers no command that would make the option permanent."""
    one = scratch().make().mount(word)
    write_fstab(etc, one, "defaults")
    (finding,) = one.judge("DRF001").findings
    assert "reports" in finding.remedies[0].summary
    assert not any(step.phase is Phase.PERSISTENT for r in finding.remedies for step in r.steps)


@pytest.mark.parametrize("word", ["noatime", "nodiratime", "lazytime"])
def test_drf001_keeps_a_flag_over_an_unmount(scratch: Make, etc: Path, word: str) -> None:
    """Flags that mountinfo shows elsewhere or not at all are found and added to fstab."""
    one = scratch().make().mount(word)
    write_fstab(etc, one, "nodev")
    run("mount", "-o", f"remount,nodev,{word}", one.mount_point)
    apply_remedy(remedy(one.judge("DRF001"), "Keep"))
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF001").outcome is Outcome.PASS
    assert one.judge("DRF002").outcome is Outcome.PASS


@pytest.mark.parametrize("spec", ["LABEL=gone", "UUID=00c0ffee", "/dev/gone", "/srv/gone.img"])
def test_an_entry_whose_device_is_gone_is_found(scratch: Make, etc: Path, spec: str) -> None:
    """Another filesystem is mounted on its mount point: the next boot fails."""
    one = scratch().make().mount()
    etc.write_text(f"{spec} {one.mount_point} ext4 defaults 0 2\n")
    found = judge(not_mounted, None, one.host())
    assert found.outcome is Outcome.FAIL
    assert "a different filesystem is mounted" in found.findings[0].message
    for code in ("DRF001", "DRF002"):
        assert one.judge(code).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize("spelling", ["{0}", "/{0}", "{parent}/./mnt/", "{link}"])
def test_drf006_normalizes_mount_points(
    scratch: Make, etc: Path, tmp_path: Path, spelling: str
) -> None:
    """mount(8) follows links and folds slashes; so does the audit, for a label and an image."""
    label = unique_label()
    one = scratch().make("-L", label).mount()
    link = tmp_path / "link"
    link.symlink_to(one.mount_point)
    where = spelling.format(one.mount_point, parent=tmp_path, link=link)
    for spec in (f"LABEL={label}", str(one.image)):
        etc.write_text(f"{spec} {where} ext4 loop 0 2\n")
        assert judge(not_mounted, None, one.host()).outcome is Outcome.PASS
        assert one.judge("DRF001").outcome is Outcome.PASS


@pytest.mark.parametrize("spelling", ["/{0}", "{parent}/./mnt/", "{link}"])
@pytest.mark.parametrize("word", ["Remount with the options", "Change fstab to match"])
def test_drf002_fixes_entries_with_unnormalized_mount_points(
    scratch: Make, etc: Path, tmp_path: Path, spelling: str, word: str
) -> None:
    """The remount finds the entry, and the edit finds the line."""
    label = unique_label()
    one = scratch().make("-L", label).mount()
    link = tmp_path / "link"
    link.symlink_to(one.mount_point)
    where = spelling.format(one.mount_point, parent=tmp_path, link=link)
    etc.write_text(f"LABEL={label} {where} ext4 nosuid,noatime 0 2\n")
    apply_remedy(remedy(one.judge("DRF002"), word))
    assert one.judge("DRF002").outcome is Outcome.PASS


def test_drf006_finds_another_filesystem_on_the_mount_point(scratch: Make, etc: Path) -> None:
    """A tmpfs on the mount point is not the filesystem that fstab names."""
    one = scratch().make()
    one.mount_point.mkdir()
    run("mount", "-t", "tmpfs", "none", one.mount_point)
    write_fstab(etc, one, "defaults")
    found = judge(not_mounted, None, assembled_host())
    assert found.outcome is Outcome.FAIL
    assert "a different filesystem is mounted" in found.findings[0].message


def test_a_host_without_fstab_is_judged_whole(scratch: Make, etc: Path) -> None:
    """A missing file means no entries: nothing is undetermined."""
    one = scratch().make().mount()
    etc.unlink()
    outcomes = {one.judge(code).outcome for code in ("DRF001", "DRF002")}
    assert outcomes == {Outcome.NOT_APPLICABLE}
    assert judge(not_mounted, None, one.host()).outcome is Outcome.NOT_APPLICABLE


@pytest.mark.parametrize(
    "word", ["bogus_opt=1", "noacl", "commit=x", "delalloc=1", "journal_async_commit", "nobh"]
)
def test_drf002_removes_refused_and_ignored_options(scratch: Make, etc: Path, word: str) -> None:
    """Refused options mount after the edit, and the rollback restores fstab."""
    one = scratch().make().mount("noatime")
    write_fstab(etc, one, f"noatime,{word}")
    before = etc.read_bytes()
    cure = remedy(one.judge("DRF002"), f"Remove {word}")
    apply_remedy(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    assert etc.read_bytes() == before
    assert one.judge("DRF002").outcome is Outcome.FAIL


def test_drf002_reports_options_that_mount_refuses(scratch: Make, etc: Path) -> None:
    """The entry passes `findmnt --verify`, but mount(8) fails."""
    one = scratch().make().mount()
    write_fstab(etc, one, "bogus_opt=1")
    (finding,) = one.judge("DRF002").findings
    assert "refuses" in finding.message
    one.unmount()
    with pytest.raises(AssertionError, match=str(one.mount_point)):
        run("mount", one.mount_point)


@pytest.mark.parametrize(
    ("code", "options", "word"),
    [
        ("SEC002", ("noatime", "nosuid"), ""),
        ("DRF002", ("nosuid", "nosuid,noatime"), "Remount with the options"),
        ("PRF008", ("strictatime", "noatime"), "Remount with"),
        ("PRF012", ("sync", "async"), ""),
    ],
)
def test_a_mount_below_on_the_same_directory_is_not_taken_for_it(
    scratch: Make, etc: Path, code: str, options: tuple[str, str], word: str
) -> None:
    """The lower mount makes neither the done check nor the verification pass early.

    `options` are the mount's and fstab's.
    """
    mounted, wanted = options
    one = scratch().make()
    one.mount_point.mkdir()
    run("mount", "-t", "tmpfs", "-o", "nosuid,noatime", "below", one.mount_point)
    one.mount(mounted)
    etc.write_text(f"{one.device} {one.mount_point} ext4 {wanted} 0 0\n")
    cure = remedy(one.judge(code), word)
    done = [step.done for step in cure.steps if step.phase is Phase.IMMEDIATE]
    checks = [step.command for step in cure.steps if step.phase is Phase.VERIFY]
    assert done
    assert not any(map(succeeds, done))
    assert not all(map(succeeds, checks))
    apply_remedy(cure)
    assert all(map(succeeds, (*done, *checks)))
    assert one.judge(code).outcome is Outcome.PASS

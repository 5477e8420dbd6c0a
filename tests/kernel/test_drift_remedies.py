"""Drift between fstab and the kernel: the printed commands are run, and cure it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.finding import Remedy
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.drf006_fstab_entry_not_mounted import check as not_mounted
from ext4audit.sources.live import LiveSource
from scratch import TAKEN_AT, Scratch, apply, roll_back, run

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def write_fstab(fstab: Path, one: Scratch, options: str) -> None:
    """Write an fstab with one entry, by UUID where the loop device is not there yet."""
    fstab.write_text(f"# scratch\n{one.image} {one.mount_point} ext4 loop,{options} 0 0\n")


def remedy(verdict: Verdict, word: str) -> Remedy:
    """Return the remedy whose summary holds a word."""
    assert verdict.outcome is Outcome.FAIL
    (finding,) = verdict.findings
    return next(remedy for remedy in finding.remedies if word in remedy.summary)


def test_drf001_keeps_a_remounted_option_over_an_unmount(scratch: Make, etc: Path) -> None:
    """After the fstab edit the option is in force again after unmount and mount."""
    one = scratch().make().mount("noauto_da_alloc")
    write_fstab(etc, one, "nosuid")
    run("mount", "-o", "remount,nosuid", one.mount_point)
    apply(remedy(one.judge("DRF001"), "Keep"))
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF001").outcome is Outcome.PASS
    assert "noauto_da_alloc" in one.mount_table_options
    one.unmount()
    one.fsck()


def test_drf001_goes_back_to_what_fstab_says(scratch: Make, etc: Path) -> None:
    """The remount puts the intended option in force, and its rollback the old one."""
    one = scratch().make().mount("nobarrier")
    write_fstab(etc, one, "relatime")
    back = remedy(one.judge("DRF001"), "Go back")
    apply(back)
    assert one.judge("DRF001").outcome is Outcome.PASS
    roll_back(back)
    assert one.judge("DRF001").outcome is Outcome.FAIL


def test_drf001_rollback_of_the_edit_restores_fstab(scratch: Make, etc: Path) -> None:
    """After apply and rollback fstab is byte for byte what it was."""
    one = scratch().make().mount("noauto_da_alloc")
    write_fstab(etc, one, "relatime")
    before = etc.read_bytes()
    keep = remedy(one.judge("DRF001"), "Keep")
    apply(keep)
    assert etc.read_bytes() != before
    roll_back(keep)
    assert etc.read_bytes() == before


def test_drf002_remount_makes_fstab_true(scratch: Make, etc: Path) -> None:
    """`mount -o remount` reads fstab again: options and flags take effect, and go back."""
    one = scratch().make().mount("nodev")
    write_fstab(etc, one, "nodev,noatime,commit=30,nosuid,noauto_da_alloc")
    cure = remedy(one.judge("DRF002"), "true")
    apply(cure)
    assert one.judge("DRF002").outcome is Outcome.PASS
    roll_back(cure)
    verdict = one.judge("DRF002")
    assert verdict.outcome is Outcome.FAIL
    assert "nodev" in one.mount_table_options


def test_drf002_takes_an_inactive_data_mode_out_of_fstab(scratch: Make, etc: Path) -> None:
    """A data mode cannot be remounted; fstab can be made to say what runs."""
    one = scratch().make().mount()
    write_fstab(etc, one, "data=writeback")
    apply(remedy(one.judge("DRF002"), "say what runs"))
    assert one.judge("DRF002").outcome is Outcome.PASS
    one.unmount()
    run("mount", one.mount_point)
    assert one.judge("DRF002").outcome is Outcome.PASS


def test_drf006_mounts_what_fstab_wants(scratch: Make, etc: Path) -> None:
    """An entry whose device is here is mounted by the printed command, and rolled back."""
    one = scratch().make()
    one.mount_point.mkdir()
    device = run("losetup", "--find", "--show", one.image).strip()
    try:
        etc.write_text(f"{device} {one.mount_point} ext4 defaults 0 0\n")

        def verdict() -> Verdict:
            return judge(not_mounted, None, assemble_host(LiveSource(), TAKEN_AT))

        (finding,) = verdict().findings
        apply(finding.remedies[0])
        assert verdict().outcome is Outcome.PASS
        roll_back(finding.remedies[0])
        assert verdict().outcome is Outcome.FAIL
    finally:
        run("losetup", "--detach", device)

"""What a printed command must never do besides its cure, on the real kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ext4audit.evidence import need
from ext4audit.report import Outcome
from support.scratch import Scratch, apply, judge_host, roll_back, run, scan

pytestmark = pytest.mark.kernel
Make = Callable[..., Scratch]


def in_force(one: Scratch) -> set[str]:
    """Return the tokens in force."""
    return {option.token for option in need(one.filesystem().options).options}


@pytest.mark.parametrize(
    "fstab",
    ["nobarrier,discard,commit=99", "ro,nosuid,noexec,noatime,sync", "users,strictatime"],
)
def test_a_remount_brings_nothing_else_of_fstab_into_force(
    scratch: Make, etc: Path, fstab: str
) -> None:
    """Fstab says more than what runs: the cure for one option leaves all others as they are."""
    one = scratch().make().mount("noauto_da_alloc")
    etc.write_text(f"{one.image} {one.mount_point} ext4 loop,{fstab} 0 0\n")
    before, flags = in_force(one), one.filesystem().mounts[0]
    (finding,) = one.judge("DRF001").findings
    back = next(remedy for remedy in finding.remedies if "Go back" in remedy.summary)
    apply(back)
    assert before ^ in_force(one) == {"noauto_da_alloc", "auto_da_alloc"}
    after = one.filesystem().mounts[0]
    assert (after.mount_options, set(after.super_options) - {"noauto_da_alloc"}) == (
        flags.mount_options,
        set(flags.super_options) - {"noauto_da_alloc"},
    )
    roll_back(back)
    assert in_force(one) == before


def test_no_command_is_printed_for_a_mount_that_another_hides(scratch: Make) -> None:
    """A remount by mount point would act on the filesystem on top."""
    below = scratch("same").make().mount("nobarrier")
    device = below.device
    above = scratch("same").make().mount()
    verdict = judge_host(scan(device), "DUR001")
    assert verdict.outcome is Outcome.FAIL
    assert "once no other mount hides it" in verdict.findings[0].remedies[0].summary
    assert verdict.findings[0].remedies[0].steps == ()
    assert above.judge("DUR001").outcome is Outcome.PASS


def test_an_edit_of_a_changed_fstab_fails_aloud_and_keeps_a_copy_of_each_state(
    scratch: Make, etc: Path
) -> None:
    """The verification of the second edit of a line fails; what stood there before is kept."""
    one = scratch().make().mount("commit=30,max_batch_time=30000")
    original = f"{one.image} {one.mount_point} ext4 loop,noatime 0 0\n"
    etc.write_text(original)
    (finding,) = one.judge("DRF001").findings
    keep = next(remedy for remedy in finding.remedies if "Keep" in remedy.summary)
    apply(keep)
    (copy,) = Path("/etc").glob("fstab.2*")
    assert copy.read_text() == original
    etc.write_text(original.replace("noatime", "relatime"))
    run("rm", *Path("/etc").glob("fstab.2*"))
    changed = etc.read_bytes()
    with pytest.raises(AssertionError, match="sed -n 1p /etc/fstab"):
        apply(keep)
    assert etc.read_bytes() == changed
    assert [path.read_bytes() for path in Path("/etc").glob("fstab.2*")] == [changed]

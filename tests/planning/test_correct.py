"""correct: the fewest changes that leave nothing to find."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import unknown
from ext4audit.finding import Severity
from ext4audit.planning.correct import correct
from planned import disk_plan, judge_by, plan
from real_mke2fs import needs_e2fsprogs

pytestmark = needs_e2fsprogs


def test_twelve_disks_are_corrected_and_then_clean() -> None:
    """The corrected plan is judged by the same rules, and they find nothing."""
    judge = judge_by("LAY001", "DUR001", "DUR002", "PRF001", "DRF001", "DRF002", "DRF006")
    found = correct(plan("-m 0", "noatime", "nobarrier"), judge)
    assert [each.summary for each in found.changes] == [
        "Make it with -g 32744 -G 16",
        "Leave nobarrier out of the mount options",
    ]
    assert found.plan.mkfs.values == (("-m", "0"), ("-g", "32744"), ("-G", "16"))
    assert found.plan.mount_options == ("noatime",)
    assert (found.clean, found.left) == (True, ())
    assert judge(found.plan).findings == ()


def test_a_plan_without_findings_stays_as_it_is() -> None:
    """Odd numbers of disks need nothing."""
    of = plan("", "noatime", members=11)
    found = correct(of, judge_by("LAY001", "DUR001"))
    assert (found.plan, found.changes, found.clean) == (of, (), True)


def test_notes_are_left_alone() -> None:
    """A finding that only informs is no reason to change anything."""
    of = disk_plan(size_bytes=256 << 20)
    judge = judge_by("PRF002")
    assert [each.severity for each in judge(of).findings] == [Severity.INFO]
    found = correct(of, judge)
    assert found.plan == of
    assert found.clean


def test_what_is_left_is_named() -> None:
    """What no change of the plan cures, and what is not known."""
    of = disk_plan(size_bytes=400 << 30)
    assert correct(of, judge_by("PRF002")).left == ("PRF002",)
    of = replace(of, host=replace(of.host, kernel=unknown("kernel of the plan")))
    found = correct(of, judge_by("PRF001", "DUR001"))
    assert (found.left, found.clean) == (("2 not determined",), False)


@pytest.mark.parametrize("word", ["bogus_opt=1", "noacl", "commit=x", "journal_async_commit"])
def test_a_word_that_the_kernel_refuses_is_left_out(word: str) -> None:
    """The lines of the corrected plan mount."""
    judge = judge_by("DRF002")
    found = correct(disk_plan("", "noatime", word), judge)
    assert found.plan.mount_options == ("noatime",)
    assert found.clean

"""correct: the fewest changes that leave no findings."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from ext4audit.facts.plan import Plan
from ext4audit.finding import Disruption, Finding, Severity
from ext4audit.planning.lines import correct, plan_lines, with_plan_remedies
from support.builders import known, memory, superblock, unknown
from support.hosts.plans import disk_plan, judge_by, plan
from support.images.mke2fs import needs_e2fsprogs


def lines(of: Plan, **fields: object) -> dict[str, str]:
    """Return the commands by key, for a superblock with some fields changed."""
    return {line.key: line.command for line in plan_lines(of, superblock(**fields))}


def test_the_lines_of_an_array() -> None:
    """The user's arguments come first, then the numbers of the stripe."""
    found = lines(plan("-g 32744 -G 16 -m 0", "noatime"), blocks_per_group=32744)
    assert found == {
        "mkfs": "mkfs.ext4 -g 32744 -G 16 -m 0 -E stride=128,stripe_width=1536 /dev/md0",
        "verify": "dumpe2fs -h /dev/md0 2>/dev/null | grep -Eq '^Blocks per group: +32744$'",
        "mount": "mkdir -p /data && mount -t ext4 -o noatime /dev/md0 /data",
        "fstab": "printf 'UUID=%s %s ext4 %s 0 2\\n' "
        '"$(blkid -s UUID -o value /dev/md0)" /data noatime',
        "tune2fs_stripe": "tune2fs -E stride=128,stripe_width=1536 /dev/md0",
    }


@pytest.mark.parametrize(
    ("of", "line"),
    [
        (disk_plan(), "mkfs.ext4 /dev/sdX"),
        (disk_plan("-F -q -L x -O ^64bit"), "mkfs.ext4 -F -q -L x -O '^64bit' /dev/sdX"),
        (disk_plan("-t ext3 -m 0"), "mkfs.ext3 -m 0 /dev/sdX"),
        (disk_plan("-L '$(reboot)'"), "mkfs.ext4 -L '$(reboot)' /dev/sdX"),
        (plan("-E stride=16"), "mkfs.ext4 -E stride=16,stripe_width=1536 /dev/md0"),
    ],
)
def test_the_line_of_mkfs(of: Plan, line: str) -> None:
    """Every argument is quoted for the shell; the user's numbers of the stripe stay."""
    assert lines(of)["mkfs"] == line


def test_cleared_defaults_have_a_line() -> None:
    """tune2fs clears them after mke2fs has set them."""
    assert lines(disk_plan(cleared=("nobarrier", "discard")))["tune2fs"] == (
        "tune2fs -o '^nobarrier,^discard' /dev/sdX"
    )


def test_a_mount_point_is_quoted_for_the_shell_and_for_fstab() -> None:
    """A blank is octal in fstab (fstab(5))."""
    found = lines(disk_plan("", mount_point="/srv/my data"))
    assert found["mount"] == "mkdir -p '/srv/my data' && mount -t ext4 /dev/sdX '/srv/my data'"
    assert shlex.split(found["fstab"])[-2:] == ["/srv/my\\040data", "defaults"]


@pytest.mark.parametrize("uuid", ["clear", "NULL", "00000000-0000-0000-0000-000000000000"])
def test_a_filesystem_without_a_uuid_is_named_by_its_device(uuid: str) -> None:
    """For such a device blkid prints nothing: the line must not begin with "UUID= "."""
    words = shlex.split(lines(disk_plan(f"-U {uuid}"))["fstab"])
    assert words == ["printf", "%s %s ext4 %s 0 2\\n", "/dev/sdX", "/data", "defaults"]
    assert "blkid" in lines(disk_plan("-U random"))["fstab"]


def test_the_root_is_checked_first() -> None:
    """The last field of the fstab line sets the order."""
    found = lines(disk_plan("", mount_point="/"))
    assert "0 1\\n" in found["fstab"]
    assert "mount" not in found  # it would be mounted over the root of the running system


def test_without_a_superblock_there_is_nothing_to_check() -> None:
    """The stripe numbers are missing as well, because they are counted in blocks."""
    keys = [line.key for line in plan_lines(plan(), None)]
    assert keys == ["mkfs", "mount", "fstab"]


pytestmark = needs_e2fsprogs
AL2 = "4.19.91-25.6.al7.x86_64"


def finding(of: Plan, *codes: str) -> Finding:
    """Return the first rule's finding on a plan, as it is reported."""
    judge = judge_by(*codes)
    report = with_plan_remedies(of, judge(of), judge)
    return next(v.findings[0] for v in report.verdicts if v.rule.code == codes[0])


def test_no_remedy_has_a_command() -> None:
    """There is no mount to remount and no device to tune: the lines have the commands."""
    of = plan("", "nobarrier", "nodelalloc", "dioread_nolock", release=AL2)
    judge = judge_by()
    report = with_plan_remedies(of, judge(of), judge)
    remedies = [remedy for each in report.findings for remedy in each.remedies]
    assert remedies
    assert {remedy.steps for remedy in remedies} == {()}
    assert {remedy.disruption for remedy in remedies} <= {Disruption.ONLINE, Disruption.REBOOT}
    assert not any(remedy.destructive for remedy in remedies)


def test_the_remedy_leaves_out_a_harmful_option() -> None:
    """Other advice of the rule stays if it has no command."""
    remedies = finding(disk_plan("", "nobarrier"), "DUR001").remedies
    assert remedies[0].summary == "Leave nobarrier out of the mount options."
    assert remedies[1].summary.startswith("If it was set for speed")
    assert len(remedies) == 2


def test_each_single_change_is_a_remedy() -> None:
    """A change may cause a note: without nodelalloc a rename may wait."""
    words = ("nodelalloc", "dioread_nolock")
    of = disk_plan("", *words, release=AL2, size_bytes=256 << 20)
    assert [each.summary for each in finding(of, "PRF001", "PRF002").remedies] == [
        "Leave nodelalloc out of the mount options.",
        "Leave dioread_nolock out of the mount options.",
        "Update the kernel to 4.19.91-26.al7 or later, and restart.",
    ]


def test_a_hotspot_has_the_groups_that_fit() -> None:
    """Growing an array that does not exist yet is not a remedy."""
    remedies = finding(plan(), "LAY001").remedies
    assert [each.summary for each in remedies] == ["Create it with -g 32744 -G 16."]


def test_no_evidence_has_a_file_as_its_origin() -> None:
    """A plan reads neither /proc nor fstab."""
    of = plan("", "nobarrier")
    judge = judge_by()
    report = with_plan_remedies(of, judge(of), judge)
    cited = [*(c for f in report.findings for c in f.citations)]
    cited += [c for v in report.verdicts for c in v.evidence]
    assert cited
    assert not [each for each in cited if each.origin.startswith("/")]


def test_twelve_disks_are_corrected_and_then_clean() -> None:
    """The corrected plan is judged by the same rules, and they find nothing."""
    judge = judge_by("LAY001", "DUR001", "DUR002", "PRF001", "DRF001", "DRF002", "DRF006")
    found = correct(plan("-m 0", "noatime", "nobarrier"), judge)
    assert [each.summary for each in found.changes] == [
        "Create it with -g 32744 -G 16",
        "Leave nobarrier out of the mount options",
    ]
    assert found.plan.mkfs.values == (("-m", "0"), ("-g", "32744"), ("-G", "16"))
    assert found.plan.mount_options == ("noatime",)
    assert (found.clean, found.left) == (True, ())
    assert judge(found.plan).findings == ()


def test_a_plan_without_findings_stays_as_it_is() -> None:
    """An odd number of disks needs no change."""
    of = plan("", "noatime", members=11)
    found = correct(of, judge_by("LAY001", "DUR001"))
    assert (found.plan, found.changes, found.clean) == (of, (), True)


def test_notes_cause_no_change() -> None:
    """A finding of severity info does not cause a change."""
    of = disk_plan(size_bytes=400 << 30)
    of = replace(of, host=replace(of.host, memory=known(memory(dirty_bytes=400 << 20))))
    judge = judge_by("PRF002")
    assert [each.severity for each in judge(of).findings] == [Severity.INFO]
    found = correct(of, judge)
    assert found.plan == of
    assert found.clean


def test_what_is_left_is_named() -> None:
    """Findings that no change resolves, and gaps, are listed."""
    of = disk_plan(size_bytes=400 << 30)
    assert correct(of, judge_by("PRF002")).left == ("PRF002",)
    of = replace(of, host=replace(of.host, kernel=unknown("kernel of the plan")))
    found = correct(of, judge_by("PRF001", "DUR001"))
    assert (found.left, found.clean) == (("2 not determined",), False)


@pytest.mark.parametrize("word", ["bogus_opt=1", "noacl", "commit=x", "journal_async_commit"])
def test_an_option_that_the_kernel_refuses_is_left_out(word: str) -> None:
    """Mounting with the lines of the corrected plan succeeds."""
    judge = judge_by("DRF002")
    found = correct(disk_plan("", "noatime", word), judge)
    assert found.plan.mount_options == ("noatime",)
    assert found.clean

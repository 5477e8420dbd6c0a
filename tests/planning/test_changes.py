"""improvements: the changes that make a plan better, each judged by the rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ext4audit.engine import audit
from ext4audit.evidence import need
from ext4audit.facts.host import ActiveProfile, Filesystem, Host, Profile, all_profiles
from ext4audit.facts.plan import Plan
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.planning import Judge, improvements
from ext4audit.planning.lines import correct
from ext4audit.report import Report, ReportSource
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules import all_rules
from support.builders import queue
from support.hosts.plans import disk_plan, host_of, judge_by, plan
from support.images.mke2fs import needs_e2fsprogs

pytestmark = needs_e2fsprogs
RULES = [each for each in all_rules() if each.code in {"CMP007", "PRF001", "DUR001"}]
THREE = Profile("three", "site", "at most 3 % for root", "/etc/x.toml", reserved_percent=3)


def demands_judge_by(*names: str) -> Judge:
    """Return the judge of a plan for these products."""
    known = {**all_profiles(), THREE.name: THREE}
    profiles = [ActiveProfile(known[name]) for name in names]

    def judge(plan: Plan) -> Report:
        return audit(ReportSource("plan", "planned"), host_of(plan), RULES, profiles)

    return judge


@pytest.mark.parametrize(
    ("plan", "names", "options"),
    [
        (disk_plan(), ("kafka",), ()),
        (disk_plan(), ("postgres",), ()),
        (disk_plan(), ("tidb",), ("nodelalloc", "noatime")),
        (disk_plan(), ("tidb", "postgres"), ("nodelalloc", "noatime")),
        (disk_plan(mount_options=("nobarrier",)), ("etcd",), ("barrier",)),
        (
            disk_plan(mount_options=("relatime", "nosuid", "delalloc")),
            ("tidb",),
            ("nosuid", "nodelalloc", "noatime"),
        ),
        (
            disk_plan(release="5.6.12"),
            ("daos",),
            ("nodelalloc", "dioread_lock"),
        ),
        (disk_plan(), ("lustre",), ("errors=remount-ro",)),
    ],
)
def test_the_mount_options_that_are_demanded_are_added(
    plan: Plan, names: tuple[str, ...], options: tuple[str, ...]
) -> None:
    """Opposite options are removed, effective ones are not added, and PRF001 passes."""
    corrected = correct(plan, demands_judge_by(*names))
    assert corrected.plan.mount_options == options
    assert corrected.clean


@pytest.mark.parametrize(
    ("plan", "names", "arguments"),
    [
        (disk_plan(), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-O ^bigalloc"), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-O bigalloc -C 65536"), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-m 5"), ("k8s-csi",), ("-m", "0")),
        (disk_plan("-m 1"), ("k8s-csi",), ("-m", "1")),
        (disk_plan("-m 5"), ("three",), ("-m", "3")),
    ],
)
def test_the_mke2fs_arguments_that_are_demanded_are_added(
    plan: Plan, names: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    """Features, cluster size and reserve are set by mke2fs."""
    corrected = correct(plan, demands_judge_by(*names))
    assert corrected.plan.mkfs.arguments() == arguments
    assert corrected.clean


def test_a_change_names_the_product_that_demands_it() -> None:
    """The plan shows the reason for each line."""
    (change,) = correct(disk_plan(), demands_judge_by("daos")).changes
    assert change.summary == "Add nodelalloc to the mount options, by demand of DAOS"


def test_what_no_plan_can_give_is_left() -> None:
    """A filesystem other than ext4 is not a change of the plan, and a note causes no change."""
    corrected = correct(disk_plan(), demands_judge_by("mongodb"))
    assert not corrected.changes


AL2 = "4.19.91-25.6.al7.x86_64"


def summaries(of: Plan, *codes: str, least: Severity = Severity.LOW) -> list[str]:
    """Return the changes that help, by these rules."""
    judge = judge_by(*codes)
    return [change.summary for change, _ in improvements(of, judge(of), judge, least)]


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (plan(), ["Create it with -g 32744 -G 16"]),
        (plan("-g 32736"), ["Create it with -g 32744 -G 16"]),
        (plan(chunk_bytes=256 << 10), ["Create it with -g 32744 -G 8"]),
        (plan(members=11), []),
        (
            plan("-O ^flex_bg", level="raid10", members=21, chunk_bytes=64 << 10),
            ["Create it with -E stride=0"],
        ),
        (
            plan("-g 30976", members=11),
            ["Omit -g: the default groups are evenly distributed on this array"],
        ),
        (plan(members=4, level="raid1"), []),
    ],
)
def test_groups_that_fit_the_stripe(of: Plan, expected: list[str]) -> None:
    """The advice is tried like any other change."""
    assert summaries(of, "LAY001") == expected


def test_a_stride_is_reset_where_it_would_move_the_bitmaps() -> None:
    """In flex groups of one group a stride has an effect, so it must be 0."""
    of = plan("-O bigalloc -C 65536", size_bytes=16 << 40)
    judge = judge_by("LAY001")
    ((change, _),) = improvements(of, judge(of), judge, Severity.LOW)
    assert change.summary == "Create it with -g 32744 -G 1 -E stride=0"
    assert change.plan.mkfs.extended == ("stride=0",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("noatime", "nobarrier"), ["Leave nobarrier out of the mount options"]),
        (("barrier=0",), ["Leave barrier=0 out of the mount options"]),
        (("noatime",), []),
    ],
)
def test_mount_options_that_do_harm(options: tuple[str, ...], expected: list[str]) -> None:
    """Options that change no finding stay."""
    assert summaries(disk_plan("", *options), "DUR001") == expected


def test_either_of_two_options_that_do_harm_together() -> None:
    """Removing one of them resolves PRF001."""
    of = disk_plan("", "nodelalloc", "dioread_nolock", release=AL2)
    assert summaries(of, "PRF001") == [
        "Leave nodelalloc out of the mount options",
        "Leave dioread_nolock out of the mount options",
    ]


def test_defaults_in_the_superblock_are_cleared(tmp_path: Path) -> None:
    """mke2fs.conf can set options that no mount table shows."""
    file = tmp_path / "mke2fs.conf"
    file.write_text("[defaults]\n\tdefault_mntopts = acl,nobarrier\n\tblocksize = 4096\n")
    of = disk_plan(configuration=str(file))
    expected = ["Clear nobarrier from the default mount options that mke2fs sets"]
    assert summaries(of, "DUR001", "DUR002") == expected


@rule("TST001", "no-journal", severity=Severity.HIGH, since="0.1")
def no_journal(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks: a rule that arguments of mke2fs can break."""
    superblock = need(fs.superblock)
    if not superblock.has_journal:
        citation = Citation("features", "no has_journal", "test")
        yield Finding("There is no journal.", Severity.HIGH, Confidence.CONFIRMED, (citation,))


def test_mke2fs_arguments_are_tried_where_nothing_else_helps() -> None:
    """Each argument is tried alone, in a simulation; those that change nothing stay."""
    of = disk_plan("-m 0 -O ^has_journal,^64bit", "noatime")

    def judge(each: Plan) -> Report:
        return audit(ReportSource("plan", "test"), host_of(each), [no_journal])

    found = [change for change, _ in improvements(of, judge(of), judge, Severity.LOW)]
    assert [each.summary for each in found] == [
        "Leave -O ^has_journal out of the options of mke2fs"
    ]
    assert found[0].plan.mkfs.arguments() == ("-m", "0", "-O", "^64bit")


@pytest.mark.parametrize("level", ["disk", "raid5"])
def test_a_wrong_stripe_is_left_out_as_a_whole(level: str) -> None:
    """A stride without its width is a stripe as well; both are replaced by those of the array."""
    words = "-E stride=16,stripe_width=48"
    of = disk_plan(words) if level == "disk" else plan(words, level=level, members=5)
    corrected = correct(of, judge_by("LAY002", "LAY003"))
    assert corrected.clean
    assert corrected.plan.mkfs.extended == ()


def test_a_wrong_stripe_is_left_out_before_the_size_of_a_cluster() -> None:
    """With clusters of 64 KiB the kernel turns off 20 blocks, which is milder, but no cure."""
    words = "-O bigalloc -C 16k -E stripe_width=20"
    of = plan(words, level="raid5", members=5, chunk_bytes=16 << 10, release="6.12.1")
    corrected = correct(of, judge_by("LAY002"))
    assert corrected.plan.mkfs == replace(of.mkfs, extended=())


def test_a_change_that_causes_a_finding_is_no_improvement() -> None:
    """Without nodelalloc a rename waits for seconds here: dioread_nolock is removed instead."""
    of = disk_plan("", "nodelalloc", "dioread_nolock", release=AL2, size_bytes=400 << 30)
    of = replace(of, queue=queue(wbt_latency_usec=75000))
    assert summaries(of, "PRF001", "PRF002") == ["Leave dioread_nolock out of the mount options"]

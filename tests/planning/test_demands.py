"""Plans that have what profiles demand, tried and judged like every other change."""

from __future__ import annotations

import pytest

from ext4audit.engine import audit
from ext4audit.facts.plan import Plan
from ext4audit.facts.profile import ActiveProfile, all_profiles
from ext4audit.planning.changes import Judge
from ext4audit.planning.correct import correct
from ext4audit.report import Report, Source
from ext4audit.rules import all_rules
from planned import disk_plan, host_of
from real_mke2fs import needs_e2fsprogs

pytestmark = needs_e2fsprogs
RULES = [each for each in all_rules() if each.code in {"CMP007", "PRF001", "DUR001"}]


def judge_by(*names: str) -> Judge:
    """Return what judges a plan below these products."""
    profiles = [ActiveProfile(all_profiles()[name]) for name in names]

    def judge(plan: Plan) -> Report:
        return audit(Source("plan", "planned"), host_of(plan), RULES, profiles)

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
    """What says the opposite goes, what is in force anyway is not said, PRF001 is minded."""
    corrected = correct(plan, judge_by(*names))
    assert corrected.plan.mount_options == options
    assert corrected.clean


@pytest.mark.parametrize(
    ("plan", "names", "words"),
    [
        (disk_plan(), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-O ^bigalloc"), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-O bigalloc -C 65536"), ("mysql-aws-twp",), ("-C", "16384", "-O", "bigalloc")),
        (disk_plan("-m 5"), ("k8s-csi",), ("-m", "0")),
        (disk_plan("-m 1"), ("k8s-csi",), ("-m", "1")),
    ],
)
def test_the_words_of_mke2fs_that_are_demanded_are_said(
    plan: Plan, names: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """Features, clusters and reserve are decided when it is made."""
    corrected = correct(plan, judge_by(*names))
    assert corrected.plan.mkfs.words() == words
    assert corrected.clean


def test_a_change_says_whose_demand_it_is() -> None:
    """The plan shows why a line is as it is."""
    (change,) = correct(disk_plan(), judge_by("daos")).changes
    assert change.summary == "Add nodelalloc to the mount options, by demand of DAOS"


def test_what_no_plan_can_give_is_left() -> None:
    """Another filesystem than ext4 is no change of it; a note is no reason for one."""
    corrected = correct(disk_plan(), judge_by("mongodb"))
    assert not corrected.changes

"""with_plan_remedies: what a finding of a plan advises."""

from __future__ import annotations

from ext4audit.facts.plan import Plan
from ext4audit.finding import Disruption, Finding
from ext4audit.planning.remedies import with_plan_remedies
from planned import disk_plan, judge_by, plan
from real_mke2fs import needs_e2fsprogs

pytestmark = needs_e2fsprogs
AL2 = "4.19.91-25.6.al7.x86_64"


def finding(of: Plan, *codes: str) -> Finding:
    """Return the first rule's finding on a plan, as it is reported."""
    judge = judge_by(*codes)
    report = with_plan_remedies(of, judge(of), judge)
    return next(v.findings[0] for v in report.verdicts if v.rule.code == codes[0])


def test_no_remedy_has_a_command() -> None:
    """There is no mount to remount and no device to tune: the lines say what to do."""
    of = plan("", "nobarrier", "nodelalloc", "dioread_nolock", release=AL2)
    judge = judge_by()
    report = with_plan_remedies(of, judge(of), judge)
    remedies = [remedy for each in report.findings for remedy in each.remedies]
    assert remedies
    assert {remedy.steps for remedy in remedies} == {()}
    assert {remedy.disruption for remedy in remedies} <= {Disruption.ONLINE, Disruption.REBOOT}
    assert not any(remedy.destructive for remedy in remedies)


def test_a_word_that_does_harm_is_to_be_left_out() -> None:
    """What else the rule advises stays where it is no command."""
    remedies = finding(disk_plan("", "nobarrier"), "DUR001").remedies
    assert remedies[0].summary == "Leave nobarrier out of the mount options."
    assert remedies[1].summary.startswith("If it was set for speed")
    assert len(remedies) == 2


def test_each_single_cure_is_named() -> None:
    """A cure may bring a note: without nodelalloc a rename may wait."""
    words = ("nodelalloc", "dioread_nolock")
    of = disk_plan("", *words, release=AL2, size_bytes=256 << 20)
    assert [each.summary for each in finding(of, "PRF001", "PRF002").remedies] == [
        "Leave nodelalloc out of the mount options.",
        "Leave dioread_nolock out of the mount options.",
        "Update the kernel to 4.19.91-26.al7 or later, and restart.",
    ]


def test_a_hotspot_has_the_groups_that_fit() -> None:
    """Growing an array that does not exist is no remedy."""
    remedies = finding(plan(), "LAY001").remedies
    assert [each.summary for each in remedies] == ["Make it with -g 32744 -G 16."]


def test_no_evidence_claims_to_be_read_from_a_file() -> None:
    """Nobody has read /proc or fstab for a plan."""
    of = plan("", "nobarrier")
    judge = judge_by()
    report = with_plan_remedies(of, judge(of), judge)
    cited = [*(c for f in report.findings for c in f.citations)]
    cited += [c for v in report.verdicts for c in v.evidence]
    assert cited
    assert not [each for each in cited if each.origin.startswith("/")]

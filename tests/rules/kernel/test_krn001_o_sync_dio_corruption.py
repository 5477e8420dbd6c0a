from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import Kernel
from ext4audit.finding import Confidence, Disruption, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn001_o_sync_dio_corruption import check
from support.builders import filesystem, host, kernel, known, mount, unknown

AFFECTED = kernel("6.1.64", "#1 SMP")
DEBIAN_AFFECTED = kernel("6.1.0-14-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.64-1 (2023-11-30)")


def verdict_of(of: Kernel, *filesystems: Any, **changes: Any) -> Verdict:
    """Judge a host that runs this kernel."""
    mounted = filesystems or (filesystem(),)
    return judge(check, None, host(*mounted, **{"kernel": known(of, "uname"), **changes}))


@pytest.mark.parametrize(
    ("of", "grade"),
    [
        (AFFECTED, (Severity.HIGH, Confidence.CONFIRMED)),
        (DEBIAN_AFFECTED, (Severity.HIGH, Confidence.CONFIRMED)),
        (kernel("5.10.228"), (Severity.HIGH, Confidence.CONFIRMED)),
        (kernel("5.10.227-219.884.amzn2.x86_64"), (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_affected_kernels_fail(of: Kernel, grade: tuple[Severity, Confidence]) -> None:
    """A vendor's kernel with the same number may have the fix."""
    verdict = verdict_of(of)
    assert verdict.outcome is Outcome.FAIL
    assert [(f.severity, f.confidence) for f in verdict.findings] == [grade]


@pytest.mark.parametrize(
    "of",
    [
        kernel("6.1.0-18-amd64", "#1 SMP Debian 6.1.76-1 (2024-02-01)"),
        kernel("6.1.66"),
        kernel("5.14.0-427.el9.x86_64"),
        kernel("5.15.0-91-generic", "#101-Ubuntu SMP"),
        kernel("6.8.0-31-generic", "#31-Ubuntu SMP"),
    ],
    ids=lambda of: of.release,
)
def test_distribution_kernels_pass(of: Kernel) -> None:
    """Debian's 6.1.0 is neither of the two updates, as `uname -v` shows."""
    verdict = verdict_of(of)
    assert verdict.outcome is Outcome.PASS
    assert [each.label for each in verdict.evidence] == ["kernel"]


@pytest.mark.parametrize(
    ("filesystems", "note"),
    [
        ((filesystem(alive=False, mounts=()),), "no ext4 filesystem is mounted"),
        (
            (filesystem(read_only=known(value=True)),),
            "all mounted ext4 filesystems are read-only",
        ),
    ],
)
def test_not_applicable_without_a_writable_filesystem(
    filesystems: tuple[Any, ...], note: str
) -> None:
    """Unmounted and read-only filesystems are not exposed."""
    verdict = verdict_of(AFFECTED, *filesystems)
    assert (verdict.outcome, verdict.note) == (Outcome.NOT_APPLICABLE, note)


def test_missed_filesystems_may_be_writable() -> None:
    """It does not matter that all known filesystems are read-only."""
    verdict = verdict_of(
        AFFECTED, filesystem(read_only=known(value=True)), gaps=(unknown("mounts"),)
    )
    assert verdict.outcome is Outcome.UNDETERMINED
    assert [each.what for each in verdict.unknowns] == ["mounts"]


def test_possibly_writable_filesystem_counts() -> None:
    """It is unknown whether the filesystem is read-only."""
    assert verdict_of(AFFECTED, filesystem(read_only=unknown("it"))).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("changes", "gap"),
    [
        ({"kernel": unknown("the kernel")}, "the kernel"),
        ({"kernel": known(kernel("6.1.0-14-amd64", "#1 SMP"))}, "stable update of the kernel"),
    ],
)
def test_unknown_update_is_undetermined(changes: dict[str, Any], gap: str) -> None:
    """Debian's release names only the ABI, which good and bad packages can share."""
    verdict = verdict_of(AFFECTED, **changes)
    assert verdict.outcome is Outcome.UNDETERMINED
    assert [each.what for each in verdict.unknowns] == [gap]


@pytest.mark.parametrize(
    "release", ["5.10.0-216.0.0.115.oe2203sp4.x86_64", "5.10.0-1.uel20.aarch64"]
)
def test_openeuler_hint_asks_for_the_commits(release: str) -> None:
    """On openEuler neither uname nor /proc/version_signature shows more."""
    (gap,) = verdict_of(AFFECTED, kernel=known(kernel(release, "#1 SMP"))).unknowns
    assert "91562895f803 without 936e114a245b" in gap.detail
    assert "rpm -q --changelog" in gap.hint
    assert "version_signature" not in gap.hint


def test_one_finding_names_all_exposed_filesystems() -> None:
    """There is one kernel, however many filesystems it serves."""
    (finding,) = verdict_of(
        DEBIAN_AFFECTED, filesystem(), filesystem(name="sdb", mounts=(mount("/srv"), mount("/var")))
    ).findings
    assert finding.message.endswith("overwrites the data; 2 writable ext4 filesystems are exposed.")
    assert [(each.label, each.value, each.origin) for each in finding.citations] == [
        (
            "kernel",
            "6.1.0-14-amd64 (Debian found the bug in 6.1.64-1 and fixed it in 6.1.66-1)",
            "uname",
        ),
        (
            "kernel bug requires",
            (
                "write(2) at the current file position; pwrite(2), which most databases use, is "
                "not affected"
            ),
            "https://bugs.debian.org/1057843",
        ),
        ("mounted writable", "/data, /srv, /var", "/proc/self/mountinfo"),
    ]


def test_remedies_are_advice_without_commands() -> None:
    """The command for a kernel update depends on the distribution."""
    (finding,) = verdict_of(DEBIAN_AFFECTED).findings
    update, meanwhile = finding.remedies
    assert update.summary == "Update the kernel to 6.1.66-1 or later, and restart."
    assert update.disruption is Disruption.REBOOT
    assert (update.steps, meanwhile.steps) == ((), ())


REMEDIES_NOT_RUN = (
    "Only another kernel cures it: that is advice without commands, because they differ from "
    "distributor to distributor, and a restart is needed."
)

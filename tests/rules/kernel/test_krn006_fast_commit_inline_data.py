"""KRN006: fast_commit together with inline_data."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn006_fast_commit_inline_data import check
from support.builders import filesystem, host, kernel, known, mount, superblock, unknown
from support.remedies.case import RemedyCase, on_kernel


def with_features(*names: str) -> Any:
    """Build a superblock with additional features."""
    return known(superblock(features=superblock().features | set(names)), "dumpe2fs -h /dev/sda")


BOTH = with_features("fast_commit", "inline_data")


def verdict_of(release: str = "6.17.0", **changes: Any) -> Verdict:
    """Judge a filesystem with both features."""
    seen = changes.pop("kernel", known(kernel(release, "")))
    fs = filesystem(**{"superblock": BOTH, **changes})
    return judge(check, fs, host(fs, kernel=seen))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("5.10.50", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.15.90", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.16.0", (Severity.LOW, Confidence.POSSIBLE)),
        ("6.17.0-14-generic", (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_krn006_both_features_on_affected_kernels_fail(
    release: str, grade: tuple[Severity, Confidence]
) -> None:
    """5.16 commits inline data; the cause of later reports is unknown."""
    (finding,) = verdict_of(release).findings
    assert (finding.severity, finding.confidence) == grade


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"superblock": with_features("fast_commit")}, Outcome.PASS),
        ({"superblock": with_features("inline_data")}, Outcome.PASS),
        ({"superblock": known(superblock())}, Outcome.PASS),
        ({"kernel": known(kernel("4.19.300", ""))}, Outcome.PASS),
        ({}, Outcome.FAIL),
        ({"alive": False, "mounts": ()}, Outcome.NOT_APPLICABLE),
        ({"superblock": unknown("superblock")}, Outcome.UNDETERMINED),
        ({"kernel": unknown("kernel")}, Outcome.UNDETERMINED),
    ],
)
def test_krn006_outcomes(changes: dict[str, Any], outcome: Outcome) -> None:
    """One feature without the other does not trigger the bug."""
    assert verdict_of(**changes).outcome is outcome


def test_krn006_read_only_mount_is_latent() -> None:
    """A read-only mount commits nothing."""
    (finding,) = verdict_of(read_only=known(value=True)).findings
    assert finding.severity is Severity.INFO


def test_krn006_root_remedy_requires_a_rescue_system() -> None:
    """No command unmounts the running system's root."""
    (finding,) = verdict_of(mounts=(mount("/"),)).findings
    assert finding.remedies[0].steps == ()
    assert finding.remedies[0].summary.endswith(" cannot be unmounted: tune2fs -O ^fast_commit.")


REMEDY_CASES = (
    RemedyCase(
        name="made with both",
        remedy="remove the feature fast_commit",
        mke2fs=("-O", "fast_commit,inline_data"),
        alter=on_kernel("5.15.20"),
    ),
    RemedyCase(
        name="on a newer kernel, mounted by fstab",
        remedy="remove the feature fast_commit",
        mke2fs=("-O", "fast_commit,inline_data"),
        mount="noatime",
        fstab="noatime",
        alter=on_kernel("6.17.0"),
        cured=(Outcome.PASS,),
    ),
)

"""KRN005: writeback errors that fsync() does not report."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.host import all_profiles
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn005_fsync_errors_lost import check
from support.builders import filesystem, host, kernel, known, unknown


def verdict_of(release: str = "4.9.50", **changes: Any) -> Verdict:
    """Judge a host with one filesystem."""
    seen = changes.pop("kernel", known(kernel(release, "")))
    return judge(check, None, host(filesystem(**changes), kernel=seen))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("4.9.50", (Severity.MEDIUM, Confidence.LIKELY)),
        ("3.10.0-1160.el7.x86_64", (Severity.LOW, Confidence.POSSIBLE)),
        ("4.14.50", (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_krn005_affected_kernels_fail(release: str, grade: tuple[Severity, Confidence]) -> None:
    """Before 4.13 anybody can consume an error; later only errors before the open are lost."""
    (finding,) = verdict_of(release).findings
    assert (finding.severity, finding.confidence) == grade


@pytest.mark.parametrize(
    ("release", "changes", "outcome"),
    [
        ("4.17.0", {}, Outcome.PASS),
        ("4.18.0-305.el8.x86_64", {}, Outcome.PASS),
        ("6.1.76", {}, Outcome.PASS),
        ("4.9.50", {}, Outcome.FAIL),
        ("4.9.50", {"read_only": known(value=True)}, Outcome.NOT_APPLICABLE),
        ("4.9.50", {"alive": False, "mounts": ()}, Outcome.NOT_APPLICABLE),
        ("4.9.50", {"kernel": unknown("kernel")}, Outcome.UNDETERMINED),
    ],
)
def test_krn005_outcomes(release: str, changes: dict[str, Any], outcome: Outcome) -> None:
    """A filesystem without writes has no write errors."""
    assert verdict_of(release, **changes).outcome is outcome


def test_krn005_is_enabled_by_database_profiles() -> None:
    """It is off by default, and two profiles enable it."""
    assert not check.default
    enabling = {name for name, each in all_profiles().items() if "KRN005" in each.enable}
    assert enabling == {"postgres", "etcd"}


REMEDIES_NOT_RUN = "A kernel update and a restart are advice, without a command."

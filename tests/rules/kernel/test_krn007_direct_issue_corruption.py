"""KRN007: disks without an I/O scheduler on Linux 4.19.0 to 4.19.7."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Unknown, Why
from ext4audit.facts.devices import BlockDevice
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn007_direct_issue_corruption import check
from support.builders import disk, filesystem, host, kernel, known, queue, unknown

ABSENT = Unknown("queue/scheduler", Why.ABSENT, "No such file or directory")


def scheduled(scheduler: object) -> BlockDevice:
    """Build a disk with this scheduler."""
    return disk(limits=queue(scheduler=scheduler))


def verdict_of(release: str = "4.19.5", scheduler: object = "none", **changes: Any) -> Verdict:
    """Judge a filesystem on a disk."""
    seen = changes.pop("kernel", known(kernel(release, "")))
    fs = filesystem(**{"stack": known(scheduled(scheduler)), **changes})
    return judge(check, fs, host(fs, kernel=seen))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("4.19.0", (Severity.HIGH, Confidence.CONFIRMED)),
        ("4.19.7", (Severity.HIGH, Confidence.CONFIRMED)),
        ("4.19.5-300.fc29.x86_64", (Severity.LOW, Confidence.POSSIBLE)),
    ],
)
def test_krn007_affected_kernels_fail(release: str, grade: tuple[Severity, Confidence]) -> None:
    """Other vendors' kernels may have the fix."""
    (finding,) = verdict_of(release).findings
    assert (finding.severity, finding.confidence) == grade


@pytest.mark.parametrize(
    ("judged", "outcome"),
    [
        (verdict_of("4.18.20"), Outcome.PASS),
        (verdict_of("4.19.8"), Outcome.PASS),
        (verdict_of("6.1.76", unknown("queue/scheduler")), Outcome.PASS),
        (verdict_of(scheduler="mq-deadline"), Outcome.PASS),
        (verdict_of(scheduler=ABSENT), Outcome.PASS),
        (verdict_of(), Outcome.FAIL),
        (verdict_of(alive=False, mounts=()), Outcome.NOT_APPLICABLE),
        (verdict_of(scheduler=unknown("queue/scheduler")), Outcome.UNDETERMINED),
        (verdict_of(stack=unknown("stack")), Outcome.UNDETERMINED),
        (verdict_of(stack=known(disk(below=unknown("slaves")))), Outcome.UNDETERMINED),
        (verdict_of(kernel=unknown("kernel")), Outcome.UNDETERMINED),
    ],
)
def test_krn007_outcomes(judged: Verdict, outcome: Outcome) -> None:
    """A device without a choice of schedulers does not get its requests through blk-mq."""
    assert judged.outcome is outcome


def test_krn007_only_a_pass_cites_the_schedulers() -> None:
    """Evidence that there is no problem is cited only in a pass."""
    (cited,) = verdict_of(scheduler="mq-deadline").evidence
    assert "mq-deadline" in cited.value
    assert verdict_of().evidence == ()


REMEDIES_NOT_RUN = "It would change the scheduler of the test machine's disk: advice in words."

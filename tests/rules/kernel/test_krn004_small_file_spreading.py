"""KRN004: small files on SD cards, on kernels that spread them across the card."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.kernel.krn004_small_file_spreading import check
from support.builders import disk, filesystem, host, kernel, known, options, superblock, unknown

CARD = known(disk("mmcblk0p2", DeviceNumber(179, 2)))
SMALL = superblock(size_blocks=15 * 32768)
UBUNTU = kernel("5.15.0-1015-raspi", "")._replace(signature="Ubuntu 5.15.0-1015.17-raspi 5.15.53")


def verdict_of(release: str = "5.15.60", **changes: Any) -> Verdict:
    """Judge a filesystem on an SD card."""
    seen = changes.pop("kernel", known(kernel(release, "")))
    fs = filesystem(**{"stack": CARD, **changes})
    return judge(check, fs, host(fs, kernel=seen))


@pytest.mark.parametrize(
    ("release", "grade"),
    [
        ("5.15.33", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.15.70", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.16.19", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.17.2", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.18.0", (Severity.MEDIUM, Confidence.LIKELY)),
        ("5.19.11", (Severity.MEDIUM, Confidence.LIKELY)),
    ],
)
def test_krn004_affected_kernels_fail(release: str, grade: tuple[Severity, Confidence]) -> None:
    """The range is from the change to its fixes."""
    (finding,) = verdict_of(release).findings
    assert (finding.severity, finding.confidence) == grade


@pytest.mark.parametrize(
    "release",
    ["5.10.100", "5.15.32", "5.15.71", "5.16.18", "5.17.1", "5.19.12", "6.1.76"],
)
def test_krn004_other_kernels_pass(release: str) -> None:
    """These are kernels before the change, and kernels with the fixes."""
    assert verdict_of(release).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"options": known(options("mb_optimize_scan=0"))}, Outcome.PASS),
        ({"kernel": known(UBUNTU)}, Outcome.FAIL),
        ({"stack": known(disk())}, Outcome.NOT_APPLICABLE),
        ({"superblock": known(SMALL)}, Outcome.NOT_APPLICABLE),
        ({"superblock": known(SMALL._replace(size_blocks=16 * 32768))}, Outcome.FAIL),
        ({"alive": False, "mounts": ()}, Outcome.NOT_APPLICABLE),
        ({"superblock": unknown("superblock")}, Outcome.UNDETERMINED),
        ({"stack": unknown("stack")}, Outcome.UNDETERMINED),
        ({"stack": known(disk(below=unknown("slaves")))}, Outcome.UNDETERMINED),
        ({"options": unknown("options")}, Outcome.UNDETERMINED),
        ({"kernel": unknown("kernel")}, Outcome.UNDETERMINED),
    ],
)
def test_krn004_outcomes(changes: dict[str, Any], outcome: Outcome) -> None:
    """There are no reports about hard disks or SSDs with any kernel."""
    assert verdict_of(**changes).outcome is outcome


def test_krn004_read_only_card_is_latent() -> None:
    """Nothing is allocated there."""
    (finding,) = verdict_of(read_only=known(value=True)).findings
    assert finding.severity is Severity.INFO


def test_krn004_remedies_are_mount_option_and_kernel_update() -> None:
    """The mount option is suggested first, then a kernel update."""
    (finding,) = verdict_of().findings
    option, update = finding.remedies
    assert "mb_optimize_scan=0" in option.summary
    assert update.summary == "Update the kernel to 5.15.71, 5.19.12, 6.0 or later, and restart."


REMEDIES_NOT_RUN = "The affected kernels do not all list the option: the remedy is advice in words."

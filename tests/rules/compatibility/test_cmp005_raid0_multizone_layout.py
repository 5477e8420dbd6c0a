"""CMP005: RAID0 of unequal disks, and the layout recorded for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.devices import BlockDevice, MdArray, MdMember
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.compatibility.cmp005_raid0_multizone_layout import check
from support.builders import disk, filesystem, host, known, raid, unknown

DISKS = tuple(disk(f"vd{x}", DeviceNumber(253, 16 * i)) for i, x in enumerate("bcd", start=1))
SMALL, LARGE, LARGER = 1 << 20, 1 << 21, 1 << 22
NO_MODULE = Unknown("raid0.default_layout", Why.ABSENT)


def array(*sizes: int, layout: int | None = -1, level: str = "raid0") -> BlockDevice:
    """Build an array whose members have these sizes in sectors."""
    made = raid(DISKS, level=level)
    assert isinstance(made.md, Known)
    members = tuple(MdMember(i, f"vd{'bcd'[i]}", 2048, size) for i, size in enumerate(sizes))
    changed: MdArray = made.md.value._replace(layout=layout, members=members)
    return replace(made, md=known(changed, "/sys/block/md127/md"))


def partition(below: Evidence[tuple[BlockDevice, ...]]) -> Evidence[BlockDevice]:
    """Build a partition on a device."""
    return known(replace(disk("md127p1"), kind="partition", start_sectors=2048, below=below))


def verdict(stack: Evidence[BlockDevice], parameter: Evidence[int] = Known(0, "test")) -> Verdict:
    """Judge a filesystem on a stack."""
    fs = filesystem(stack=stack)
    return judge(check, fs, host(fs, raid0_default_layout=parameter))


@pytest.mark.parametrize(
    ("stack", "outcome"),
    [
        (known(array(SMALL, LARGE, LARGE)), Outcome.FAIL),
        (known(array(LARGER, SMALL, LARGE)), Outcome.FAIL),
        (known(array(SMALL, LARGE, LARGE, layout=0)), Outcome.FAIL),
        (known(array(SMALL, LARGE, LARGE, layout=None)), Outcome.FAIL),
        (known(array(SMALL, LARGE, LARGE, layout=1)), Outcome.PASS),
        (known(array(SMALL, LARGE, LARGE, layout=2)), Outcome.PASS),
        (known(array(SMALL, LARGE)), Outcome.NOT_APPLICABLE),
        (known(array(SMALL, LARGE, SMALL)), Outcome.NOT_APPLICABLE),
        (known(array(SMALL, SMALL, SMALL)), Outcome.NOT_APPLICABLE),
        (known(array(SMALL, SMALL + 8, SMALL + 8)), Outcome.NOT_APPLICABLE),
        (known(array(SMALL, LARGE, LARGE, level="linear")), Outcome.NOT_APPLICABLE),
        (known(disk()), Outcome.NOT_APPLICABLE),
        (known(replace(array(1, 1), md=unknown("md"))), Outcome.UNDETERMINED),
        (unknown("stack"), Outcome.UNDETERMINED),
        (partition(known((array(SMALL, LARGE, LARGE),))), Outcome.FAIL),
        (partition(unknown("block device 9:127")), Outcome.UNDETERMINED),
    ],
)
def test_cmp005_outcomes(stack: Evidence[BlockDevice], outcome: Outcome) -> None:
    """Disks that are equal within a chunk need no layout, nor does a single larger disk."""
    assert verdict(stack).outcome is outcome


@pytest.mark.parametrize(
    ("parameter", "severity", "confidence"),
    [
        (known(0), Severity.HIGH, Confidence.CONFIRMED),
        (known(2), Severity.MEDIUM, Confidence.CONFIRMED),
        (NO_MODULE, Severity.HIGH, Confidence.CONFIRMED),
        (unknown("raid0.default_layout"), Severity.HIGH, Confidence.LIKELY),
    ],
)
def test_cmp005_module_parameter_lowers_the_severity_on_this_host_only(
    parameter: Evidence[int], severity: Severity, confidence: Confidence
) -> None:
    """raid0.default_layout lets this host assemble the array, but no other host."""
    (finding,) = verdict(known(array(SMALL, LARGE, LARGE)), parameter).findings
    assert (finding.severity, finding.confidence) == (severity, confidence)
    assert finding.remedies[0].steps == ()


def test_cmp005_cites_member_sizes_in_gib() -> None:
    """One GiB has 2,097,152 sectors."""
    verdicts = verdict(known(array(LARGE, LARGER, LARGER, layout=2)))
    members, layout = verdicts.evidence
    assert (members.value, layout.value) == (
        "vdb 1.0 GiB, vdc 2.0 GiB, vdd 2.0 GiB",
        "alternate",
    )
    (finding,) = verdict(known(array(LARGE, LARGER, LARGER, layout=None))).findings
    assert [c.value for c in finding.citations[:2]] == [members.value, "not recorded"]


REMEDIES_NOT_RUN = (
    "Which layout is right, only a person can find out: its remedy is advice, no command."
)

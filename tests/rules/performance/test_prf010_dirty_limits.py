"""PRF010: the time that disks need to write the dirty data allowed in memory."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Known
from ext4audit.facts.devices import BlockDevice
from ext4audit.facts.host import Filesystem, Host, Memory
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Confidence, Phase, Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule
from ext4audit.rules.performance.prf010_dirty_limits import check
from support.builders import GIB, disk, filesystem, host, known, memory, mount, queue, raid, unknown
from support.remedies.case import LoopMount, RemedyCase
from support.remedies.dirty_limits import own_limits, read_limits

LARGE = known(memory(total_bytes=512 * GIB, available_bytes=500 * GIB), "/proc/meminfo")
SMALL = known(memory(dirty_bytes=1 << 30))


def verdict_of(on: Host) -> Verdict:
    """Judge a host."""
    return judge(check, None, on)


def on_disk(name: str, *, minor: int = 0, **limits: Any) -> Filesystem:
    """Build a filesystem on one disk."""
    return on_stack(disk(name, DeviceNumber(8, minor), queue(**limits)), f"/{name}")


def on_stack(stack: BlockDevice, mount_point: str = "/data") -> Filesystem:
    """Build a filesystem on this stack."""
    number = stack.device_number
    mounts = (mount(mount_point, number=number),)
    return filesystem(number=number, stack=known(stack), mounts=mounts)


def memory_with_dirty_bytes(dirty: int) -> Known[Memory]:
    """Build memory settings with a dirty limit in bytes."""
    return known(memory(dirty_bytes=dirty))


@pytest.mark.parametrize(
    ("on", "outcome"),
    [
        pytest.param(host(filesystem(), memory=LARGE), Outcome.FAIL, id="100 GB for one disk"),
        pytest.param(host(filesystem(), memory=SMALL), Outcome.PASS, id="1 GiB in 9 s"),
        pytest.param(
            host(filesystem(), memory=memory_with_dirty_bytes(1_200_000_000)),
            Outcome.PASS,
            id="10 s",
        ),
        pytest.param(
            host(filesystem(), memory=memory_with_dirty_bytes(1_200_000_001)),
            Outcome.FAIL,
            id="a byte more",
        ),
        pytest.param(
            host(on_disk("nvme0n1"), memory=known(memory(available_bytes=40 * GIB))),
            Outcome.PASS,
            id="NVMe writes 8 GiB in 9 s",
        ),
        pytest.param(
            host(on_stack(disk(size_sectors=known(1 << 20))), memory=LARGE),
            Outcome.PASS,
            id="no more can be dirty than fits",
        ),
        pytest.param(
            host(filesystem(read_only=known(value=True)), memory=LARGE),
            Outcome.NOT_APPLICABLE,
            id="read-only",
        ),
        pytest.param(host(memory=LARGE), Outcome.NOT_APPLICABLE, id="no ext4"),
        pytest.param(
            host(filesystem(), memory=LARGE, container="docker"),
            Outcome.NOT_APPLICABLE,
            id="in a container",
        ),
        pytest.param(
            host(filesystem(), memory=unknown("memory")), Outcome.UNDETERMINED, id="memory unread"
        ),
        pytest.param(
            host(filesystem(stack=unknown("stack")), memory=LARGE),
            Outcome.UNDETERMINED,
            id="stack unread",
        ),
        pytest.param(
            host(on_disk("sda", rotational=unknown("rotational")), memory=LARGE),
            Outcome.UNDETERMINED,
            id="kind of disk unread",
        ),
    ],
)
def test_outcomes(on: Host, outcome: Outcome) -> None:
    """Ten seconds of writing are allowed."""
    assert verdict_of(on).outcome is outcome


def test_message_names_the_slowest_filesystem() -> None:
    """The host has one finding, because the limits are the host's."""
    both = on_disk("nvme0n1"), on_disk("sda", minor=16)
    (finding,) = verdict_of(host(*both, memory=LARGE)).findings
    assert (finding.severity, finding.confidence) == (Severity.LOW, Confidence.LIKELY)
    assert finding.message == (
        "Memory may hold 102400 MiB of dirty data for /sda; writing it takes ~895 s at the assumed "
        "speed, and a sync or an unmount waits that long."
    )
    assert [(c.label, c.value) for c in finding.citations] == [
        (
            "dirty limit",
            "102400 MiB (vm.dirty_ratio = 20 % of 512000 MiB available; memory 524288 MiB)",
        ),
        ("speed of sda", "120 MB/s (rotational disk)"),
    ]


def test_speed_of_a_stripe_is_the_sum_of_its_members() -> None:
    """Each member writes its share."""
    array = raid([disk(f"sd{name}", DeviceNumber(8, index)) for index, name in enumerate("bcde")])
    (finding,) = verdict_of(host(on_stack(array), memory=LARGE)).findings
    assert "~224 s" in finding.message


def test_circular_stack_is_unknown() -> None:
    """Circular evidence has no leaf device, and thus no speed."""
    inner = disk("sdb", DeviceNumber(8, 16), below=known((disk("sdb", DeviceNumber(8, 16)),)))
    verdict = verdict_of(host(on_stack(inner), memory=LARGE))
    assert [gap.what for gap in verdict.unknowns] == ["queues below a filesystem"]


def test_finding_with_missing_evidence_reports_the_gap() -> None:
    """The gap is reported as well."""
    unseen = filesystem(number=DeviceNumber(8, 16), stack=unknown("stack of sdb"))
    verdict = verdict_of(host(filesystem(), unseen, memory=LARGE))
    assert verdict.outcome is Outcome.FAIL
    assert [gap.what for gap in verdict.unknowns] == ["stack of sdb"]


def test_remedy_limits_and_rollback() -> None:
    """The remedy is that of PRF002: two seconds of writing."""
    (finding,) = verdict_of(host(filesystem(), memory=LARGE)).findings
    (remedy,) = finding.remedies
    commands = {step.phase: step.command for step in remedy.lines}
    assert commands[Phase.IMMEDIATE] == (
        "sysctl -w vm.dirty_background_bytes=59768832 vm.dirty_bytes=239075328"
    )
    assert commands[Phase.ROLLBACK] == "sysctl -w vm.dirty_background_ratio=10 vm.dirty_ratio=20"


class DirtyLimitsCase(RemedyCase):
    """A case with a backlog of 12 GiB, which takes any device long enough."""

    def run(self, rule: Rule, loop_mount: LoopMount) -> None:
        """Set the limit, run the case, and check that the rollback restored it."""
        with own_limits("vm.dirty_bytes=12884901888"):
            before = read_limits()
            super().run(rule, loop_mount)
            assert read_limits() == before


REMEDY_CASES = (DirtyLimitsCase("a backlog of gigabytes", "Limit dirty memory", size="16G"),)

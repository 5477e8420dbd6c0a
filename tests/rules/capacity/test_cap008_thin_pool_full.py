"""CAP008: thin pools below a filesystem, as dmsetup reports them."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.engine import judge
from ext4audit.evidence import Evidence
from ext4audit.facts.devices import BlockDevice, DmDevice, DmSegment, ThinPool
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Severity
from ext4audit.report import Outcome, Verdict
from ext4audit.rules.capacity.cap008_thin_pool_full import check
from support.builders import disk, filesystem, host, known, unknown

POOL_UUID = "LVM-abcdef-tpool"


def pool(mode: str = "rw", data: int = 20, metadata: int = 10, **changes: Any) -> ThinPool:
    """Build a pool with these percentages of its blocks in use."""
    values = {"queues": True, "needs_check": False, **changes}
    return ThinPool(mode, data * 10, 1000, metadata * 10, 1000, **values)


def dm_device(
    name: str, minor: int, below: BlockDevice, target: str, state: Evidence[ThinPool] | None = None
) -> BlockDevice:
    """Build a device-mapper device with one segment."""
    table = known((DmSegment(0, 2048, target, ()),))
    dm = DmDevice(name, "LVM-abc", table, state)
    number = DeviceNumber(254, minor)
    return disk(f"dm-{minor}", number, kind=f"dm-{target}", below=known((below,)), dm=dm)


def volume(state: Evidence[ThinPool] | ThinPool) -> BlockDevice:
    """Build a thin volume on a pool on a logical volume on a disk."""
    found = known(state) if isinstance(state, ThinPool) else state
    data = dm_device("vg-pool_tdata", 1, disk(), "linear")
    return dm_device("vg-thin", 3, dm_device("vg-pool-tpool", 2, data, "thin-pool", found), "thin")


def dm_device_without_table(uuid: str) -> BlockDevice:
    """Build a device-mapper device whose table was not read."""
    dm = DmDevice("some", uuid, unknown("device-mapper table"))
    return disk("dm-0", DeviceNumber(254, 0), kind="dm", below=known((disk(),)), dm=dm)


def thin_pool_volume() -> BlockDevice:
    """Build a thin volume whose pool is an LVM volume, not managed by lvm2, with unread table."""
    return dm_device("docker-1", 3, dm_device_without_table("LVM-abcdef"), "thin")


def verdict(stack: Evidence[BlockDevice]) -> Verdict:
    """Judge a filesystem on a stack."""
    fs = filesystem(stack=stack)
    return judge(check, fs, host(fs))


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        (ThinPool("Fail"), Severity.CRITICAL),
        (pool("ro"), Severity.CRITICAL),
        (pool("out_of_data_space", 100), Severity.CRITICAL),
        (pool(needs_check=True), Severity.HIGH),
        (pool(data=95), Severity.HIGH),
        (pool(metadata=96), Severity.HIGH),
        (pool(data=85), Severity.MEDIUM),
        (pool(metadata=90), Severity.MEDIUM),
    ],
)
def test_cap008_severity_by_state_of_the_pool(state: ThinPool, severity: Severity) -> None:
    """A pool that refuses writes now is worse than one that soon will."""
    (finding,) = verdict(known(volume(state))).findings
    assert finding.severity is severity


@pytest.mark.parametrize(
    ("stack", "outcome"),
    [
        (known(volume(pool())), Outcome.PASS),
        (known(volume(pool(data=84, metadata=84))), Outcome.PASS),
        (known(volume(pool(needs_check=None))), Outcome.PASS),
        (known(volume(pool(data=99))), Outcome.FAIL),
        (known(disk()), Outcome.NOT_APPLICABLE),
        (known(dm_device("vg-plain", 0, disk(), "linear")), Outcome.NOT_APPLICABLE),
        (known(dm_device_without_table("LVM-abcdef")), Outcome.NOT_APPLICABLE),
        (known(dm_device_without_table("CRYPT-LUKS2-abcdef")), Outcome.NOT_APPLICABLE),
        (known(dm_device_without_table(POOL_UUID)), Outcome.UNDETERMINED),
        (known(dm_device_without_table("")), Outcome.UNDETERMINED),
        (known(thin_pool_volume()), Outcome.UNDETERMINED),
        (known(volume(unknown("state of the thin pool"))), Outcome.UNDETERMINED),
        (unknown("stack"), Outcome.UNDETERMINED),
    ],
)
def test_cap008_outcomes(stack: Evidence[BlockDevice], outcome: Outcome) -> None:
    """lvm2 marks a pool in its uuid; without a table, nothing is known of other devices."""
    assert verdict(stack).outcome is outcome


@pytest.mark.parametrize(
    ("queues", "words"), [(True, "wait up to 60 s and then fail"), (False, "blocks fail,")]
)
def test_cap008_message_says_whether_writers_wait_or_fail(*, queues: bool, words: str) -> None:
    """By default the pool makes writers wait first."""
    (finding,) = verdict(known(volume(pool("out_of_data_space", 100, queues=queues)))).findings
    assert "vg-pool-tpool has no space left" in finding.message
    assert words in finding.message


REMEDIES_NOT_RUN = "Space comes from where only a person knows: the remedy is advice in words."

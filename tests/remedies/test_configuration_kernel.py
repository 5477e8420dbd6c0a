"""Limits of dirty memory and queue attributes: what is set, kept at boot, and restored."""

from __future__ import annotations

import pytest

from ext4audit.finding import Phase
from ext4audit.remedies.configuration import disable_writeback_throttling, limit_dirty_memory
from support.builders import memory
from support.remedies.steps_as_text import commands

MIB = 1 << 20


def test_the_background_limit_is_a_quarter() -> None:
    """Both limits are set at once and at boot."""
    steps = limit_dirty_memory(memory(), 200 * MIB)
    wanted = f"vm.dirty_background_bytes={50 * MIB} vm.dirty_bytes={200 * MIB}"
    assert commands(steps, Phase.IMMEDIATE) == [f"sysctl -w {wanted}"]
    (lasting,) = commands(steps, Phase.PERSISTENT)
    assert lasting.startswith(f"printf 'vm.dirty_background_bytes = {50 * MIB}\\n")
    assert lasting.endswith("> /etc/sysctl.d/60-ext4audit-dirty.conf")


@pytest.mark.parametrize(
    ("before", "back"),
    [
        ({}, "vm.dirty_background_ratio=10 vm.dirty_ratio=20"),
        (
            {"dirty_background_bytes": 5 * MIB, "dirty_bytes": 7 * MIB},
            f"vm.dirty_background_bytes={5 * MIB} vm.dirty_bytes={7 * MIB}",
        ),
        (
            {"dirty_background_ratio_percent": 0, "dirty_bytes": MIB},
            f"vm.dirty_background_ratio=1 vm.dirty_background_ratio=0 vm.dirty_bytes={MIB}",
        ),
    ],
)
def test_limits_go_back_to_what_they_were(before: dict[str, int], back: str) -> None:
    """Bytes or a ratio; a ratio of 0 only after another one."""
    steps = limit_dirty_memory(memory(**before), 200 * MIB)
    assert commands(steps, Phase.ROLLBACK) == [
        "rm -f /etc/sysctl.d/60-ext4audit-dirty.conf",
        f"sysctl -w {back}",
    ]
    assert commands(steps, Phase.VERIFY) == [f"sysctl -n vm.dirty_bytes | grep -qx {200 * MIB}"]


def test_every_disk_gets_its_latency_back() -> None:
    """The udev rules go first, so that no event of the device sets 0 again."""
    steps = disable_writeback_throttling([("sda", 75000), ("nvme0n1", 2000)])
    assert commands(steps, Phase.ROLLBACK) == [
        "rm -f /etc/udev/rules.d/60-ext4audit-wbt-nvme0n1.rules",
        "rm -f /etc/udev/rules.d/60-ext4audit-wbt-sda.rules",
        "echo 2000 > /sys/block/nvme0n1/queue/wbt_lat_usec",
        "echo 75000 > /sys/block/sda/queue/wbt_lat_usec",
    ]


@pytest.mark.parametrize("name", ["-rf", "a b", "a$(id)", "cciss!c0d0", ""])
def test_a_name_that_needs_quoting_gets_no_steps(name: str) -> None:
    """One such disk is enough: a part of the change is no change."""
    assert disable_writeback_throttling([("sda", 75000), (name, 75000)]) == ()

"""Set limits of dirty memory (sysctl) and attributes of block queues, now and at every boot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ext4audit.facts.host import Memory
from ext4audit.finding import Phase, Step
from ext4audit.remedies import in_phase

SYSCTL_FILE = "/etc/sysctl.d/60-ext4audit-dirty.conf"
KERNEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Device names that need no quoting in a shell, in a path and in a udev rule."""


def limit_dirty_memory(memory: Memory, limit_bytes: int) -> tuple[Step, ...]:
    """Return the steps that set vm.dirty_bytes, and a quarter of it as the background limit."""
    settings = {
        "vm.dirty_background_bytes": limit_bytes // 4,
        "vm.dirty_bytes": limit_bytes,
    }
    assignments = " ".join(f"{key}={value}" for key, value in settings.items())
    lines = "".join(f"{key} = {value}\\n" for key, value in settings.items())
    background = memory.dirty_background_bytes, memory.dirty_background_ratio_percent
    before = (
        *_restored("vm.dirty_background", *background),
        *_restored("vm.dirty", memory.dirty_bytes, memory.dirty_ratio_percent),
    )
    return (
        Step(Phase.IMMEDIATE, f"sysctl -w {assignments}"),
        Step(Phase.PERSISTENT, f"printf '{lines}' > {SYSCTL_FILE}"),
        Step(Phase.VERIFY, f"sysctl -n vm.dirty_bytes | grep -qx {limit_bytes}"),
        Step(Phase.ROLLBACK, f"rm -f {SYSCTL_FILE}"),
        Step(Phase.ROLLBACK, f"sysctl -w {' '.join(before)}"),
    )


def _restored(name: str, size_bytes: int, ratio_percent: int) -> tuple[str, ...]:
    """Return the assignments that restore a limit.

    The kernel refuses 0 bytes; a ratio replaces the bytes, but only when it changes, and it
    reads as 0 while bytes are set (mm/page-writeback.c; tried on 6.18).
    """
    if size_bytes:
        return (f"{name}_bytes={size_bytes}",)
    if not ratio_percent:
        return (f"{name}_ratio=1", f"{name}_ratio=0")
    return (f"{name}_ratio={ratio_percent}",)


def disable_writeback_throttling(disks: Sequence[tuple[str, int]]) -> tuple[Step, ...]:
    """Return the steps that set queue/wbt_lat_usec to 0.

    `disks` are kernel names with the present value. Empty where a name would need quoting.
    """
    names = [name for name, _ in disks]
    if not all(map(KERNEL_NAME.fullmatch, names)):
        return ()
    return (
        *in_phase(Phase.IMMEDIATE, (f"echo 0 > {_attribute(name)}" for name in names)),
        *in_phase(Phase.PERSISTENT, map(_write_udev_rule, names)),
        *in_phase(Phase.VERIFY, (f"grep -qx 0 {_attribute(name)}" for name in names)),
        *in_phase(Phase.ROLLBACK, _restore_throttling(disks)),
    )


def _attribute(name: str) -> str:
    return f"/sys/block/{name}/queue/wbt_lat_usec"


def _write_udev_rule(name: str) -> str:
    """Return the command that writes the rule which udev applies at every boot."""
    udev_rule = (
        f'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="{name}", '
        'ATTR{queue/wbt_lat_usec}="0"'
    )
    return f"echo '{udev_rule}' > {_udev_file(name)}"


def _restore_throttling(disks: Sequence[tuple[str, int]]) -> Iterator[str]:
    for name, latency in disks:
        yield f"rm -f {_udev_file(name)}"
        yield f"echo {latency} > {_attribute(name)}"


def _udev_file(name: str) -> str:
    return f"/etc/udev/rules.d/60-ext4audit-wbt-{name}.rules"

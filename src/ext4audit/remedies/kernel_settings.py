"""Set limits of dirty memory (sysctl) and attributes of block queues, now and at every boot."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ext4audit.facts.host import Memory
from ext4audit.finding import NewFile, Phase, Step
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
    check = f"sysctl -n vm.dirty_bytes | grep -qx {limit_bytes}"
    undo = f"sysctl -w {' '.join(before)}"
    return (
        Step(Phase.IMMEDIATE, f"sysctl -w {assignments}", undo, check),
        Step(
            Phase.PERSISTENT,
            f"printf '{lines}' > {SYSCTL_FILE}",
            f"rm -f {SYSCTL_FILE}",
            change=NewFile(SYSCTL_FILE, "".join(f"{k} = {v}\n" for k, v in settings.items())),
        ),
        Step(Phase.VERIFY, check),
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
        *(_throttle_now(name, latency) for name, latency in disks),
        *map(_throttle_at_boot, names),
        *in_phase(Phase.VERIFY, map(_is_off, names)),
    )


def _attribute(name: str) -> str:
    return f"/sys/block/{name}/queue/wbt_lat_usec"


def _is_off(name: str) -> str:
    return f"grep -qx 0 {_attribute(name)}"


def _throttle_now(name: str, latency: int) -> Step:
    there, back = (f"echo {value} > {_attribute(name)}" for value in (0, latency))
    return Step(Phase.IMMEDIATE, there, back, _is_off(name))


def _throttle_at_boot(name: str) -> Step:
    """Return the step that writes the rule which udev applies at every boot."""
    udev_rule = (
        f'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="{name}", '
        'ATTR{queue/wbt_lat_usec}="0"'
    )
    path = _udev_file(name)
    write = f"echo '{udev_rule}' > {path}"
    return Step(Phase.PERSISTENT, write, f"rm -f {path}", change=NewFile(path, f"{udev_rule}\n"))


LONGEST_TIMEOUT = 4294967295
"""The largest value that queue/io_timeout takes; it reads back a little smaller (jiffies)."""
MODEL = re.compile(r"[A-Za-z0-9 ]+")
"""Models of disks that stand for themselves in a udev rule, which has patterns."""


def lengthen_timeout(name: str, model: str, present_msec: int, least_msec: int) -> tuple[Step, ...]:
    """Return the steps that set the longest queue/io_timeout, now and for all disks of a model.

    `name` is the disk's kernel name; at least `least_msec` counts as done. Empty where a name
    would need quoting.
    """
    if not (KERNEL_NAME.fullmatch(name) and MODEL.fullmatch(model)):
        return ()
    attribute = f"/sys/block/{name}/queue/io_timeout"
    check = f'test "$(cat {attribute})" -ge {least_msec}'
    there, back = (f"echo {value} > {attribute}" for value in (LONGEST_TIMEOUT, present_msec))
    # By the model: the names of NVMe disks can change between starts.
    udev_rule = (
        'ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
        f'ATTRS{{model}}=="{model}", ATTR{{queue/io_timeout}}="{LONGEST_TIMEOUT}"'
    )
    path = f"/etc/udev/rules.d/60-ext4audit-timeout-{model.lower().replace(' ', '-')}.rules"
    write = f"echo '{udev_rule}' > {path}"
    return (
        Step(Phase.IMMEDIATE, there, back, check),
        Step(Phase.PERSISTENT, write, f"rm -f {path}", change=NewFile(path, f"{udev_rule}\n")),
        Step(Phase.VERIFY, check),
    )


def _udev_file(name: str) -> str:
    return f"/etc/udev/rules.d/60-ext4audit-wbt-{name}.rules"

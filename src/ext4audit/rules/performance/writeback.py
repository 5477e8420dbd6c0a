"""Remedies for a stall of submission: the application, the queue, the backlog; safest first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ext4audit.facts.host import Memory
from ext4audit.finding import Disruption, Phase, Remedy, Step
from ext4audit.rules.performance.stall import Drain, stall_seconds

STALL_SECONDS = 2
"""What a stall may take before it is more than a note, and what a bounded backlog takes."""
VISIBLE_SHARE = 0.1
"""What a cure must take off the estimate to be worth a command."""
MIB = 1 << 20
SYSCTL_FILE = "/etc/sysctl.d/60-ext4audit-dirty.conf"
KERNEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names that mean themselves in a shell, in a path and in a udev rule."""

IN_THE_APPLICATION = Remedy(
    summary="In the application: fsync the new file before the rename, or rename it to a name "
    "that does not exist yet.",
    disruption=Disruption.ONLINE,
    trade_off="The fsync waits instead, but for this file only, and outside the directory's lock.",
)

# No commands: DUR008 would order them back in the next report, on whatever volume it is.
WITHOUT_THE_NET = Remedy(
    summary="Last, and only where a crash may cost what was not synced: the mount option "
    "noauto_da_alloc. Rename and close then submit nothing, and DUR008 warns of it from then on.",
    disruption=Disruption.REMOUNT,
    trade_off="A file that is replaced without fsync can be empty or short after a crash: "
    "only for scratch data, or where every writer calls fsync.",
)


def remedies(memory: Memory, backlog_bytes: int, drains: Sequence[Drain]) -> Iterator[Remedy]:
    """Yield all remedies in the order in which to try them."""
    yield IN_THE_APPLICATION
    yield from _unthrottle(backlog_bytes, drains)
    yield bound(memory, drains)
    yield WITHOUT_THE_NET


def _unthrottle(backlog_bytes: int, drains: Sequence[Drain]) -> Iterator[Remedy]:
    """Offer to switch writeback throttling off where the estimate then falls visibly."""
    now = stall_seconds(backlog_bytes, drains)
    then = stall_seconds(backlog_bytes, drains, throttling=False)
    throttled = [drain for drain in drains if drain.throttled]
    if now - then < VISIBLE_SHARE * now:
        return
    takes_bytes = min(drain.holds_bytes(throttled=False) * drain.shares for drain in drains)
    named = all(KERNEL_NAME.fullmatch(drain.name) for drain in throttled)
    yield Remedy(
        summary=f"Switch writeback throttling off on {', '.join(d.name for d in throttled)}: a "
        f"file of up to {takes_bytes // MIB} MiB then stalls nothing, the worst case falls from "
        f"~{now:.1f} s to ~{then:.1f} s.",
        disruption=Disruption.ONLINE,
        steps=tuple(_unthrottle_steps(throttled)) if named else (),
        trade_off="Reads wait longer behind background writes. The udev rule goes by the "
        "kernel's name of the disk, which may change when disks are added.",
    )


def _unthrottle_steps(throttled: Sequence[Drain]) -> Iterator[Step]:
    for drain in throttled:
        yield Step(Phase.IMMEDIATE, f"echo 0 > {_knob(drain)}")
    for drain in throttled:
        udev_rule = (
            f'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="{drain.name}", '
            'ATTR{queue/wbt_lat_usec}="0"'
        )
        yield Step(Phase.PERSISTENT, f"echo '{udev_rule}' > {_rule_file(drain)}")
    for drain in throttled:
        yield Step(Phase.VERIFY, f"grep -qx 0 {_knob(drain)}")
    for drain in throttled:
        yield Step(Phase.ROLLBACK, f"rm -f {_rule_file(drain)}")
        yield Step(Phase.ROLLBACK, f"echo {drain.wbt_latency_usec} > {_knob(drain)}")


def _knob(drain: Drain) -> str:
    return f"/sys/block/{drain.name}/queue/wbt_lat_usec"


def _rule_file(drain: Drain) -> str:
    return f"/etc/udev/rules.d/60-ext4audit-wbt-{drain.name}.rules"


def bound(memory: Memory, drains: Sequence[Drain]) -> Remedy:
    """Limit dirty memory to what the slowest queue writes within `STALL_SECONDS`."""
    slowest = min(drain.megabytes_per_second * drain.shares for drain in drains)
    limit_bytes = STALL_SECONDS * slowest * 1_000_000 // MIB * MIB
    settings = {
        "vm.dirty_background_bytes": limit_bytes // 4,
        "vm.dirty_bytes": limit_bytes,
    }
    words = " ".join(f"{key}={value}" for key, value in settings.items())
    lines = "".join(f"{key} = {value}\\n" for key, value in settings.items())
    before = (
        *_restore(
            "vm.dirty_background",
            memory.dirty_background_bytes,
            memory.dirty_background_ratio_percent,
        ),
        *_restore("vm.dirty", memory.dirty_bytes, memory.dirty_ratio_percent),
    )
    return Remedy(
        summary=f"Bound the backlog of dirty memory to {limit_bytes // MIB} MiB, which is "
        f"{STALL_SECONDS} s of writing.",
        disruption=Disruption.ONLINE,
        steps=(
            Step(Phase.IMMEDIATE, f"sysctl -w {words}"),
            Step(Phase.PERSISTENT, f"printf '{lines}' > {SYSCTL_FILE}"),
            Step(Phase.VERIFY, f"sysctl -n vm.dirty_bytes | grep -qx {limit_bytes}"),
            Step(Phase.ROLLBACK, f"rm -f {SYSCTL_FILE}"),
            Step(Phase.ROLLBACK, f"sysctl -w {' '.join(before)}"),
        ),
        trade_off="It holds for all filesystems of the host: programs that write in bursts wait "
        "sooner. A later file in /etc/sysctl.d, or tuned, may set it back at boot.",
    )


def _restore(name: str, size_bytes: int, ratio_percent: int) -> tuple[str, ...]:
    """Return the settings that bring a limit back.

    The kernel refuses 0 bytes; a ratio takes the place of the bytes, but only when it changes,
    and it counts as 0 while bytes are set (mm/page-writeback.c; tried on 6.18).
    """
    if size_bytes:
        return (f"{name}_bytes={size_bytes}",)
    if not ratio_percent:
        return (f"{name}_ratio=1", f"{name}_ratio=0")
    return (f"{name}_ratio={ratio_percent}",)

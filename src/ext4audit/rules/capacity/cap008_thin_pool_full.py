"""CAP008: The thin pool below the filesystem is full, nearly full, or needs a repair."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Evidence, Known, Unknown, need, raise_for
from ext4audit.facts.devices import BlockDevice, ThinPool
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import POOL_OF_LVM
from ext4audit.rules.shared.quantities import percent

FULL = (95, Severity.HIGH), (85, Severity.MEDIUM)
"""Thresholds of used blocks in percent, and their severities."""
NO_POOL = ("LVM-", "CRYPT-", "mpath-", "part")
"""UUID prefixes of other device-mapper devices; the UUID of an LVM pool ends in -tpool."""


@rule(
    "CAP008",
    "thin-pool-full",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://docs.kernel.org/admin-guide/device-mapper/thin-provisioning.html",
        "https://man7.org/linux/man-pages/man7/lvmthin.7.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    The state of thin pools below the filesystem, as `dmsetup status --noflush` shows it: severity
    is critical if the pool is out of space, failed or read-only, high if its metadata needs a check
    or 95 % of its data or metadata blocks are in use, and medium from 85 %. The rule requires root.

    ## Why it matters

    ext4 and df see the virtual size of a thin volume, not what the pool can still hold. When the
    pool is full, a write to a new block waits for 60 seconds (dm_thin_pool.no_space_timeout) and
    then fails, or fails at once with error_if_no_space. ext4 then aborts its journal, becomes
    read-only, and can lose data that was written but not yet synced. A full metadata device also
    leaves the pool read-only, and it must be repaired offline.

    ## Remedy

    Add space to the pool (lvextend on the pool or on its metadata), or free some: delete
    snapshots, and run fstrim on the filesystems. Let lvm2 extend pools by itself
    (activation/thin_pool_autoextend_threshold in lvm.conf, with dmeventd).

    ## When to ignore

    Ignore it if the pool is at least as large as all its volumes together: it can then be full
    without harm.
    """
    pools = list(_pools(need(fs.stack)))
    if not pools:
        raise NotApplicable("no thin pool is below it")
    unknowns = [state for _, state in pools if isinstance(state, Unknown)]
    for device, state in pools:
        if isinstance(state, Known):
            yield from _judge(device, state)
    raise_for(unknowns)


def _pools(stack: BlockDevice) -> Iterator[tuple[BlockDevice, Evidence[ThinPool]]]:
    """Yield the thin pools with their states, and an unknown for each device that may be one."""
    devices = tuple(stack.walk())
    below_thin = {d.device_number for t in devices if t.kind == "dm-thin" for d in t.known_below}
    for device in devices:
        if device.dm is None:
            continue
        if device.dm.pool is not None:
            yield device, device.dm.pool
        elif isinstance(device.dm.table, Unknown) and (
            _may_be_pool(device.dm.uuid) or device.device_number in below_thin
        ):
            yield device, device.dm.table
        if isinstance(device.below, Unknown):
            yield device, device.below


def _may_be_pool(uuid: str) -> bool:
    return uuid.endswith(POOL_OF_LVM) or not uuid.startswith(NO_POOL)


def _judge(device: BlockDevice, state: Known[ThinPool]) -> RuleOutput:
    found = _state(state.value)
    cited = tuple(_cite(device, state))
    if found is None:
        yield from cited
        return
    severity, clause, summary = found
    yield Finding(
        message=f"The thin pool {_name(device)} {clause}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=cited,
        remedies=(_remedy(state.value),),
        summary=summary,
    )


def _state(pool: ThinPool) -> tuple[Severity, str, str] | None:
    """Return the severity, the clause on the pool's state, and the summary; None if healthy."""
    if pool.mode == "Fail":
        clause = "has failed: every request to it is an error until it is repaired"
        return Severity.CRITICAL, clause, "the thin pool below has failed"
    if pool.mode == "ro":
        clause = "is read-only: writes to new blocks fail, and ext4 becomes read-only"
        return Severity.CRITICAL, clause, "the thin pool below is read-only"
    if pool.mode == "out_of_data_space":
        then = "wait up to 60 s and then fail" if pool.queues else "fail"
        clause = f"has no space left: writes to new blocks {then}, and ext4 becomes read-only"
        return Severity.CRITICAL, clause, "the thin pool below has no space left"
    if pool.needs_check:
        clause = "needs a check: an operation on its metadata has failed, and it will be read-only"
        return Severity.HIGH, clause, "the thin pool below needs a check"
    return _fullness(pool)


def _fullness(pool: ThinPool) -> tuple[Severity, str, str] | None:
    """Return the severity, clause and summary for a nearly full pool, None for one with room."""
    parts = ("data", pool.used_data, pool.data), ("metadata", pool.used_metadata, pool.metadata)
    name, used, whole = max(parts, key=lambda part: part[1] / max(part[2], 1))
    severity = next((s for share, s in FULL if whole and used * 100 >= share * whole), None)
    if severity is None:
        return None
    clause = (
        f"is {percent(used, whole)} full ({name}): when it is full, writes fail and ext4 becomes "
        "read-only, even if df shows free space"
    )
    return severity, clause, "the thin pool below is nearly full"


def _name(device: BlockDevice) -> str:
    return device.dm.name if device.dm and device.dm.name else device.name


def _cite(device: BlockDevice, state: Known[ThinPool]) -> Iterator[Citation]:
    pool, label = state.value, _name(device)
    yield Citation(f"mode of {label}", pool.mode, state.origin)
    for name, used, whole in (
        ("data", pool.used_data, pool.data),
        ("metadata", pool.used_metadata, pool.metadata),
    ):
        if whole:
            value = f"{used:,} of {whole:,} blocks ({percent(used, whole)})"
            yield Citation(f"{name} of {label}", value, state.origin)
    when_full = "queue_if_no_space" if pool.queues else "error_if_no_space"
    yield Citation("when it is full", when_full, state.origin, detail=True)


def _remedy(pool: ThinPool) -> Remedy:
    """Return advice instead of steps: only a person knows where to get space."""
    if pool.mode in {"Fail", "ro"} or pool.needs_check:
        return Remedy(
            "Make a backup of what can still be read, deactivate the pool and repair its metadata "
            "(lvconvert --repair, thin_check), then check the filesystem with e2fsck.",
            Disruption.UNMOUNT,
        )
    return Remedy(
        "Add space to the pool (lvextend; lvextend --poolmetadatasize for its metadata), or free "
        "some: delete snapshots, run fstrim.",
        Disruption.ONLINE,
    )

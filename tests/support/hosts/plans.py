"""Build plans for tests: twelve fully described disks by default, one keyword per deviation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ext4audit.assemble.planned import planned_host
from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.assemble.planned.superblock import predict_superblock
from ext4audit.engine import audit
from ext4audit.evidence import Known
from ext4audit.facts.host import Host, OperatingSystem
from ext4audit.facts.plan import Plan, PlannedHost
from ext4audit.parsers.mke2fs import parse_mkfs_arguments
from ext4audit.report import Report, ReportSource
from ext4audit.rules import all_rules
from ext4audit.sources.mkfs_simulation import MkfsSource
from support.builders import kernel, memory, queue

TAKEN_AT = "2026-01-02T03:04:05Z"
TWELVE_DISKS_BYTES = 314376192 * 4096
"""12 members of 100 GiB each, minus 64 MiB for md's superblock."""


def plan(mkfs: str = "", *mount_options: str, **changes: Any) -> Plan:
    """Build a plan with everything known about a RAID0 of 12 disks with chunks of 512 KiB."""
    host: dict[str, Any] = {
        "name": "planned",
        "kernel": Known(kernel(), "--kernel"),
        "os": Known(OperatingSystem("debian", "12", "debian 12"), "--os"),
        "memory": Known(memory(), "--memory"),
    }
    host |= {key: changes.pop(key) for key in ("e2fsprogs", "configuration") if key in changes}
    if "release" in changes:
        host["kernel"] = Known(kernel(changes.pop("release")), "--kernel")
    values: dict[str, Any] = {
        "device": "/dev/md0",
        "size_bytes": TWELVE_DISKS_BYTES,
        "level": "raid0",
        "members": 12,
        "chunk_bytes": 512 << 10,
        "mkfs": parse_mkfs_arguments(mkfs),
        "mount_options": mount_options,
        "mount_point": "/data",
        "queue": queue(wbt_latency_usec=0),
        "host": PlannedHost(**host),
    }
    return Plan(**{**values, **changes})


def disk_plan(mkfs: str = "", *mount_options: str, **changes: Any) -> Plan:
    """Build a plan of one disk of 1 GiB."""
    values = {"device": "/dev/sdX", "level": "disk", "members": 1, "chunk_bytes": 0}
    return plan(mkfs, *mount_options, **{"size_bytes": 1 << 30, **values, **changes})


def predict(of: Plan, **options: Any) -> Prediction:
    """Return the prediction of mke2fs for a plan."""
    options = {"timeout_seconds": 60, "configuration": of.host.configuration, **options}
    with MkfsSource(of.device, of.size_bytes, **options) as source:
        return predict_superblock(source, of)


def host_of(of: Plan) -> Host:
    """Return the host of a plan."""
    return planned_host(of, predict(of), TAKEN_AT)


def judge_by(*codes: str) -> Callable[[Plan], Report]:
    """Return a function that judges a plan by these rules, or by all without `codes`."""
    rules: Sequence[Any] = [rule for rule in all_rules() if not codes or rule.code in codes]
    return lambda of: audit(ReportSource("plan", "test"), host_of(of), rules)

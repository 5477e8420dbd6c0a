"""Audits a filesystem on a stack in the guest, and keeps a snapshot with the same report."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import audit, judge
from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.layout.stack import map_stack
from ext4audit.renderers import json_v1
from ext4audit.report import Report, ReportSource, Verdict
from ext4audit.rules import all_rules
from ext4audit.sources.captured import read_snapshot
from ext4audit.sources.live import LiveSource
from ext4audit.sources.snapshot.writing import RecordingSource
from lab.support.capturing import NOT_ROOT, capture, capture_as_nobody
from lab.support.devices import mounted, run, serials, wipe_idle_disks
from lab.support.scenario import JsonObject
from lab.support.truth import bitmap_reads
from support.hosts.snapshots import write_snapshot

TAKEN_AT = "2026-01-02T03:04:05Z"
SNAPSHOTS = Path("/lab-results/fixtures")
MOUNT_POINT = "/data"
SMALL = "512M"
DURABILITY = next(rule for rule in all_rules() if rule.code == "DUR001")


def audit_stack(
    name: str,
    device: str,
    *,
    size: str = SMALL,
    options: Sequence[str] = (),
    fstab: str = "defaults",
    without_barriers: bool = False,
    as_nobody: bool = False,
) -> JsonObject:
    """Make a filesystem on a device, audit it, and write the snapshot of the fixture `name`.

    `options` are the mount's, `fstab` those of its entry. `without_barriers` adds the severities
    of a second audit, with barriers off. `as_nobody` captures once more, without root. Returns
    what the tests judge.
    """
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, name))  # the same in every capture
    wipe_idle_disks()
    lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
    run("mkfs.ext4", "-q", "-F", "-E", lazy, "-U", identity, device, size)
    entry = f"UUID={identity} {MOUNT_POINT} ext4 {fstab} 0 2\n"
    with host_called_lab(entry), mounted(device, *options, at=MOUNT_POINT, mkfs=None):
        summary = _summary(_audit_and_keep(name))
        capture(name)
        if as_nobody:
            capture_as_nobody(f"{NOT_ROOT}{name}")
        grades = _without_barriers() if without_barriers else None
    members = [member["name"] for member in (summary["layout"] or {"members": []})["members"]]
    reads = bitmap_reads(device, members) if members else None
    return {**summary, "fixture": name, "without_barriers": grades, "bitmap_reads": reads}


@contextlib.contextmanager
def host_called_lab(fstab: str) -> Iterator[None]:
    """Give the guest a name and its own fstab, so that a snapshot shows nothing else.

    The file tree below the overlay is that of the machine that runs the lab, which may be a
    container: a container's marker file would make the guest look like one.
    """
    file = Path("/etc/fstab")
    former = file.read_bytes() if file.exists() else b""
    socket.sethostname("lab")
    Path("/.dockerenv").unlink(missing_ok=True)
    file.write_text(fstab)
    try:
        yield
    finally:
        file.write_bytes(former)


def _audit_and_keep(name: str) -> tuple[Report, bool]:
    """Audit this filesystem, write the snapshot, and return whether its replay is equal."""
    recorder = RecordingSource(LiveSource())
    report = _audit(assemble_host(recorder, TAKEN_AT, only=[_number()]))
    SNAPSHOTS.mkdir(exist_ok=True)
    write_snapshot(SNAPSHOTS / name, recorder.answers, taken_at=TAKEN_AT)
    source, taken_at = read_snapshot(SNAPSHOTS / name)
    replayed = _audit(assemble_host(source, taken_at, only=[_number()]))
    return report, _rendered(replayed) == _rendered(report)


def _audit(host: Host) -> Report:
    return audit(ReportSource("live", "lab"), host, all_rules())


def _rendered(report: Report) -> Any:
    return json.loads(json_v1.render_report(report, tool_version="0"))


def _number() -> DeviceNumber:
    number = Path(MOUNT_POINT).stat().st_dev
    return DeviceNumber(os.major(number), os.minor(number))


def _summary(kept: tuple[Report, bool]) -> JsonObject:
    """Return what tests judge: the stack and layout as in JSON, and the verdicts."""
    report, replay_equal = kept
    document = _rendered(report)
    (shown,) = document["filesystems"]
    (fs,) = report.host.filesystems
    return {
        "device": shown["device"],
        "stack": shown["stack"],
        "layout": shown["layout"],
        "serials": serials(),
        "start_sectors": _starts(fs),
        "stripe_offset_bytes": _stripe_offset(fs),
        "verdicts": {verdict["rule"]: verdict for verdict in document["verdicts"]},
        "complete": document["complete"],
        "replay_equal": replay_equal,
    }


def _starts(fs: Filesystem) -> dict[str, int]:
    """Return the start sector of each partition in the stack."""
    devices = fs.stack.value.walk() if isinstance(fs.stack, Known) else ()
    return {each.name: each.start_sectors for each in devices if each.start_sectors is not None}


def _stripe_offset(fs: Filesystem) -> int | None:
    found = map_stack(fs.stack.value) if isinstance(fs.stack, Known) else None
    geometry = found.value.geometry if isinstance(found, Known) else None
    return geometry.offset_bytes if geometry else None


def _without_barriers() -> list[list[str]]:
    """Turn barriers off, and return the severities and confidences of DUR001's findings."""
    run("mount", "-o", "remount,nobarrier", MOUNT_POINT)
    host = assemble_host(LiveSource(), TAKEN_AT, only=[_number()])
    verdict: Verdict = judge(DURABILITY, host.filesystems[0], host)
    return [[each.severity.value, each.confidence.value] for each in verdict.findings]

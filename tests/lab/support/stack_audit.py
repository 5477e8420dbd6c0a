"""Scans and captures a filesystem on a stack in the guest."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from ext4audit.assemble.host import assemble_host
from ext4audit.engine import judge
from ext4audit.facts.mount import DeviceNumber
from ext4audit.report import Verdict
from ext4audit.rules import all_rules
from ext4audit.sources.live import LiveSource
from lab.support.capturing import CAPTURES, LIVE, NOT_ROOT, capture, capture_as_nobody
from lab.support.devices import mounted, run, serials, wipe_idle_disks
from lab.support.scenario import JsonObject
from lab.support.truth import bitmap_reads

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
    """Make a filesystem on a device, scan it, and capture it for the fixture `name`.

    `options` are the mount's, `fstab` those of its entry. `without_barriers` adds the severities
    of a second audit, with barriers off. `as_nobody` captures once more, without root. Returns
    what the scan and the captures do not say: the tests replay them, since the guest is emulated.
    """
    identity = str(uuid.uuid5(uuid.NAMESPACE_URL, name))  # the same in every capture
    wipe_idle_disks()
    lazy = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
    run("mkfs.ext4", "-q", "-F", "-E", lazy, "-U", identity, device, size)
    entry = f"UUID={identity} {MOUNT_POINT} ext4 {fstab} 0 2\n"
    with host_called_lab(entry), mounted(device, *options, at=MOUNT_POINT, mkfs=None):
        capture(name)
        if as_nobody:
            capture_as_nobody(f"{NOT_ROOT}{name}")
        number = _number()
        grades = _without_barriers(number) if without_barriers else None
    members = _members(name)
    return {
        "fixture": name,
        "number": [number.major, number.minor],
        "serials": serials(),
        "without_barriers": grades,
        "bitmap_reads": bitmap_reads(device, members) if members else None,
    }


def _members(name: str) -> list[str]:
    """Return the disks that the layout of the scan names."""
    (shown,) = json.loads((CAPTURES / name / LIVE).read_text())["filesystems"]
    return [member["name"] for member in (shown["layout"] or {"members": []})["members"]]


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


def _number() -> DeviceNumber:
    number = Path(MOUNT_POINT).stat().st_dev
    return DeviceNumber(os.major(number), os.minor(number))


def _without_barriers(number: DeviceNumber) -> list[list[str]]:
    """Turn barriers off, and return the severities and confidences of DUR001's findings."""
    run("mount", "-o", "remount,nobarrier", MOUNT_POINT)
    host = assemble_host(LiveSource(), TAKEN_AT, only=[number])
    verdict: Verdict = judge(DURABILITY, host.filesystems[0], host)
    return [[each.severity.value, each.confidence.value] for each in verdict.findings]

"""Remedies that a rule prints for a stack, run on the stack: same commands, other devices."""

from __future__ import annotations

from pathlib import Path

from ext4audit.evidence import Known
from lab.support.devices import mounted, run
from lab.support.remedy_trial import RemedyTrial, remedies, verdict_text
from lab.support.scenario import JsonObject
from lab.support.stack_audit import MOUNT_POINT, host_called_lab
from lab.support.truth import bitmap_reads
from support.filesystems.scratch import apply_remedy, scanned_host


def recreate(device: str) -> JsonObject:
    """Run LAY001's mkfs on an unmounted filesystem with a hotspot, and see where bitmaps are."""
    trial = RemedyTrial(device, "LAY001", Path(MOUNT_POINT))
    before = trial.judge()
    (remedy,) = [each for each in remedies(before) if each.destructive]
    apply_remedy(remedy)
    (fs,) = scanned_host(device).filesystems
    members = fs.layout.value.members if isinstance(fs.layout, Known) else ()
    return {
        "before": verdict_text(before),
        "after": verdict_text(trial.judge()),
        "predicted": {member.name: member.bitmaps for member in members},
        "bitmap_reads": bitmap_reads(device, [member.name for member in members]),
        "fsck": run("e2fsck", "-fn", device),
    }


def turn_barriers_on(device: str) -> JsonObject:
    """Run DUR001's remedy on a mount without barriers that fstab does not request."""
    entry = f"{device} {MOUNT_POINT} ext4 defaults 0 2\n"
    with host_called_lab(entry), mounted(device, "nobarrier", at=MOUNT_POINT, mkfs=None):
        cured = RemedyTrial(device, "DUR001", Path(MOUNT_POINT)).cure("Enable barriers")
    return {**cured, "fsck": run("e2fsck", "-fn", device)}

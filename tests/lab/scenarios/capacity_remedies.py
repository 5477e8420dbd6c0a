"""The remedy that grows a mounted filesystem after its device has grown."""

from __future__ import annotations

from lab.support.curing import WHERE, Patient, fstab_entry, remedies, told
from lab.support.devices import disk, run
from lab.support.scenario import JsonObject, scenario
from support.filesystems.scratch import apply_remedy


@scenario(every_era=True)
def cap005_grow_online() -> JsonObject:
    """Grow 8 GiB to the 20 GiB of the disk with the printed commands, and mount it again."""
    return _grown()


@scenario(every_era=True)
def cap005_grow_clusters_online() -> JsonObject:
    """Grow a bigalloc filesystem the same way; resize2fs can only do it while it is mounted."""
    return _grown("-O", "bigalloc", "-C", "65536")


def _grown(*options: str) -> JsonObject:
    device = disk("wide")
    run("mkfs.ext4", "-q", "-F", *options, device, "8G")
    WHERE.mkdir(exist_ok=True)
    with fstab_entry(device, WHERE, "defaults"):
        run("mount", WHERE)
        return _grow(Patient(device, "CAP005"))


def _grow(patient: Patient) -> JsonObject:
    before = patient.judge()
    (remedy,) = remedies(before)
    apply_remedy(remedy)
    after = told(patient.judge())
    patient.mount_again()
    return {
        "before": told(before),
        "after": after,
        "persisted": told(patient.judge()),
        "disruption": remedy.disruption.value,
        "commands": [f"{step.phase.value}: {step.command}" for step in remedy.lines],
        "fsck": patient.fsck(),
    }

"""The remedy that grows a mounted filesystem after its device has grown."""

from __future__ import annotations

from lab.support.devices import disk, run
from lab.support.remedy_trial import WHERE, RemedyTrial, fstab_entry, remedies, verdict_text
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
        return _grow(RemedyTrial(device, "CAP005"))


def _grow(trial: RemedyTrial) -> JsonObject:
    before = trial.judge()
    (remedy,) = remedies(before)
    apply_remedy(remedy)
    after = verdict_text(trial.judge())
    trial.mount_again()
    return {
        "before": verdict_text(before),
        "after": after,
        "persisted": verdict_text(trial.judge()),
        "disruption": remedy.disruption.value,
        "commands": [f"{step.phase.value}: {step.command}" for step in remedy.lines],
        "fsck": trial.fsck(),
    }

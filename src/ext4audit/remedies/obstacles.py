"""What commands cannot do, or only in another way: features, a refused device, a twin."""

from __future__ import annotations

from ext4audit.evidence import OUTSIDE, Unknown, Why, for_wording
from ext4audit.facts.host import Filesystem
from ext4audit.finding import E2FSPROGS, NewMount, Remedy, Unmount

CORRECTLY = "correctly with the feature bigalloc."
MMP_NOTE = " tune2fs -f: because of the feature mmp it takes a mounted filesystem for a used one."


def adapted(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy as e2fsprogs can carry it out with the features of a filesystem."""
    return with_mmp(with_bigalloc(remedy, fs), fs)


def with_bigalloc(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy without commands that e2fsprogs cannot run on clusters (seen with 1.47.0).

    Where tune2fs removes a journal, wrong counts of free blocks are left; resize2fs refuses a
    filesystem that is not mounted as not fully tested. A rollback that would do so is left out.
    """
    superblock = for_wording(fs.superblock, None)
    if superblock is None or "bigalloc" not in superblock.features:
        return remedy
    if any(each.not_on_bigalloc for each in remedy.steps):
        note = f"No commands: e2fsprogs 1.47.0 does not do this {CORRECTLY}"
        return remedy._replace(summary=f"{remedy.summary} {note}", steps=())
    if any(each.rollback and each.undo_not_on_bigalloc for each in remedy.steps):
        note = f"There is no rollback: e2fsprogs 1.47.0 does not take this back {CORRECTLY}"
        steps = tuple(each._replace(undo="", undo_by_unmount="") for each in remedy.steps)
        return remedy._replace(summary=f"{remedy.summary} {note}", steps=steps)
    return remedy


def with_mmp(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy whose tune2fs writes to a mounted filesystem with the feature mmp.

    `forced` of a step is for a mounted filesystem: between an unmount and a mount it is not used.
    """
    superblock = for_wording(fs.superblock, None)
    if not fs.alive or superblock is None or "mmp" not in superblock.features:
        return remedy
    steps, mounted = [], True
    for step in remedy.steps:
        mounted = isinstance(step.change, NewMount) or (
            mounted and not isinstance(step.change, Unmount)
        )
        if mounted:
            undo = step.undo and step.forced_undo
            forced = step._replace(command=step.forced or step.command, undo=undo or step.undo)
            steps.append(forced)
        else:
            steps.append(step)
    if tuple(steps) == remedy.steps:
        return remedy
    return remedy._replace(steps=tuple(steps), summary=f"{remedy.summary}{MMP_NOTE}")


def with_refusal(remedy: Remedy, fs: Filesystem) -> Remedy:
    """Return a remedy with the sentence that its commands fail here, if they do."""
    primary = fs.primary
    if not isinstance(primary, Unknown) or (primary.why, primary.hint) != (Why.DENIED, OUTSIDE):
        return remedy
    if all(E2FSPROGS.isdisjoint(each.programs.command) for each in remedy.steps):
        return remedy
    note = f"{fs.device} cannot be opened here, even by root: {OUTSIDE}."
    return remedy._replace(summary=f"{remedy.summary} {note}")


def with_twin(remedy: Remedy, fs: Filesystem, twin: Filesystem) -> Remedy:
    """Return a remedy without commands, because the mounted `twin` may be the same filesystem."""
    if not remedy.steps:
        return remedy
    note = (
        f"No commands: {twin.device} has the same UUID and is mounted. Where {fs.device} is "
        "another way to the same storage, they would damage it."
    )
    return remedy._replace(summary=f"{remedy.summary} {note}", steps=())

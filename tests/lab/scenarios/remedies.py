"""The remedies for mount options, fstab and layout, run on real stacks."""

from __future__ import annotations

from dataclasses import replace

from ext4audit.evidence import Known
from ext4audit.facts.host import ActiveProfile, Host, all_profiles
from ext4audit.parsers import parse_kernel
from lab.support.devices import disk, md, mounted, run
from lab.support.remedy_trial import (
    WHERE,
    RemedyTrial,
    prepared,
    remedies,
    verdict_text,
    write_fstab,
)
from lab.support.scenario import JsonObject, scenario

AFFECTED = "4.19.91-18.al7.x86_64"
"""A release in the range on Alibaba's page; no kernel in the archive still has the defect."""


@scenario(every_era=True)
def dur001_nobarrier_on_a_mirror() -> JsonObject:
    """Remove nobarrier from fstab on an md RAID1 of a virtio disk and an NVMe disk."""
    members = [disk("wide"), disk("nvme")]
    with (
        md("1", members, "--size=163840", "--metadata=1.2") as device,
        prepared("DUR001", "nobarrier", device) as trial,
    ):
        cured = trial.cure("Enable barriers")
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def dur002_bits() -> JsonObject:
    """Undo `tune2fs -o`: two options that a remount can change back."""
    with prepared("DUR002", "defaults", tune=["-o", "nobarrier,nodelalloc"]) as trial:
        cured = trial.cure(
            "Reset the superblock to the kernel's defaults", mount_after_rollback=True
        )
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def dur002_string_and_data_mode() -> JsonObject:
    """Clear the superblock's option string and data mode bits, which takes a new mount."""
    string = "noauto_da_alloc,nobarrier"
    with prepared(
        "DUR002", "defaults", tune=["-o", "journal_data_writeback"], string=string
    ) as trial:
        cured = trial.cure(
            "Reset the superblock to the kernel's defaults", mount_after_rollback=True
        )
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def prf001_nodelalloc() -> JsonObject:
    """Remove nodelalloc from fstab, on a kernel treated as having the dioread_nolock defect."""
    with prepared("PRF001", "defaults,nodelalloc") as seen:
        trial = replace(seen, see=_affected)
        cured = {
            "delalloc": trial.cure("Enable delayed allocation"),
            "dioread_lock": trial.cure("disable dioread_nolock"),
        }
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def drf001_remounted_by_hand() -> JsonObject:
    """Undo a manual remount whose options are not in fstab."""
    by_hand = "dioread_lock,commit=30"
    with prepared("DRF001", "defaults") as trial:
        run("mount", "-o", f"remount,{by_hand}", WHERE)
        cured = {"keep": trial.cure("Keep them: add")}
        run("mount", "-o", f"remount,{by_hand}", WHERE)
        cured["go back"] = trial.cure("Revert to the options of fstab")
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def drf002_fstab_was_edited() -> JsonObject:
    """Apply an edit of fstab that was made after the mount."""
    with prepared("DRF002", "defaults") as trial:
        write_fstab(trial.device, WHERE, "defaults,dioread_lock,noatime")
        cured = {
            "remount": trial.cure("Remount with the options of fstab"),
            "correct": trial.cure("Change fstab to match the options in force"),
        }
        return {**cured, "fsck": trial.fsck()}


@scenario(every_era=True)
def drf002_nodelalloc() -> JsonObject:
    """Apply nodelalloc added to fstab, which not every kernel accepts by remount."""
    with prepared("DRF002", "defaults") as seen:
        trial = replace(seen, see=_with_tidb)
        write_fstab(trial.device, WHERE, "defaults,nodelalloc")
        offered = [remedy.summary for remedy in remedies(trial.judge())]
        if "Remount with the options of fstab" not in offered[0]:
            return {"offered": offered, "fsck": trial.fsck()}
        return {
            "offered": offered,
            **trial.cure("Remount with the options of fstab"),
            "fsck": trial.fsck(),
        }


@scenario()
def drf006_not_mounted() -> JsonObject:
    """Mount an entry of fstab that is not mounted."""
    with prepared("DRF006", "defaults") as trial:
        run("umount", WHERE)
        cured = trial.cure("then mount the filesystem")
        run("mount", WHERE)
        return {**cured, "fsck": trial.fsck()}


@scenario()
def lay001_recreate() -> JsonObject:
    """Recreate mke2fs's default filesystem on a RAID0 of four disks with the printed line."""
    members = [disk(f"raid0{number}") for number in range(4)]
    with md("0", members, "--chunk=512") as device:
        run("mkfs.ext4", "-q", "-F", device)
        trial = RemedyTrial(device, "LAY001")
        before = trial.judge()
        (remedy,) = [each for each in remedies(before) if each.destructive]
        commands = [step.command for step in remedy.steps]
        for command in commands:
            run("sh", "-c", command)
        after = verdict_text(trial.judge())
        with mounted(device, mkfs=None):
            persisted = verdict_text(trial.judge())
        fsck = run("e2fsck", "-fn", device)
    return {
        "before": verdict_text(before),
        "after": after,
        "persisted": persisted,
        "commands": commands,
        "fsck": fsck,
    }


def _with_tidb(host: Host) -> Host:
    """Select the profile that requires nodelalloc, whose absence PRF003 reports."""
    return host._replace(profiles=(ActiveProfile(all_profiles()["tidb"]),))


def _affected(host: Host) -> Host:
    """Treat the kernel as one of the affected range; change nothing else."""
    return host._replace(kernel=Known(parse_kernel(f"{AFFECTED}\n#1 SMP\nx86_64\nlab\n"), "uname"))

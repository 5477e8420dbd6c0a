"""PRF012: The mount option sync or dirsync makes writes wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, Known, for_wording, need
from ext4audit.facts.devices import devices_by_number
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, few
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.performance import is_removable
from ext4audit.rules.shared import IN_BOOT_LOADER, cite_fstab, rootflags

EFFECT = {
    "sync": "every write(2) and every change of a directory waits for the disk",
    "dirsync": "creating, renaming and deleting a file each wait for the disk",
}


@rule(
    "PRF012",
    "sync-mount",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mount.8.html",
        "https://man7.org/linux/man-pages/man2/mount.2.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a writable filesystem is mounted with `sync` (severity medium) or with `dirsync` alone
    (low). On USB disks and memory cards, severity is info.

    ## Why it matters

    The flags belong to the superblock and apply to all its mounts. With `sync`, a program that
    writes a file in chunks of 4 KiB waits for the disk at each chunk: a copy that took seconds
    takes minutes, and the journal commits all the time. Such a mount is often left over from
    debugging. Programs that need durability call fsync() once.

    ## Remedy

    A remount with `async` clears `sync`. A remount cannot clear `dirsync`: unmount and mount again.

    ## When to ignore

    Ignore it on removable media, for mail servers and spoolers that require `dirsync`, and for
    programs that do not call fsync().
    """
    refuse_unmounted(fs)
    if need(fs.read_only):
        raise NotApplicable("it is read-only")
    shown = remedies.flags.seen_here(fs)[0].super_options
    flags = [flag for flag in remedies.flags.SYNCHRONOUS if flag in shown]
    if not flags:
        yield Citation("mount table", ",".join(shown), MOUNT_TABLE)
        return
    yield _finding(fs, host, flags)


def _finding(fs: Filesystem, host: Host, flags: list[str]) -> Finding:
    severity = Severity.MEDIUM if "sync" in flags else Severity.LOW
    removable = _removable(fs, host)
    points = few(fs.mount_points)
    return Finding(
        message=f"{points} is mounted with {' and '.join(flags)}: {EFFECT[flags[0]]}.",
        severity=Severity.INFO if removable else severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_citations(fs, host, removable)),
        remedies=(_remedy(fs, host, flags),),
        fact=",".join(flags),
        summary=f"{' and '.join(flags)}: {EFFECT[flags[0]]}",
    )


def _citations(fs: Filesystem, host: Host, removable: str) -> Iterator[Citation]:
    shown = ",".join(fs.mounts[0].super_options)
    yield Citation("mount table", shown, MOUNT_TABLE)
    for entry in for_wording(fs.fstab, ()):
        line = entry.line
        if not set(remedies.flags.SYNCHRONOUS).isdisjoint(line.options):
            yield cite_fstab(line, line.raw_options)
    if _at_boot(fs, host):
        yield Citation("rootflags", ",".join(need(rootflags(host))), "/proc/cmdline")
    if removable:
        yield Citation("removable", removable, "/sys, lsblk")


def _removable(fs: Filesystem, host: Host) -> str:
    """Return the name of a USB disk or memory card below, empty if none is known."""
    if not isinstance(fs.stack, Known):
        return ""
    listed = for_wording(host.devices, ())
    for leaf in fs.stack.value.leaves():
        lines = devices_by_number(listed).get(leaf.device_number, ())
        if is_removable(leaf) or any(each.transport == "usb" for each in lines):
            return leaf.name
    return ""


def _at_boot(fs: Filesystem, host: Host) -> bool:
    synchronous = set(remedies.flags.SYNCHRONOUS)
    return "/" in fs.mount_points and not synchronous.isdisjoint(need(rootflags(host)))


def _remedy(fs: Filesystem, host: Host, flags: list[str]) -> Remedy:
    steps = remedies.flags.clear_sync(fs, dirsync="dirsync" in flags)
    return Remedy(
        f"Mount it without {' and '.join(flags)}.{_by_hand(fs, flags)}"
        f"{IN_BOOT_LOADER if _at_boot(fs, host) else ''}",
        remedies.options.disruption(steps) if steps else _disruption(fs, flags),
        steps,
        trade_off="A crash can lose data that is not synced: programs that rely on the flag must "
        "call fsync().",
    )


def _by_hand(fs: Filesystem, flags: list[str]) -> str:
    """Return the sentence on manual steps, empty if the commands are complete."""
    mount = remedies.remount.usable_mount(fs)
    if "dirsync" in flags and remedies.remount.single_mount(fs) is None:
        return " Remove the option from fstab, then unmount it everywhere and mount it, or restart."
    if mount is None:
        return f" Remount it {remedies.remount.without_mount(fs)}."
    named = any(entry.is_for(mount) for entry in for_wording(fs.fstab, ()))
    return "" if named else f" Also correct {remedies.mounted_by(fs)}."


def _disruption(fs: Filesystem, flags: list[str]) -> Disruption:
    if "dirsync" not in flags:
        return Disruption.REMOUNT
    return Disruption.REBOOT if "/" in fs.mount_points else Disruption.UNMOUNT

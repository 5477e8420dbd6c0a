"""HLT003: An unmounted filesystem is not clean: it needs a journal replay or a check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import OutOfScope, Unknown, for_wording, origin_of, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import ERROR_MARK, Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, host_rule
from ext4audit.rules.health import network_disks, network_gaps
from ext4audit.rules.shared.quantities import seconds_since_1970

SIGNS = {
    "needs_recovery": "its journal has not been replayed",
    "orphan_present": "files were being deleted or truncated",
}
"""Features that a clean unmount clears, with their meanings."""
WORST = frozenset({ERROR_MARK, "not clean"})
LONGEST_AUDIT_SECONDS = 3600
"""A mount recorded later than this after the start of the audit has the time of a wrong clock."""
ZFS_VOLUME = "zd"
"""The kernel's name prefix for ZFS volumes and their partitions."""
VOLUME_OF_GUEST = re.compile(r"vm--[0-9]+--disk--[0-9]+")
"""The logical volumes of Proxmox VE for its guests: /dev/mapper/pve-vm--100--disk--0."""
HIBERNATED = "swsuspend"
"""What libblkid calls a swap device that holds the memory of a hibernated system."""


@host_rule(
    "HLT003",
    "unclean-needs-fsck",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man8/e2fsck.8.html",
        "https://www.kernel.org/doc/html/latest/filesystems/ext4/super.html",
    ),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Whether the superblock of an ext2, ext3 or ext4 filesystem that is not mounted anywhere shows
    that it was not unmounted cleanly, or records errors. Image files that are given as targets are
    included. Severity is medium. It is info for a copy of a mounted filesystem (a snapshot), and
    low for a journal to be replayed where another system may have the filesystem mounted: on a ZFS
    volume or a guest's volume of Proxmox VE, usually the disk of a running virtual machine; on a
    disk of a storage network (Fibre Channel, iSCSI, multipath, Ceph RBD), shared by the hosts of a
    cluster; and beside a swap device that holds a hibernated system. A filesystem that was mounted
    while the audit ran passes.

    ## Why it matters

    The latest changes are only in the journal: tools that read the device without replaying it
    see outdated or incomplete metadata. If errors are recorded, mounting writes to a damaged
    filesystem.

    ## Remedy

    Mounting replays the journal; `e2fsck -p` does the same and also makes safe repairs. No command
    is printed where another system may have it mounted, nor where the disks below are not known:
    first look who uses it.

    ## When to ignore

    Ignore it if another system uses the filesystem at the moment: a host that shares the disk, a
    virtual machine that runs from the image, or a hibernated system. In this case, do not write to
    the device.
    """
    unmounted = _not_mounted(host)
    unknowns: list[Unknown] = []
    for fs in unmounted:
        if isinstance(fs.superblock, Unknown):
            unknowns.append(fs.superblock)
        else:
            yield from _judge(fs, host, fs.superblock.value)
    if isinstance(host.unmounted, Unknown) and not isinstance(host.unmounted, OutOfScope):
        unknowns.append(host.unmounted)
    raise_for(unknowns)
    if not unmounted:
        raise NotApplicable("all ext2, ext3 and ext4 filesystems that were found are mounted")


def _not_mounted(host: Host) -> tuple[Filesystem, ...]:
    """Return the targets that are not mounted, then unmounted filesystems on other devices."""
    targets = tuple(fs for fs in host.filesystems if not fs.alive)
    named = {fs.device_number for fs in targets}
    others = for_wording(host.unmounted, ())
    return (*targets, *(fs for fs in others if fs.device_number not in named))


def _judge(fs: Filesystem, host: Host, superblock: Superblock) -> Iterator[Finding | Citation]:
    signs = _signs(superblock)
    if not signs:
        yield Citation(fs.device, superblock.state or "clean", origin_of(fs.superblock))
        return
    if ERROR_MARK not in signs and _was_mounted_meanwhile(superblock, host):
        yield Citation(fs.device, "mounted while the audit ran", origin_of(fs.superblock))
        return
    twin = host.mounted_twin(fs)
    if twin is None:
        yield _unclean(fs, host, signs)
    elif host.is_same_storage(fs, twin):
        same = f"the same storage as {twin.device}, mounted"
        yield Citation(fs.device, same, origin_of(fs.superblock))
    else:
        sure = host.is_same_storage(fs, twin) is False
        yield _snapshot(fs, twin, signs, "" if sure else ", or a second path to the same disk")


def _was_mounted_meanwhile(superblock: Superblock, host: Host) -> bool:
    """Return whether the last mount is later than the mount table, which is read first.

    Every mount that can write records its time (ext4_setup_super() of fs/ext4/super.c). A local
    time in an unknown zone may be hours before or after the time of the audit.
    """
    began, mounted = seconds_since_1970(host.taken_at), superblock.last_mounted_at
    if began is None or mounted is None or host.has_local_times:
        return False
    return 0 <= mounted - began <= LONGEST_AUDIT_SECONDS


def _signs(superblock: Superblock) -> dict[str, str]:
    """Return the superblock's signs of an unclean state, with their meanings."""
    signs = {name: SIGNS[name] for name in sorted(SIGNS) if name in superblock.features}
    if superblock.is_marked or superblock.error_count:
        signs[ERROR_MARK] = "errors are recorded"
    if "not clean" in (superblock.state or ""):  # as e2fsprogs names it
        signs["not clean"] = "it was not unmounted cleanly"
    return signs


def _unclean(fs: Filesystem, host: Host, signs: dict[str, str]) -> Finding:
    sure, elsewhere = bool(WORST & signs.keys()), _use_elsewhere(fs, host)
    in_use = "" if sure else elsewhere
    may_be_shared = bool(elsewhere) or any(network_gaps(fs.stack, host.devices))
    return Finding(
        message=f"{fs.device} is not mounted and not clean: {'; '.join(signs.values())}.{in_use}",
        severity=Severity.LOW if in_use else Severity.MEDIUM,
        confidence=Confidence.CONFIRMED if sure else Confidence.LIKELY,
        citations=_cite(fs, signs),
        remedies=(AFTER_LOOKING if may_be_shared else _repair(fs),),
        fact=fs.uuid or "",
        device=fs.device,
        summary="an unmounted filesystem is not clean",
    )


def _use_elsewhere(fs: Filesystem, host: Host) -> str:
    """Return a sentence on who else may have the filesystem mounted at the moment, "" if none."""
    stack = for_wording(fs.stack, None)
    if stack is None:
        return ""
    rows, devices = for_wording(host.devices, ()), tuple(stack.walk())
    if any(each.name.startswith(ZFS_VOLUME) for each in devices):
        return " It is on a ZFS volume, which a virtual machine may have in use."
    if any(VOLUME_OF_GUEST.search(each.path) for each in devices):
        return " It is on a volume of Proxmox VE, which a virtual machine may have in use."
    shared = next(network_disks(stack, rows), None)
    if shared is not None:
        where = f"on a disk of a storage network ({shared.value})"
        return f" It is {where}, which another host may have in use."
    asleep = next((row.name for row in rows if row.fstype == HIBERNATED), None)
    return f" {asleep} holds a hibernated system, which may have it mounted." if asleep else ""


def _snapshot(fs: Filesystem, twin: Filesystem, signs: dict[str, str], doubt: str) -> Finding:
    return Finding(
        message=f"{fs.device} has the UUID of {twin.device}, which is mounted: it is probably a "
        f"snapshot of it, in the state that a crash would leave{doubt} ({', '.join(signs)}).",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=_cite(fs, signs),
        fact=fs.uuid or "",
        device=fs.device,
        summary="a copy of a mounted filesystem is not clean",
    )


def _cite(fs: Filesystem, signs: dict[str, str]) -> tuple[Citation, ...]:
    return tuple(Citation(fs.device, sign, origin_of(fs.superblock)) for sign in signs)


REPAIR = "run e2fsck -p, which replays the journal and makes safe repairs."
NOT_IN_USE = (
    "Do not run it while another host or a virtual machine uses the device: two writers destroy "
    "the filesystem. If -p fails, image the device before e2fsck -f."
)
AFTER_LOOKING = Remedy(
    "If nothing else uses it, neither another host that reaches the disk nor a virtual machine or "
    f"a hibernated system, {REPAIR}",
    Disruption.ONLINE,
    trade_off=NOT_IN_USE,
)
"""No commands: nothing on this host shows whether another one has it mounted."""


def _repair(fs: Filesystem) -> Remedy:
    return Remedy(
        summary=f"R{REPAIR[1:]}",
        disruption=Disruption.ONLINE,
        steps=remedies.checking.preen(fs),
        trade_off=NOT_IN_USE,
    )

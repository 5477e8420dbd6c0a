"""DRF006: An ext4 entry of fstab is not mounted."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, Undetermined, Unknown, Why, for_wording, need
from ext4audit.facts.host import Host
from ext4audit.facts.mount import EXT_FSTYPES, FstabEntry, Mount
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import NotApplicable, RuleOutput, host_rule

NOT_A_MOUNT = frozenset({"none", "swap", "", "-"})


@host_rule(
    "DRF006",
    "fstab-entry-not-mounted",
    severity=Severity.HIGH,
    since="0.1",
    references=("fstab(5)", "systemd.mount(5)"),
)
def check(host: Host) -> RuleOutput:
    """## What it checks

    Entries of fstab for ext2, ext3 or ext4, without `noauto`, whose mount point is not in the
    mount table, or holds another filesystem than the entry names. Low where the entry has
    `nofail`, its device is not attached and nothing is mounted in its place: a backup disk comes
    and goes.

    ## Why it matters

    A service that starts all the same writes into the empty directory below, and its data is
    hidden when the filesystem comes back. With `nofail` the boot says nothing of it; without,
    a boot waits for an absent device and then fails.

    ## Remedy

    Mount it, after looking into the directory for what was written there meanwhile.

    ## When to ignore

    When the filesystem was taken off on purpose; then add `noauto` or remove the entry.
    """
    container = need(host.container)
    if container:
        raise NotApplicable(f"in a {container} container, /etc/fstab is not the host's")
    entries, mounts = need(host.fstab, host.mounts)
    expected = [entry for entry in entries if _is_expected(entry)]
    if not expected:
        raise NotApplicable("fstab has no ext4 entry that is mounted at boot")
    gaps = []
    for entry in expected:
        there = entry.mounted_there(mounts)
        number = entry.device_number
        if any(isinstance(number, Known) and m.device_number == number.value for m in there):
            line = entry.line
            yield Citation(f"fstab line {line.line_number}", line.mount_point, "/etc/fstab")
        elif isinstance(number, Unknown) and _may_be(entry, there):
            gaps.append(number)
        else:
            yield _finding(host, entry, there)
    if gaps:
        raise Undetermined(tuple(dict.fromkeys(gaps)))


def _may_be(entry: FstabEntry, there: Sequence[Mount]) -> bool:
    """Whether what is mounted may be the filesystem of an entry whose device was not found."""
    return any(
        m.fstype in EXT_FSTYPES and m.device_number not in entry.other_devices for m in there
    )


def _is_expected(entry: FstabEntry) -> bool:
    """Whether an entry is certainly ext4's and meant to be mounted at boot; "auto" is neither."""
    line = entry.line
    automatic = not {"noauto", "x-systemd.automount"} & set(line.options)
    return automatic and line.fstype != "auto" and line.mount_point not in NOT_A_MOUNT


def _finding(host: Host, entry: FstabEntry, there: Sequence[Mount]) -> Finding:
    line = entry.line
    number = entry.device_number
    where = "is on this host" if isinstance(number, Known) else "not found on this host"
    return Finding(
        message=" ".join(filter(None, (_message(entry, there), _at_boot(entry)))),
        severity=Severity.HIGH if there or not _may_be_away(host, entry) else Severity.LOW,
        confidence=Confidence.LIKELY
        if there and isinstance(number, Unknown)
        else Confidence.CONFIRMED,
        citations=(
            Citation(
                f"fstab line {line.line_number}",
                f"{line.spec} {line.mount_point} {line.fstype} {line.raw_options}",
                "/etc/fstab",
            ),
            *(Citation("mount table", _shown(mount), "/proc/self/mountinfo") for mount in there),
            *_nothing(entry, there),
            Citation("device", f"{line.spec} {where}", _origin(entry)),
        ),
        remedies=() if there or isinstance(number, Unknown) else tuple(_remedies(line.mount_point)),
        fact=line.mount_point,
    )


def _may_be_away(host: Host, entry: FstabEntry) -> bool:
    """Whether the entry allows its device to be absent, and it certainly is.

    Without udev and root lsblk shows no identifier of any device, so that none is found.
    """
    number = entry.device_number
    is_absent = isinstance(number, Unknown) and number.why is Why.ABSENT
    identified = any(row.fstype for row in for_wording(host.devices, ()))
    return is_absent and identified and "nofail" in entry.line.options


def _message(entry: FstabEntry, there: Sequence[Mount]) -> str:
    where = entry.line.mount_point
    if not there:
        return (
            f"{where} is in fstab and not mounted: what writes there now writes into the "
            "directory below."
        )
    return f"{where} holds another filesystem than fstab names: {entry.line.spec} is not there."


def _at_boot(entry: FstabEntry) -> str:
    """Return what the next boot does about a device that was not found."""
    if isinstance(entry.device_number, Known):
        return ""
    if "nofail" in entry.line.options:
        return "Its device was not found; a boot goes on without it (nofail)."
    return (
        "Its device was not found, and without nofail a boot waits for it and then fails "
        "(systemd: 90 seconds, then emergency mode)."
    )


def _shown(mount: Mount) -> str:
    return f"{mount.source} ({mount.fstype}, {mount.device_number}) on {mount.mount_point}"


def _nothing(entry: FstabEntry, there: Sequence[Mount]) -> Sequence[Citation]:
    where = f"nothing on {entry.line.mount_point}"
    return () if there else (Citation("mount table", where, "/proc/self/mountinfo"),)


def _origin(entry: FstabEntry) -> str:
    number = entry.device_number
    return number.detail or number.what if isinstance(number, Unknown) else number.origin


def _remedies(mount_point: str) -> Sequence[Remedy]:
    steps = remedies.mounting.mount_by_fstab(mount_point)
    if not steps:
        return ()
    return (
        Remedy(
            summary="Mount it as fstab says, after looking at what lies in the directory.",
            disruption=Disruption.ONLINE,
            steps=steps,
            trade_off="Files written into the directory meanwhile disappear below the mount "
            "until it is unmounted again.",
        ),
    )

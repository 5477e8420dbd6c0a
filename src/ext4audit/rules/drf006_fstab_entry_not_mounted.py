"""DRF006: An ext4 entry of fstab is not mounted."""

from __future__ import annotations

from collections.abc import Sequence

from ext4audit.evidence import Unknown, need
from ext4audit.facts.host import Host
from ext4audit.facts.mount import FstabEntry
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.rule import NotApplicable, Said, host_rule
from ext4audit.rules._shell import quote

NOT_A_MOUNT = frozenset({"none", "swap", "", "-"})


@host_rule(
    "DRF006",
    "fstab-entry-not-mounted",
    severity=Severity.HIGH,
    since="0.1",
    references=("fstab(5)", "systemd.mount(5)"),
)
def check(host: Host) -> Said:
    """## What it checks

    Entries of fstab for ext2, ext3 or ext4, without `noauto`, whose mount point is not in the
    mount table.

    ## Why it matters

    A service that starts all the same writes into the empty directory below, and its data is
    hidden when the filesystem comes back. With `nofail` the boot says nothing of it.

    ## Remedy

    Mount it, after looking into the directory for what was written there meanwhile.

    ## When to ignore

    When the filesystem was taken off on purpose; then add `noauto` or remove the entry.
    """
    if host.container:
        raise NotApplicable(f"in a {host.container} container, /etc/fstab is not the host's")
    entries, mounts = need(host.fstab, host.mounts)
    mounted = {mount.mount_point.rstrip("/") for mount in mounts}
    expected = [entry for entry in entries if _is_expected(entry)]
    if not expected:
        raise NotApplicable("fstab has no ext4 entry that is mounted at boot")
    for entry in expected:
        line = entry.line
        if line.mount_point.rstrip("/") in mounted:
            yield Citation(f"fstab line {line.line_number}", line.mount_point, "/etc/fstab")
        else:
            yield _finding(entry)


def _is_expected(entry: FstabEntry) -> bool:
    """Whether an entry is certainly ext4's and meant to be mounted at boot; "auto" is neither."""
    line = entry.line
    automatic = not {"noauto", "x-systemd.automount"} & set(line.options)
    return automatic and line.fstype != "auto" and line.mount_point not in NOT_A_MOUNT


def _finding(entry: FstabEntry) -> Finding:
    line = entry.line
    absent = isinstance(entry.device_number, Unknown)
    where = "not found on this host" if absent else "is on this host"
    return Finding(
        message=f"{line.mount_point} is in fstab and not mounted: what writes there now writes "
        "into the directory below.",
        severity=Severity.HIGH,
        confidence=Confidence.CONFIRMED,
        citations=(
            Citation(
                f"fstab line {line.line_number}",
                f"{line.spec} {line.mount_point} {line.fstype} {line.raw_options}",
                "/etc/fstab",
            ),
            Citation("mount table", f"nothing on {line.mount_point}", "/proc/self/mountinfo"),
            Citation("device", f"{line.spec} {where}", _origin(entry)),
        ),
        remedies=() if absent else tuple(_remedies(line.mount_point)),
    )


def _origin(entry: FstabEntry) -> str:
    number = entry.device_number
    return number.detail or number.what if isinstance(number, Unknown) else number.origin


def _remedies(mount_point: str) -> Sequence[Remedy]:
    where = quote(mount_point)
    if where is None:
        return ()
    return (
        Remedy(
            summary="Mount it as fstab says, after looking at what lies in the directory.",
            disruption=Disruption.ONLINE,
            steps=(
                Step(Phase.IMMEDIATE, f"ls -A {where}"),
                Step(Phase.IMMEDIATE, f"mount {where}"),
                Step(Phase.VERIFY, f"mountpoint -q {where}"),
                Step(Phase.ROLLBACK, f"umount {where}"),
            ),
            trade_off="Files written into the directory meanwhile disappear below the mount "
            "until it is unmounted again.",
        ),
    )

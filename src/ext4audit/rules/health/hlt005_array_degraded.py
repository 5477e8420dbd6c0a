"""HLT005: An md array below the filesystem lacks a member or is synchronizing."""

from __future__ import annotations

from ext4audit.evidence import OUTSIDE, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import BlockDevice, MdArray
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule

REDUNDANT = frozenset({"raid1", "raid10", "raid4", "raid5", "raid6"})
SPARE_MEMBERS = {"raid6": 2}
"""How many members a level can lose; one for the other levels, all but one for a mirror."""
IDLE = frozenset({"idle", "frozen"})


@rule(
    "HLT005",
    "array-degraded",
    severity=Severity.HIGH,
    since="0.2",
    in_plans=False,
    references=(
        "https://docs.kernel.org/admin-guide/md.html",
        "https://man7.org/linux/man-pages/man8/mdadm.8.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    md arrays with redundancy below the filesystem: how many members are missing
    (`md/degraded`), and whether a resync, recovery, check or reshape is running
    (`md/sync_action`). Severity is high where one more failure can lose data, medium where
    redundancy is left, low for a mirror that still has two disks or more, and info while a
    complete array synchronizes. Mirrors and RAIDs of LVM are not checked.

    ## Why it matters

    The array decides whether the data is safe and how fast the filesystem is. A RAID5 with a
    missing member reads all other members to reconstruct a block, and loses its data with the
    next failure.

    ## Remedy

    Check `mdadm --detail`, replace the disk, and add the new one with `mdadm --add`. A running
    synchronization ends without any action.

    ## When to ignore

    Arrays that were created with fewer members than slots on purpose, such as the system mirrors
    of some storage appliances.
    """
    below = [device for device in need(fs.stack).walk() if device.md is not None]
    unknowns = [device.md for device in below if isinstance(device.md, Unknown)]
    arrays = [(d, d.md.value) for d in below if isinstance(d.md, Known)]
    redundant = [(device, array) for device, array in arrays if array.level in REDUNDANT]
    for device, array in redundant:
        if array.degraded is None or array.sync_action is None:
            unknowns.append(_unread(device))
        if array.degraded or array.sync_action not in {None, *IDLE}:
            yield _finding(device, array)
        else:
            yield from _cite(device, array)
    if unknowns:
        raise Undetermined(tuple(unknowns))
    if not redundant:
        raise NotApplicable("it is not on an md array with redundancy")


def _unread(device: BlockDevice) -> Unknown:
    what = f"state of {device.name}"
    return Unknown(
        what,
        Why.NOT_CAPTURED,
        "md/degraded or md/sync_action",
        OUTSIDE,
    )


def _severity(array: MdArray, missing: int) -> Severity:
    """Grade by the redundancy that is left."""
    if not missing:
        return Severity.INFO
    if array.level == "raid1":
        return Severity.LOW if array.raid_disks - missing > 1 else Severity.HIGH
    return Severity.MEDIUM if missing < SPARE_MEMBERS.get(array.level, 1) else Severity.HIGH


def _finding(device: BlockDevice, array: MdArray) -> Finding:
    missing = array.degraded or 0
    return Finding(
        message=_sentence(device, array, missing),
        severity=_severity(array, missing),
        confidence=Confidence.CONFIRMED,
        citations=_cite(device, array),
        remedies=_remedies(device, array, missing),
        summary="the array lacks a member" if missing else "the array is synchronizing",
    )


def _sentence(device: BlockDevice, array: MdArray, missing: int) -> str:
    name = f"{device.name} ({array.level})"
    runs = array.sync_action if array.sync_action not in {None, *IDLE} else ""
    if not missing:
        return f"{name} is running a {runs}: it is slower until that ends."
    action = f" and is running a {runs}" if runs else ""
    left = {
        Severity.HIGH: "one more failure can lose data",
        Severity.MEDIUM: "it survives one more failure, and reads are slower",
    }.get(_severity(array, missing), "the other members still mirror the data")
    return f"{name} lacks {missing} of {array.raid_disks} members{action}: {left}."


def _cite(device: BlockDevice, array: MdArray) -> tuple[Citation, ...]:
    place = f"/sys/block/{device.name}/md"
    values = {"degraded": array.degraded, "sync_action": array.sync_action}
    cited = (
        Citation(f"{name} of {device.name}", f"{value}", f"{place}/{name}")
        for name, value in values.items()
        if value is not None
    )
    return tuple(cited)


def _remedies(device: BlockDevice, array: MdArray, missing: int) -> tuple[Remedy, ...]:
    """Return advice: which disk failed, and which is to replace it, only a person knows."""
    if not missing or array.sync_action == "recover":
        return ()
    return (
        Remedy(
            f"Find the missing member (mdadm --detail /dev/{device.name}, the kernel log), replace "
            "the disk and add it with mdadm --add. Make a backup first if there is none.",
            Disruption.ONLINE,
        ),
    )

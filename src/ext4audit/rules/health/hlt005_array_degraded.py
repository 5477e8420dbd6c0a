"""HLT005: An md array below the filesystem lacks a member or is synchronizing."""

from __future__ import annotations

from ext4audit.evidence import Known, Undetermined, Unknown, Why, need
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
    references=(
        "https://docs.kernel.org/admin-guide/md.html",
        "https://man7.org/linux/man-pages/man8/mdadm.8.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    md arrays with redundancy below the filesystem: how many members are missing
    (`md/degraded`), and whether a resync, recovery, check or reshape runs (`md/sync_action`).
    It is high where one more loss takes the data, medium where redundancy is left, low for a
    mirror with two disks or more, info while an array is complete and synchronizes. The mirrors
    and RAIDs of LVM are not looked at.

    ## Why it matters

    It is no fault of ext4, but it answers two questions that are asked of it: why is it slow, and
    is the data safe? A RAID5 without a member reads all others to make up for each block, and
    the next failure ends it.

    ## Remedy

    Look at `mdadm --detail`, replace the disk, and add the new one with `mdadm --add`. A running
    synchronization ends by itself.

    ## When to ignore

    Arrays that were made with fewer members than slots on purpose, as the system mirrors of some
    storage appliances are.
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
        raise NotApplicable("no md array with redundancy lies below it")


def _unread(device: BlockDevice) -> Unknown:
    what = f"state of {device.name}"
    return Unknown(what, Why.NOT_CAPTURED, "md/degraded or md/sync_action", "scan the host")


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
    )


def _sentence(device: BlockDevice, array: MdArray, missing: int) -> str:
    name = f"{device.name} ({array.level})"
    runs = array.sync_action if array.sync_action not in {None, *IDLE} else ""
    if not missing:
        return f"{name} is complete, and a {runs} runs: it is slower until that ends."
    action = f", while a {runs} runs" if runs else ""
    left = {
        Severity.HIGH: "one more loss may take the data",
        Severity.MEDIUM: "one more loss can be borne, and reads are slower",
    }.get(_severity(array, missing), "the others still mirror each other")
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
            f"Find the missing member (mdadm --detail of {device.name}, the kernel's log), replace "
            "the disk and add it with mdadm --add. Save the data first where it is not saved.",
            Disruption.ONLINE,
        ),
    )

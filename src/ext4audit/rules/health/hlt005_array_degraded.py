"""HLT005: An md array below the filesystem lacks a member or is synchronizing."""

from __future__ import annotations

from ext4audit.evidence import Known, Unknown, for_wording, need, raise_for
from ext4audit.facts.devices import BlockDevice, MdState
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.layout import PARITY_MEMBERS, REDUNDANT_LEVELS
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule

SLOTS_FOR_BAYS = 24
"""A mirror with this many slots is the system array of an appliance, with a slot for each bay of
the vendor's largest model: QNAP's md9 and md13 are [24/4] or [32/4] with four disks."""
IDLE = frozenset({"idle", "frozen"})
DOING = {
    "recover": "is rebuilding",
    "resync": "is resynchronizing",
    "check": "is being checked",
    "repair": "is being repaired",
    "reshape": "is being reshaped",
}
"""What an array is doing, by the value of sync_action (Documentation/admin-guide/md.rst)."""

REASSEMBLE = Remedy(
    "Do not use mdadm --add or --create. Find out why the members were lost (mdadm --examine, the "
    "kernel log), make images of them, stop the array, and assemble it with mdadm --assemble "
    "--force from the members with the latest events. Then run e2fsck -n before anything else.",
    Disruption.UNMOUNT,
    trade_off="Writes since the first member was lost can be missing: restore from a backup if in "
    "doubt.",
)


@rule(
    "HLT005",
    "array-degraded",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://docs.kernel.org/admin-guide/md.html",
        "https://man7.org/linux/man-pages/man8/mdadm.8.html",
        "https://raid.wiki.kernel.org/index.php/RAID_Recovery",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    md arrays with redundancy below the filesystem: how many members are missing (`md/degraded`),
    and whether a resync, recovery, check or reshape is running (`md/sync_action`). Severity is
    critical if a RAID4, 5 or 6 lacks more members than it can lose, high if one more failure can
    lose data, medium if redundancy is left, low for a mirror that still has
    two disks or more, and info while a complete array synchronizes. A mirror of 24 slots or more
    passes with two disks: storage appliances create such mirrors with a slot for each bay. Mirrors
    and RAIDs of LVM are not checked.

    ## Why it matters

    The array decides whether the data is safe and how fast the filesystem is. A RAID5 with a
    missing member reads all other members to reconstruct a block, and loses its data with the
    next failure.

    ## Remedy

    Check `mdadm --detail`, replace the disk, and add the new one with `mdadm --add`. A running
    synchronization ends without any action. Do not add members to an array that has failed:
    `mdadm --add` makes a spare of a member that holds data. Assemble it again with `--force` from
    the members with the latest events, and check the filesystem.

    ## When to ignore

    Ignore it for arrays that were created with fewer members than slots on purpose, such as the
    system mirrors of storage appliances with fewer than 24 slots.
    """
    devices = tuple(need(fs.stack).walk())
    below = [(d, d.md_state) for d in devices if d.md_state is not None]
    unknowns = [d.below for d in devices if isinstance(d.below, Unknown)]
    unknowns += [state for _, state in below if isinstance(state, Unknown)]
    known = [(device, state.value) for device, state in below if isinstance(state, Known)]
    redundant = [(device, state) for device, state in known if state.level in REDUNDANT_LEVELS]
    for device, state in redundant:
        unknowns += [u for u in (state.degraded, state.sync_action) if isinstance(u, Unknown)]
        if _missing(state) or _running(state):
            yield _finding(device, state)
        else:
            yield from _cite(device, state)
    raise_for(unknowns)
    if not redundant:
        raise NotApplicable("it is not on an md array with redundancy")


def _missing(state: MdState) -> int:
    """Return how many members are known to be missing; `check` reports unknown values."""
    missing, slots = for_wording(state.degraded, 0), for_wording(state.raid_disks, 0)
    for_bays = state.level == "raid1" and slots >= SLOTS_FOR_BAYS and slots - missing > 1
    return 0 if for_bays else missing


def _running(state: MdState) -> str:
    """Return the action that is known to run, "" for none; `check` reports unknown values."""
    action = for_wording(state.sync_action, "")
    return "" if action in IDLE else action


def _severity(device: BlockDevice, state: MdState, missing: int) -> Severity:
    """Grade by the redundancy that is left."""
    if not missing:
        return Severity.INFO
    if state.level == "raid1":
        return Severity.LOW if for_wording(state.raid_disks, 0) - missing > 1 else Severity.HIGH
    spare = _spare_members(device, state)
    if missing > spare and state.level in PARITY_MEMBERS:
        return Severity.CRITICAL
    return Severity.MEDIUM if missing < spare else Severity.HIGH


def _spare_members(device: BlockDevice, state: MdState) -> int:
    """Return how many members an array that is no mirror can lose, whichever they are.

    The layout number of a RAID10 has the near copies in the lowest byte and the far copies in the
    next; two copies are assumed if it is not known.
    """
    array = for_wording(device.md, None) if device.md else None
    if state.level == "raid10" and array and array.layout and array.layout > 0:
        return (array.layout & 0xFF) * (array.layout >> 8 & 0xFF) - 1
    return PARITY_MEMBERS.get(state.level, 1)


def _finding(device: BlockDevice, state: MdState) -> Finding:
    missing = _missing(state)
    return Finding(
        message=_sentence(device, state, missing),
        severity=_severity(device, state, missing),
        confidence=Confidence.CONFIRMED,
        citations=_cite(device, state),
        remedies=_remedies(device, state, missing),
        summary=_summary(state, missing),
    )


def _activity(action: str) -> str:
    """Return the clause on what an array is doing, "" if it is idle."""
    return DOING.get(action, f"is running {action}") if action else ""


def _summary(state: MdState, missing: int) -> str:
    """Return the summary, which is the same for all filesystems on the array."""
    lacks = f"lacks {missing} member{'' if missing == 1 else 's'}" if missing else ""
    return f"the array {' and '.join(filter(None, (lacks, _activity(_running(state)))))}"


def _sentence(device: BlockDevice, state: MdState, missing: int) -> str:
    name, runs = f"{device.name} ({state.level})", _activity(_running(state))
    disks = for_wording(state.raid_disks, 0)
    if not missing:
        return f"{name} {runs}: it is slower until that ends."
    members = f"{missing} of {disks} members" if disks else f"{missing} of its members"
    action = f" and {runs}" if runs else ""
    left = {
        Severity.CRITICAL: "it has failed, data on them cannot be read, and writes fail",
        Severity.HIGH: "one more failure can lose data",
        Severity.MEDIUM: "it survives one more failure, and reads are slower",
    }.get(_severity(device, state, missing), "the other members still mirror the data")
    return f"{name} lacks {members}{action}: {left}."


def _cite(device: BlockDevice, state: MdState) -> tuple[Citation, ...]:
    """Cite the state, with its path in /sys/block, which is easier to type."""
    values = {"degraded": state.degraded, "sync_action": state.sync_action}
    number, name = f"/sys/dev/block/{device.device_number}/", f"/sys/block/{device.name}/"
    return tuple(
        Citation(f"{label} of {device.name}", f"{it.value}", it.origin.replace(number, name))
        for label, it in values.items()
        if isinstance(it, Known)
    )


def _remedies(device: BlockDevice, state: MdState, missing: int) -> tuple[Remedy, ...]:
    """Return advice instead of steps: only a person knows which disk to replace, and with what."""
    if _severity(device, state, missing) is Severity.CRITICAL:
        return (REASSEMBLE,)
    if not missing or _running(state) == "recover":
        return ()
    return (
        Remedy(
            f"Find the missing member (mdadm --detail /dev/{device.name}, the kernel log), replace "
            "the disk and add it with mdadm --add. Make a backup first if there is none.",
            Disruption.ONLINE,
        ),
    )

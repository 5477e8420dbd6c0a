"""LAY008: The journal is on another device, which is required to mount the filesystem."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import for_wording, need, origin_of, raise_for
from ext4audit.facts.devices import BlockDevice, LsblkDevice, listed_device
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.layout import REDUNDANT_LEVELS
from ext4audit.facts.mount import DeviceNumber
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import hidden_levels
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import place_of_journal, superblock_field

PLAIN_DISKS = ("sd", "vd", "xvd", "hd", "nvme", "mmcblk")


@rule(
    "LAY008",
    "external-journal",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://docs.kernel.org/filesystems/ext4/journal.html#external-journal",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the journal is on a separate device (`mke2fs -J device=`). Severity is info, and medium
    if the filesystem is on an array with redundancy, of md or LVM, but its journal is on a single
    disk.

    ## Why it matters

    The kernel refuses to mount the filesystem while the journal device is missing, and changes
    that are only in the journal are lost with it: the filesystem is no more reliable than the
    disk that holds its journal. The superblock identifies the device by number, which can change
    between boots; e2fsck corrects it by the journal's UUID, the kernel does not.

    ## Remedy

    Move the journal into the filesystem, or make its device redundant as well.

    ## When to ignore

    Ignore it if the journal device is as reliable as the filesystem's device, and faster.
    """
    superblock = need(fs.superblock)
    if not superblock.has_journal:
        raise NotApplicable("it has no journal")
    where = need(superblock_field(fs, "place of the journal", place_of_journal))
    encoded = superblock.external_journal
    if not encoded:
        yield Citation("journal", where, origin_of(fs.superblock))
        return
    number = DeviceNumber.decoded(encoded)
    device = _device(fs, host, superblock.journal_uuid, number)
    unnamed = str(number) if fs.alive else f"{number} at its last mount"
    name = device.name if device else unnamed
    is_plain = device is not None and device.kernel_name.startswith(PLAIN_DISKS)
    exposed = is_plain and _is_redundant(fs)
    yield Finding(
        message=f"The journal is on another device ({name}): without it, the filesystem cannot "
        f"be mounted{', although its array has redundancy' if exposed else ''}.",
        severity=Severity.MEDIUM if exposed else Severity.INFO,
        confidence=Confidence.LIKELY if exposed else Confidence.CONFIRMED,
        citations=(
            Citation("journal device", f"{number} ({name})", origin_of(fs.superblock)),
            Citation("journal UUID", superblock.journal_uuid or "none", origin_of(fs.superblock)),
        ),
        remedies=(_remedy(fs, superblock),),
        summary="the journal is on a single disk, the filesystem on a redundant array"
        if exposed
        else "the journal is on another device",
    )
    if not exposed:
        stack, _ = need(fs.stack, host.devices)
        raise_for(hidden_levels(stack) if is_plain else ())


def _device(
    fs: Filesystem, host: Host, uuid: str | None, number: DeviceNumber
) -> LsblkDevice | None:
    """Return the journal device, by number if the kernel has it open, else by UUID."""
    rows = for_wording(host.devices, ())
    if fs.alive:
        return listed_device(rows, number)
    return next((row for row in rows if row.uuid is not None and row.uuid == uuid), None)


def _is_redundant(fs: Filesystem) -> bool:
    """Return whether an array of md or LVM below a filesystem survives the loss of a disk."""
    stack = for_wording(fs.stack, None)
    return stack is not None and any(map(_has_redundancy, stack.walk()))


def _has_redundancy(device: BlockDevice) -> bool:
    state = for_wording(device.md_state, None) if device.md_state else None
    segments = for_wording(device.dm.table, ()) if device.dm else ()
    levels = [device.kind, state.level if state else ""]
    kinds = (kind for each in segments if each.target == "raid" for kind in each.arguments[:1])
    levels += [kind.partition("_")[0] for kind in kinds]
    is_mirror = any(segment.target == "mirror" for segment in segments)
    return is_mirror or not REDUNDANT_LEVELS.isdisjoint(levels)


def _remedy(fs: Filesystem, superblock: Superblock) -> Remedy:
    steps = remedies.features.move_journal_inside(fs, superblock)
    return Remedy(
        f"Move the journal into the filesystem{remedies.remount.by_hand(fs, steps)}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="Commits then share the disks with all other writes, and the journal takes space "
        "of the filesystem: twice its size must be free.",
    )

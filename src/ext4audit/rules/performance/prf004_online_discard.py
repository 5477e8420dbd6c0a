"""PRF004: Each deletion sends a discard to a device that handles discards slowly."""

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Known, Unknown, for_wording, is_surely, need, raise_for
from ext4audit.facts.devices import BlockDevice, devices_by_number
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.performance import is_virtual
from ext4audit.rules.shared import (
    NO_DISCARD,
    POOL_OF_LVM,
    TIMER,
    cite_discard,
    cite_fstrim,
    cite_option,
    gaps_below,
    is_in_memory,
    trimmed,
    what_else_sets_it,
)

ONLINE = "online discard"
AMAZON_STORE = "Amazon EC2 NVMe Instance Storage"
"""The model of EC2's local instance disks; Google recommends discards for its instance disks."""
THIN = frozenset({"dm-thin", "dm-vdo"})
VDO_POOL_OF_LVM = "-vpool"
"""The end of the UUID of the VDO device below the volumes of LVM on it (lvmvdo(7))."""
LATER = (
    "Freed blocks are returned to the device by the next fstrim only, which then discards those of "
    "a week at once."
)
LEAKS = (
    " fstrim through dm-crypt reveals free blocks as online discard does. If they must stay "
    "secret, do not run fstrim, and remove allow-discards from the mapping (cryptsetup(8), "
    "crypttab(5)). Blocks that are already discarded stay visible until they are overwritten."
)


class Grade(NamedTuple):
    """The harm of online discard on a device stack; `severity` is None if discards are useful."""

    severity: Severity | None
    confidence: Confidence
    sentence: str
    summary: str


@rule(
    "PRF004",
    "online-discard",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://man7.org/linux/man-pages/man8/fstrim.8.html",
        "https://github.com/cockroachdb/cockroach/issues/55626",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `discard` is in force on a writable filesystem whose device supports discards. Severity
    is medium on SATA disks, on the instance storage of Amazon EC2, through dm-crypt, and if fstrim
    also runs regularly and trims this filesystem; it is low on other disks of a physical machine.
    Virtual disks, Ceph RBD, thin volumes, VDO, loop devices and disks in memory (zram) pass,
    because discards return space to the layer below: Debian's and Ubuntu's cloud images and
    zram-generator set the option for that reason.

    ## Why it matters

    Each deletion becomes a discard soon after the journal commit. Many disks process discards
    slowly, and reads and fsync() wait behind them: a service that deletes many files sees delays
    that its own log does not explain. A weekly fstrim discards the same blocks again.

    ## Remedy

    Mount with `nodiscard`; a remount suffices. Let fstrim.timer trim once a week, at a time of low
    load. fstrim through dm-crypt reveals free blocks as online discard does: if they must stay
    secret, remove allow-discards from the mapping and do not enable the timer.

    ## When to ignore

    Ignore it if freed space must be returned at once, for example to storage that charges for used
    blocks.
    """
    refuse_unmounted(fs)
    if need(need(fs.options).token("discard")) == "nodiscard":
        yield from cite_option(fs, "discard")
        return
    if need(fs.read_only):
        raise NotApplicable("it is read-only, so no blocks are freed")
    device = need(fs.stack)
    if need(device.queue.discard_max_bytes) == 0:
        raise NotApplicable(f"{NO_DISCARD}, so the option has no effect")
    grade = next(_grades(device, host, fs))
    cited = (*cite_option(fs, "discard"), *cite_discard(device), cite_fstrim(host))
    if grade.severity is None:
        yield from cited
        return
    yield Finding(
        message=f"Each deletion sends a discard to {device.name}: {grade.sentence}.",
        severity=grade.severity,
        confidence=grade.confidence,
        citations=cited,
        remedies=(_remedy(fs, host, device),),
        summary=grade.summary,
    )
    if not _is_virtual_by_name(device):
        need(host.virtualization)
    if grade.severity is Severity.LOW:
        need(host.fstrim)
        raise_for((*gaps_below(device), *_unseen_buses(device, host)))


def _unseen_buses(device: BlockDevice, host: Host) -> Iterator[Unknown]:
    """Yield the unknowns that leave open whether a disk below is a SATA disk."""
    for leaf in device.leaves():
        if not leaf.name.startswith("nvme"):
            gaps = (leaf.udev_gap, host.devices)
            yield from (gap for gap in gaps if isinstance(gap, Unknown))


def _grades(device: BlockDevice, host: Host, fs: Filesystem) -> Iterator[Grade]:
    """Yield the grades that apply to this stack, the decisive one first."""
    nodes = tuple(device.walk())
    leaves = device.leaves()
    if any(AMAZON_STORE in (leaf.model or "") for leaf in leaves):
        words = "their latency varies widely on instance storage"
        yield Grade(Severity.MEDIUM, Confidence.LIKELY, words, f"{ONLINE} on EC2 instance storage")
    virtual = for_wording(host.virtualization, None) is not None
    thin = any(map(_is_thin, nodes)) or any(map(is_in_memory, leaves))
    if thin or virtual or _is_virtual_by_name(device):
        yield Grade(None, Confidence.CONFIRMED, "they return space to the layer below", "")
    yield from _physical_grades(nodes, leaves, host, is_trimmed=_is_trimmed(fs, host))


def _is_thin(node: BlockDevice) -> bool:
    """Return whether it is a loop device, a thin volume, VDO, or an LVM thin pool below one.

    Only root can read the table that names the target, but anyone the UUID.
    """
    is_pool = node.dm is not None and node.dm.uuid.endswith((POOL_OF_LVM, VDO_POOL_OF_LVM))
    return node.loop is not None or node.kind in THIN or is_pool


def _is_trimmed(fs: Filesystem, host: Host) -> bool:
    """Return whether fstrim runs regularly and is not known to skip this filesystem."""
    return is_surely(host.fstrim) and for_wording(trimmed(fs, host), True)


def _is_virtual_by_name(device: BlockDevice) -> bool:
    return any(map(is_virtual, device.leaves()))


def _physical_grades(
    nodes: tuple[BlockDevice, ...], leaves: tuple[BlockDevice, ...], host: Host, *, is_trimmed: bool
) -> Iterator[Grade]:
    """Yield the grades for disks of a physical machine."""
    if any(_is_sata(leaf, host) for leaf in leaves):
        words = "a SATA disk without queued TRIM completes all other commands first"
        yield Grade(Severity.MEDIUM, Confidence.LIKELY, words, f"{ONLINE} on a SATA disk")
    if any(_is_crypt(node) for node in nodes):
        words = "dm-crypt passes it on, so the disk reveals which blocks are free"
        summary = f"{ONLINE} through dm-crypt reveals free blocks"
        yield Grade(Severity.MEDIUM, Confidence.CONFIRMED, words, summary)
    if is_trimmed:
        words = "fstrim also runs regularly and discards the same blocks again"
        summary = f"{ONLINE} in addition to a regular fstrim"
        yield Grade(Severity.MEDIUM, Confidence.CONFIRMED, words, summary)
    words = "if the disk is slow at discards, other requests wait"
    yield Grade(Severity.LOW, Confidence.LIKELY, words, f"{ONLINE} can delay other requests")


def _is_sata(leaf: BlockDevice, host: Host) -> bool:
    """Return whether lsblk or udev shows a SATA disk."""
    listed = devices_by_number(for_wording(host.devices, ())).get(leaf.device_number, ())
    transports = {device.transport for device in listed}
    return "sata" in transports or ("ID_BUS", "ata") in leaf.udev


def _is_crypt(node: BlockDevice) -> bool:
    return node.kind == "dm-crypt" or (node.dm is not None and node.dm.uuid.startswith("CRYPT-"))


def _remedy(fs: Filesystem, host: Host, device: BlockDevice) -> Remedy:
    steps = remedies.options.change_option(fs, "discard", "nodiscard")
    encrypted = any(_is_crypt(node) for node in device.walk())
    instead = "" if encrypted else _trim_instead(fs, host)
    return Remedy(
        f"Disable online discard{remedies.remount.elsewhere(fs)}.{instead}"
        f"{what_else_sets_it(fs, host, 'discard')}",
        remedies.options.disruption(steps),
        steps,
        trade_off=f"{LATER}{LEAKS if encrypted else ''}",
    )


def _trim_instead(fs: Filesystem, host: Host) -> str:
    """Return the sentence on what trims the filesystem instead."""
    enable = f"`systemctl enable --now {TIMER}`"
    if not isinstance(host.fstrim, Known):
        return f" First make sure that it is trimmed regularly: {enable}, or a cron job."
    if not host.fstrim.value:
        return f" Nothing else trims it: first {enable}, or a cron job."
    if not _is_trimmed(fs, host):
        return " The regular fstrim covers only fstab entries: first create a job for it."
    return ""

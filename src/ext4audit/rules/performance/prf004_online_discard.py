"""PRF004: Each deletion is passed on to a device that discards slowly, or twice."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, is_surely, need
from ext4audit.facts.devices import BlockDevice, devices_by_number
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.performance import VIRTUAL_NAMES
from ext4audit.rules.shared import (
    NO_DISCARD,
    TIMER,
    cite_discard,
    cite_fstrim,
    cite_option,
    what_else_sets_it,
)

AMAZON_STORE = "Amazon EC2 NVMe Instance Storage"
"""The model of the disks that belong to an instance; discards of Google's are recommended."""
LATER = (
    "What is deleted is given back to the device by the next fstrim only, which then has a week's "
    "work to do at once."
)
LEAKS = (
    " Through dm-crypt fstrim shows the same free blocks as online discard. Where nobody may see "
    "them, run no fstrim and take allow-discards from the mapping (cryptsetup(8), crypttab(5)); "
    "what is shown already stays so until it is overwritten."
)
Grade = tuple[Severity, Confidence, str]


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

    Whether `discard` is in force on a writable filesystem whose device takes discards, whoever
    set it. It is medium on SATA disks, on the instance storage of Amazon EC2, through dm-crypt,
    and where fstrim also runs regularly; low on other disks of a physical machine; a note (info)
    on virtual disks, thin volumes and loop devices, which may want it.

    ## Why it matters

    Each deletion becomes a discard soon after the journal's commit. Many disks carry out discards
    slowly, and reads and fsync() wait behind them: a service that deletes much sees delays
    that nothing in its own log explains. With a weekly fstrim beside it the same is done twice.

    ## Remedy

    Mount with nodiscard; it works by remount. Let fstrim.timer trim once a week, at an hour
    without load. Through dm-crypt fstrim shows the same free blocks as online discard: where
    nobody may see them, dm-crypt has to refuse discards, and the timer is not enabled.

    ## When to ignore

    Where space should return at once: thin pools, images of virtual machines, disks of clouds
    that charge or copy by what is in use. Debian's and Ubuntu's cloud images set it for that
    reason; on virtual disks it is a note only.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    if need(need(fs.options).token("discard")) == "nodiscard":
        yield from cite_option(fs, "discard")
        return
    if need(fs.read_only):
        raise NotApplicable("it is read-only: nothing is freed")
    device = need(fs.stack)
    if need(device.queue.discard_max_bytes) == 0:
        raise NotApplicable(f"{NO_DISCARD}: the option does nothing")
    yield _finding(fs, host, device)
    if not _is_virtual_by_name(device):
        need(host.virtualization)


def _finding(fs: Filesystem, host: Host, device: BlockDevice) -> Finding:
    severity, confidence, sentence = next(_grades(device, host))
    return Finding(
        message=f"Each deletion is discarded on {device.name} while the filesystem is in use: "
        f"{sentence}.",
        severity=severity,
        confidence=confidence,
        citations=(*cite_option(fs, "discard"), *cite_discard(device), cite_fstrim(host)),
        remedies=(_remedy(fs, host, device),),
    )


def _grades(device: BlockDevice, host: Host) -> Iterator[Grade]:
    """Yield what is known of discards on this stack, what decides first."""
    nodes = tuple(device.walk())
    leaves = device.leaves()
    if any(AMAZON_STORE in (leaf.model or "") for leaf in leaves):
        words = "on instance storage the time that it takes varies widely"
        yield Severity.MEDIUM, Confidence.LIKELY, words
    if any(node.loop is not None for node in nodes):
        words = "the loop device punches holes into its file, which keeps the file small"
        yield Severity.INFO, Confidence.CONFIRMED, words
    if any(node.kind == "dm-thin" for node in nodes):
        yield Severity.INFO, Confidence.CONFIRMED, "the thin pool gets the space back"
    virtual = for_wording(host.virtualization, None) is not None
    if virtual or _is_virtual_by_name(device):
        words = "what lies below the virtual disk decides how long that takes, and may want it"
        yield Severity.INFO, Confidence.POSSIBLE, words
    yield from _physical_grades(nodes, leaves, host)


def _is_virtual_by_name(device: BlockDevice) -> bool:
    return any(leaf.name.startswith(VIRTUAL_NAMES) for leaf in device.leaves())


def _physical_grades(
    nodes: tuple[BlockDevice, ...], leaves: tuple[BlockDevice, ...], host: Host
) -> Iterator[Grade]:
    """Yield the same for the disks of a physical machine."""
    if any(_is_sata(leaf, host) for leaf in leaves):
        words = "a SATA disk without queued TRIM finishes all other commands first"
        yield Severity.MEDIUM, Confidence.LIKELY, words
    if any(_is_crypt(node) for node in nodes):
        words = "dm-crypt passes the discards on, so that the disk shows which blocks are free"
        yield Severity.MEDIUM, Confidence.CONFIRMED, words
    if is_surely(host.fstrim):
        words = "fstrim runs regularly as well, and does the same work again"
        yield Severity.MEDIUM, Confidence.CONFIRMED, words
    yield Severity.LOW, Confidence.LIKELY, "other requests wait where the disk is slow at it"


def _is_sata(leaf: BlockDevice, host: Host) -> bool:
    """Whether a disk is on SATA, as lsblk or udev knows it."""
    listed = devices_by_number(for_wording(host.devices, ())).get(leaf.device_number, ())
    transports = {device.transport for device in listed}
    return "sata" in transports or ("ID_BUS", "ata") in leaf.udev


def _is_crypt(node: BlockDevice) -> bool:
    return node.kind == "dm-crypt" or (node.dm is not None and node.dm.uuid.startswith("CRYPT-"))


def _remedy(fs: Filesystem, host: Host, device: BlockDevice) -> Remedy:
    steps = remedies.options.change_option(fs, "discard", "nodiscard")
    encrypted = any(_is_crypt(node) for node in device.walk())
    instead = "" if encrypted else _instead(host)
    return Remedy(
        f"Turn online discard off.{instead}{what_else_sets_it(fs, host, 'discard')}",
        remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
        steps,
        trade_off=f"{LATER}{LEAKS if encrypted else ''}",
    )


def _instead(host: Host) -> str:
    """Return the sentence on what trims instead."""
    enable = f"`systemctl enable --now {TIMER}`"
    if not isinstance(host.fstrim, Known):
        return f" See first that something trims it regularly: {enable}, or a cron job."
    return "" if host.fstrim.value else f" Nothing else trims it: first {enable}, or a cron job."

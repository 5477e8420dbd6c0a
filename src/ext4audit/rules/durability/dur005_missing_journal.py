"""DUR005: Without a journal a crash can lose files, and only a full check repairs the rest."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.durability import INSTANCE_STORES
from ext4audit.rules.shared import cite_features, is_in_force
from ext4audit.rules.shared.demands import below
from ext4audit.rules.shared.quantities import GIB, device_bytes, size, usual_blocks

PRECIOUS = ("/", "/etc", "/home", "/srv", "/usr", "/var")
FLEETING = tuple(f"/{name}" for name in ("tmp", "var/tmp", "var/cache"))
UNUSED = "Mounted with norecovery, it leaves its journal out"
NOT_YET = "Its journal is not in use before the next mount"
MADE_WHILE_MOUNTED = (
    " Until then it goes on without a journal, and has a file .journal, which e2fsck hides at the "
    "next start. Only an unmounted filesystem can lose it again. Where the kernel forbids writing "
    "to mounted devices (CONFIG_BLK_DEV_WRITE_MOUNTED=n, since 6.8), tune2fs fails: then make it "
    "from a rescue system."
)


@rule(
    "DUR005",
    "missing-journal",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://docs.kernel.org/filesystems/ext4/journal.html",
        "https://kafka.apache.org/documentation/#ext4",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Whether an ext4 filesystem of at least 1 GiB that is mounted writable has a journal: with
    one, the kernel's options file has a line `data=`. Of what is not mounted, the feature
    has_journal is judged. High for the root, /etc, /home, /srv, /usr, /var and what lies below
    them; medium elsewhere; low for caches, for /tmp and for instance stores, which are lost with
    their machine, and for what is not mounted.

    ## Why it matters

    A journal makes a change of several blocks happen as a whole or not at all. Without it, a
    crash leaves directories, bitmaps and inodes that contradict each other. Nobody
    should mount the filesystem until e2fsck has read all of it, which can take hours on large
    disks, and what it cannot join ends in lost+found or is gone.

    ## Remedy

    Unmount it, check it, let tune2fs make a journal. Its size is chosen by that of the
    filesystem; it can lie on another device. What cannot be unmounted, the root above all, gets
    its journal while it is mounted, and uses it from the next mount on: restart. Until then it
    goes on without one. Since Linux 6.8 a kernel can forbid writing to mounted devices
    (CONFIG_BLK_DEV_WRITE_MOUNTED=n, or bdev_allow_write_mounted=0 on its command line): tune2fs
    then fails, and a rescue system remains.

    ## When to ignore

    Where the content may be lost with the machine, or is held by other machines as well: Kafka's
    documentation and large storage fleets do without on purpose. On flash memory that is
    hardly ever written.
    """
    journaled = _journaled(fs)
    if isinstance(journaled, Known) and journaled.value:
        yield Citation("journal", "in use" if fs.alive else "has_journal", journaled.origin)
        return
    _refuse(fs)
    need(journaled)
    yield _finding(fs)


def _journaled(fs: Filesystem) -> Evidence[bool]:
    """Return whether a journal is in use: only then the options file has a line `data=`."""
    options = fs.options
    if fs.alive and isinstance(options, Known):
        data, source = options.value.token("data"), options.value.source
        if is_in_force(options.value, "norecovery"):
            return Known(value=False, origin=source)
        if options.value.complete and isinstance(data, Known):
            return Known(value=True, origin=data.origin)
        if options.value.complete and isinstance(data, Unknown) and data.why is Why.ABSENT:
            return Known(value=False, origin=source)
    feature = derive("feature has_journal", lambda each: each.has_journal, fs.superblock)
    if fs.alive and isinstance(options, Unknown) and isinstance(feature, Known) and feature.value:
        return options  # norecovery may leave it out
    return feature


def _refuse(fs: Filesystem) -> None:
    """Refuse what needs no journal: ext2, what nobody writes to, and what is soon checked."""
    device = device_bytes(fs)
    if isinstance(device, Known) and device.value < GIB:
        raise NotApplicable(f"a check of {size(device.value)} takes seconds")
    if not fs.alive:
        if "extent" not in need(fs.superblock).features:
            raise NotApplicable("it is made as ext2, which has no journal")
        return
    if need(fs.fstype) == "ext2":
        raise NotApplicable("ext2 has no journal")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")


def _finding(fs: Filesystem) -> Finding:
    severity, confidence = _grade(fs)
    state = UNUSED if _is_left_out(fs) else NOT_YET if _waits(fs) else "It has no journal"
    return Finding(
        message=f"{state}: a crash can lose files that were not being written, and only a "
        "full e2fsck repairs the rest.",
        severity=severity,
        confidence=confidence,
        citations=tuple(_citations(fs)),
        remedies=(_remedy(fs),),
    )


def _citations(fs: Filesystem) -> Iterator[Citation]:
    if isinstance(fs.options, Known) and fs.alive and fs.options.value.complete:
        yield Citation("option data", "not listed: no journal is in use", fs.options.value.source)
    yield from cite_features(fs)
    if fs.mount_points:
        yield Citation("mount points", ", ".join(fs.mount_points), "/proc/self/mountinfo")


def _grade(fs: Filesystem) -> tuple[Severity, Confidence]:
    if not fs.alive:
        return Severity.LOW, Confidence.POSSIBLE
    points = fs.mount_points
    if _is_instance_store(fs) or (points and all(below(point, FLEETING) for point in points)):
        return Severity.LOW, Confidence.CONFIRMED
    if any(below(point, PRECIOUS) for point in points):
        return Severity.HIGH, Confidence.CONFIRMED
    return Severity.MEDIUM, Confidence.CONFIRMED


def _is_instance_store(fs: Filesystem) -> bool:
    """Whether all disks below are lost with their virtual machine."""
    stack = for_wording(fs.stack, None)
    leaves = stack.leaves() if stack else ()
    texts = [(leaf.model or "", *(value for _, value in leaf.udev)) for leaf in leaves]
    return bool(texts) and all(
        any(name in text for name in INSTANCE_STORES for text in each) for each in texts
    )


def _is_left_out(fs: Filesystem) -> bool:
    """Whether the mount leaves an existing journal out."""
    options = for_wording(fs.options, None)
    return options is not None and fs.alive and is_in_force(options, "norecovery")


def _waits(fs: Filesystem) -> bool:
    """Whether a journal was made while it is mounted: the superblock has it, the mount has not."""
    superblock = for_wording(fs.superblock, None)
    return fs.alive and superblock is not None and superblock.has_journal


def _remedy(fs: Filesystem) -> Remedy:
    if _is_left_out(fs):
        return Remedy("Unmount it, and mount it without norecovery (noload).", Disruption.UNMOUNT)
    if _waits(fs):
        return Remedy(f"{_new_mount(fs)}.", remedies.mounting.disruption_of_new_mount(fs))
    trade_off = f"{_cost(fs)}Changes of metadata are written twice."
    steps = remedies.features.add_journal(fs)
    if steps:
        return Remedy("Make a journal.", Disruption.UNMOUNT, steps, trade_off=trade_off)
    return _while_mounted(fs, trade_off)


def _while_mounted(fs: Filesystem, trade_off: str) -> Remedy:
    """Return the remedy for what no command can unmount."""
    steps = remedies.features.add_journal_while_mounted(fs) if fs.alive else ()
    if not steps:
        where = remedies.offline.why_by_hand(fs)
        return Remedy(f"Make a journal, {where}.", Disruption.UNMOUNT, trade_off=trade_off)
    return Remedy(
        f"Make a journal while it is mounted. {_new_mount(fs)}: it is used from then on.",
        Disruption.REBOOT,
        steps,
        trade_off=f"{trade_off}{MADE_WHILE_MOUNTED}",
    )


def _new_mount(fs: Filesystem) -> str:
    """Return how to mount it anew."""
    if "/" in fs.mount_points:
        return "Restart"
    return "Restart, or unmount it everywhere and mount it again"


def _cost(fs: Filesystem) -> str:
    """Return the sentence on what the journal takes, where the size is known."""
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.block_bytes is None:
        return ""
    return f"It takes {size(usual_blocks(superblock.size_blocks) * superblock.block_bytes)}. "

"""DUR005: Without a journal a crash can lose files, and only a full e2fsck repairs the rest."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why, derive, for_wording, need
from ext4audit.facts import GIB
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EffectiveOptions, below
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import journal_blocks_of
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.durability import INSTANCE_STORES
from ext4audit.rules.shared import (
    cite_features,
    cite_mount_points,
    is_in_force,
    is_in_memory,
    superblock_field,
)
from ext4audit.rules.shared.quantities import device_bytes, size

PRECIOUS = ("/", "/etc", "/home", "/srv", "/usr", "/var")
FLEETING = tuple(f"/{name}" for name in ("tmp", "var/tmp", "var/cache"))
UNUSED = "norecovery disables the journal"
NOT_YET = "The journal is not in use before the next mount"
MADE_WHILE_MOUNTED = (
    " Until then the filesystem runs without a journal and shows a file .journal, which e2fsck "
    "hides at the next start. Removing the journal again needs an unmount. If the kernel forbids "
    "writes to mounted devices (CONFIG_BLK_DEV_WRITE_MOUNTED=n, since 6.8), tune2fs fails: use a "
    "rescue system."
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

    Whether an ext4 filesystem of at least 1 GiB that is mounted writable has a journal: only then
    does the kernel's options file have a line `data=`. For an unmounted filesystem the rule checks
    the feature `has_journal`. Severity is high for the root, /etc, /home, /srv, /usr, /var and
    directories below them; it is low for caches, /tmp, instance stores, disks in memory (zram) and
    unmounted filesystems, and medium elsewhere.

    ## Why it matters

    A journal makes a change of several blocks atomic. Without it, a crash leaves directories,
    bitmaps and inodes that contradict each other. The filesystem should not be mounted until e2fsck
    has read all of it, which can take hours on large disks. Files without a directory entry end in
    lost+found, and others are lost.

    ## Remedy

    Unmount and check the filesystem, then create a journal with tune2fs. Its size follows from the
    size of the filesystem. On a filesystem that cannot be unmounted, such as the root, tune2fs
    creates the journal while it is mounted, and the journal is used from the next mount on. Since
    Linux 6.8 a kernel can forbid writes to mounted devices (CONFIG_BLK_DEV_WRITE_MOUNTED=n, or
    `bdev_allow_write_mounted=0` on its command line): tune2fs then fails, and a rescue system is
    needed.

    ## When to ignore

    Ignore it if the content may be lost with the machine or is replicated: the Kafka documentation
    and large storage fleets omit the journal on purpose. Ignore it also on flash memory that is
    rarely written.
    """
    journaled = _journaled(fs)
    if isinstance(journaled, Known) and journaled.value:
        yield Citation("journal", "in use" if fs.alive else "has_journal", journaled.origin)
        return
    _refuse(fs)
    need(journaled)
    yield _finding(fs)
    need(fs.mounted_here)


def _journaled(fs: Filesystem) -> Evidence[bool]:
    """Return whether a journal is in use: only then does the options file have a `data=` line."""
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
    gap = _hides_norecovery(options) if fs.alive else None
    return gap if gap is not None and isinstance(feature, Known) and feature.value else feature


def _hides_norecovery(options: Evidence[EffectiveOptions]) -> Unknown | None:
    """Return why norecovery may be in force unseen, None if a mount table would list it."""
    if isinstance(options, Unknown):
        return options
    return options.value.gap if options.value.mount_table is None else None


def _refuse(fs: Filesystem) -> None:
    """Raise NotApplicable for ext2, and for read-only and small filesystems."""
    # Some archives lack the size of the device.
    own = superblock_field(fs, "size", lambda superblock: superblock.size_bytes)
    known = [e.value for e in (device_bytes(fs), own) if isinstance(e, Known) and e.value]
    if known and min(known) < GIB:
        raise NotApplicable(f"a check of {size(min(known))} takes seconds")
    if not fs.alive:
        if "extent" not in need(fs.superblock).features:
            raise NotApplicable("it has the format of ext2, which has no journal")
        return
    if need(fs.fstype) == "ext2":
        raise NotApplicable("ext2 has no journal")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")


def _finding(fs: Filesystem) -> Finding:
    severity, confidence = _grade(fs)
    state = (
        "The filesystem has no journal"
        if not _may_have_journal(fs)
        else UNUSED
        if _has_norecovery(fs)
        else NOT_YET
    )
    return Finding(
        message=f"{state}: a crash can lose files, even those that were not being written, and "
        "only a full e2fsck repairs the filesystem.",
        severity=severity,
        confidence=confidence,
        citations=tuple(_citations(fs)),
        remedies=(_remedy(fs),),
        summary=f"{state[0].lower()}{state[1:]}: a crash can lose files and needs a full e2fsck",
    )


def _citations(fs: Filesystem) -> Iterator[Citation]:
    if isinstance(fs.options, Known) and fs.alive and fs.options.value.complete:
        yield Citation("option data", "not listed: no journal is in use", fs.options.value.source)
    yield from cite_features(fs)
    if fs.mount_points:
        yield cite_mount_points(fs, lambda point: below(point, PRECIOUS))


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
    """Return whether all disks below are RAM disks, or are lost with their virtual machine."""
    stack = for_wording(fs.stack, None)
    leaves = stack.leaves() if stack else ()
    if leaves and all(map(is_in_memory, leaves)):
        return True
    texts = [(leaf.model or "", *(value for _, value in leaf.udev)) for leaf in leaves]
    return bool(texts) and all(
        any(name in text for name in INSTANCE_STORES for text in each) for each in texts
    )


def _has_norecovery(fs: Filesystem) -> bool:
    """Return whether norecovery is in force, so that the mount uses no journal."""
    options = for_wording(fs.options, None)
    return options is not None and fs.alive and is_in_force(options, "norecovery")


def _may_have_journal(fs: Filesystem) -> bool:
    """Return whether there may be a journal that is not in use.

    A journal that was created on the mounted filesystem is visible only in the superblock.
    """
    superblock = for_wording(fs.superblock, None)
    return _has_norecovery(fs) if superblock is None else fs.alive and superblock.has_journal


def _remedy(fs: Filesystem) -> Remedy:
    if _has_norecovery(fs):
        make = "" if _may_have_journal(fs) else " create a journal (tune2fs -O has_journal),"
        text = f"Unmount it,{make} and mount it without norecovery (noload)."
        return Remedy(text, Disruption.UNMOUNT)
    if _may_have_journal(fs):
        return Remedy(f"{_new_mount(fs)}.", remedies.mounting.disruption_of_new_mount(fs))
    trade_off = f"{_cost(fs)}Metadata changes are written twice."
    steps = remedies.features.add_journal(fs)
    if steps:
        return Remedy("Create a journal.", Disruption.UNMOUNT, steps, trade_off=trade_off)
    return _while_mounted(fs, trade_off)


def _while_mounted(fs: Filesystem, trade_off: str) -> Remedy:
    """Return the remedy for a filesystem that no command can unmount."""
    steps = remedies.features.add_journal_while_mounted(fs) if fs.alive else ()
    if not steps:
        where = remedies.remount.why_by_hand(fs)
        return Remedy(f"Create a journal, {where}.", Disruption.UNMOUNT, trade_off=trade_off)
    return Remedy(
        "Create a journal on the mounted filesystem, which uses it from the next mount on. "
        f"{_new_mount(fs)}.",
        Disruption.REBOOT,
        steps,
        trade_off=f"{trade_off}{MADE_WHILE_MOUNTED}",
    )


def _new_mount(fs: Filesystem) -> str:
    """Return the sentence on how to mount the filesystem again."""
    if "/" in fs.mount_points:
        return "Restart"
    return "Restart, or unmount it everywhere and mount it again"


def _cost(fs: Filesystem) -> str:
    """Return the sentence on the size of the journal, if it is known."""
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.block_bytes is None:
        return ""
    return f"It takes {size(journal_blocks_of(superblock.size_blocks) * superblock.block_bytes)}. "

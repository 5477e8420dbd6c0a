"""Durability rules: data loss in a crash or power failure; helpers to grade write caches."""

from collections.abc import Iterator
from typing import NamedTuple

from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.devices import BlockDevice, DmDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Severity
from ext4audit.rules.shared import place_of_journal, superblock_field

INSTANCE_STORES = ("Amazon EC2 NVMe Instance Storage", "google-local-ssd")
"""Parts of models or udev links of disks that are lost with their virtual machine."""
DELAYING = frozenset("thin cache clone writecache integrity vdo zoned pcache".split())
"""Targets that keep completed writes, or their mappings or tags, in memory until a flush, or for a
second or longer, whatever the caches below are (Documentation/admin-guide/device-mapper)."""
WRITTEN_THROUGH = frozenset({"writethrough", "passthrough"})
"""Modes of the target cache in which the device below has every completed write."""
NOT_DELAYING = ("CRYPT-LUKS", "CRYPT-PLAIN", "mpath-", "part")
"""UUID prefixes of devices that have none of these targets: dm-crypt, multipath and partitions."""


class Part(NamedTuple):
    """The effect of missing cache flushes on one device of the stack: a leaf, or one that delays.

    `sentence` describes the effect; `severity` grades running without flushes on this device.
    `gap` is the unknown that the severity depends on.
    """

    device: str
    severity: Severity
    confidence: Confidence
    sentence: str
    citation: Citation
    gap: Unknown | None = None


def parts_below(fs: Filesystem, device: BlockDevice, host: Host) -> tuple[Part, ...]:
    """Grade the devices of a stack for running without flushes from the filesystem.

    They are its leaf devices and the targets that delay writes. The device of an external journal
    is included, because commits go there. The cache mode that a stacked device reports is not used
    if its members are visible: it is inherited at creation, and md reports "write back" for any
    members (md.c, 5.10 to 6.18).
    """
    return (*_parts(device, host, frozenset({fs.device_number})), *_of_journal(fs, host))


def _of_journal(fs: Filesystem, host: Host) -> Iterator[Part]:
    """Grade the leaf devices of an external journal; an internal journal yields nothing."""
    journal = fs.journal_stack
    place = superblock_field(fs, "place of the journal", place_of_journal)
    if journal is None and isinstance(place, Unknown):
        sentence = "it is unknown whether the journal is on another device"
        cite = Citation("device of the journal", f"unknown: {place.detail}", place.what)
        yield Part("the journal", Severity.INFO, Confidence.POSSIBLE, sentence, cite, place)
    elif isinstance(journal, Unknown):
        sentence = "whether its write cache is volatile is unknown"
        cite = Citation("device of the journal", f"unknown: {journal.detail}", journal.what)
        device = "the journal's device"
        yield Part(device, Severity.HIGH, Confidence.POSSIBLE, sentence, cite, journal)
    elif journal is not None:
        for part in _parts(journal.value, host, frozenset({fs.device_number})):
            yield part._replace(device=f"{part.device} (journal)")


def worst(parts: tuple[Part, ...]) -> Part:
    """Return the part with the highest severity, which decides the grade of the stack."""
    return min(parts, key=lambda part: part.severity.rank)


def gaps_of(parts: tuple[Part, ...]) -> tuple[Unknown, ...]:
    """Return the unknowns that could make the grade of the stack worse."""
    if worst(parts).severity is Severity.CRITICAL:
        return ()
    return tuple(part.gap for part in parts if part.gap is not None)


def still_claims_write_back(device: BlockDevice) -> Citation | None:
    """Cite that a stacked device reports write back; None if it does not."""
    cache = device.queue.write_cache
    if not device.known_below or not isinstance(cache, Known) or cache.value != "write back":
        return None
    shown = "write back"
    if device.md is not None or device.loop is not None:
        kind = "loop devices" if device.loop else "md arrays"
        shown = f"write back ({kind} always report this)"
    return Citation(f"write cache of {device.name}", shown, cache.origin)


def _parts(device: BlockDevice, host: Host, passed: frozenset[object]) -> Iterator[Part]:
    for each in device.descend(_is_loop):
        if _is_loop(each):
            yield from _loop(each, host, passed)
        elif not each.known_below:
            yield _leaf(each)
        if each.dm is not None:
            yield from _delay(each, each.dm)


def _delay(device: BlockDevice, dm: DmDevice) -> Iterator[Part]:
    """Grade a device-mapper device by its targets; nothing if none of them delays writes.

    A device with such a target reports "write back" when its table is loaded, except VDO in its
    synchronous mode. If it reports "write through", the kernel sends it no flush in any case.
    """
    label = f"targets of {device.name}"
    if for_wording(device.queue.write_cache, "") == "write through":
        return
    if isinstance(dm.table, Known):
        delaying = (each for each in dm.table.value if each.target in DELAYING)
        targets = sorted({t.target for t in delaying if WRITTEN_THROUGH.isdisjoint(t.arguments)})
        if targets:
            sentence = "its target can lose completed writes until it is flushed"
            cite = Citation(label, ", ".join(targets), dm.table.origin)
            yield Part(device.name, Severity.CRITICAL, Confidence.CONFIRMED, sentence, cite)
    elif not dm.uuid.startswith(NOT_DELAYING):
        sentence = "it is unknown whether its target keeps writes in memory"
        cite = Citation(label, f"unknown: {dm.table.detail}", dm.table.what)
        yield Part(device.name, Severity.HIGH, Confidence.POSSIBLE, sentence, cite, dm.table)


def _is_loop(device: BlockDevice) -> bool:
    return device.loop is not None


def _loop(device: BlockDevice, host: Host, passed: frozenset[object]) -> Iterator[Part]:
    """Grade a loop device by the filesystem that holds its backing file."""
    loop = device.loop
    number, file = (loop.backing_device_number, loop.backing_file) if loop else (None, "")
    lower = host.filesystem(number) if number is not None else None
    barrier = _barrier(lower)
    if lower is None or not isinstance(barrier, Known) or lower.device_number in passed:
        sentence = "flushes depend on the filesystem that holds its backing file, which is unknown"
        cite = Citation(f"file of {device.name}", file, f"/sys/block/{device.name}/loop")
        gap = next((each for each in (number, barrier) if isinstance(each, Unknown)), None)
        yield Part(device.name, Severity.MEDIUM, Confidence.LIKELY, sentence, cite, gap)
    elif barrier.value == "barrier":
        sentence = (
            f"its backing file is on {lower.name}, whose barriers do not order writes within it"
        )
        cite = Citation(f"barriers of {lower.name}", "on", barrier.origin)
        yield Part(device.name, Severity.MEDIUM, Confidence.CONFIRMED, sentence, cite)
    elif device.known_below:
        for below in device.known_below:
            yield from _parts(below, host, passed | {lower.device_number})
    else:
        yield _leaf(device)


def _barrier(fs: Filesystem | None) -> Known[str] | Unknown | None:
    """Return the barrier option of a filesystem; None without a filesystem."""
    if fs is None:
        return None
    if isinstance(fs.options, Unknown):
        return fs.options
    return fs.options.value.token("barrier")


def _leaf(device: BlockDevice) -> Part:
    """Grade a leaf device by the cache mode that it reports."""
    label = f"write cache of {device.name}"
    # An md array reports "write back" for any members, and a device-mapper device keeps the mode
    # from its creation: if their members are unknown, neither proves anything.
    is_stacked = device.kind not in {"disk", "partition"}
    unseen = device.below if is_stacked and isinstance(device.below, Unknown) else None
    cache = unseen or device.queue.write_cache
    if isinstance(cache, Unknown):
        sentence = "it is unknown whether the write cache is volatile"
        cite = Citation(label, f"unknown: {cache.detail}", cache.what)
        return Part(device.name, Severity.HIGH, Confidence.POSSIBLE, sentence, cite, cache)
    cite = Citation(label, cache.value, cache.origin)
    if cache.value == "write through":
        sentence = "no volatile write cache is reported"
        return Part(device.name, Severity.INFO, Confidence.CONFIRMED, sentence, cite)
    if _is_instance_store(device):
        sentence = "the write cache is volatile, and the disk is lost with its virtual machine"
        return Part(device.name, Severity.HIGH, Confidence.CONFIRMED, sentence, cite)
    sentence = "the write cache is volatile"
    return Part(device.name, Severity.CRITICAL, Confidence.CONFIRMED, sentence, cite)


def _is_instance_store(device: BlockDevice) -> bool:
    texts = [device.model or "", *(value for _, value in device.udev)]
    return any(name in text for name in INSTANCE_STORES for text in texts)

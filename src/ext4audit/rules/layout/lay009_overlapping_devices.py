"""LAY009: Two mounted filesystems lie on the same part of a disk and overwrite each other."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ext4audit import lazily
from ext4audit.evidence import (
    MOUNT_TABLE,
    Evidence,
    Known,
    Undetermined,
    Unknown,
    Why,
    for_wording,
    need,
    raise_for,
)
from ext4audit.facts import cached_by_identity, whole_number
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice, DmSegment
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, few
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule

if TYPE_CHECKING:
    from ext4audit.layout.byte_map import Split


class Part(NamedTuple):
    """A range of disk sectors that a device below a filesystem occupies; `end` is exclusive.

    `gap` is the reason if it is unknown which sectors of the range the device occupies. `on` is
    the name of the disk if several disks can have parts of the device, else empty.
    """

    disk: DeviceNumber
    device: BlockDevice
    start: int
    end: int
    gap: Unknown | None = None
    on: str = ""

    @property
    def sectors(self) -> "Sectors":
        """The range of sectors with its device."""
        return Sectors(self.start, self.end, self.device.device_number)


class Sectors(NamedTuple):
    """A range of disk sectors and the device that occupies it."""

    start: int
    end: int
    device_number: DeviceNumber

    def overlap(self, other: "Sectors") -> bool:
        """Return whether the other range overlaps and belongs to a different device."""
        is_same = self.device_number == other.device_number
        return not is_same and self.start < other.end and other.start < self.end


_split_segment: Callable[[DmSegment], "Split"] = lazily("layout.stack", "split_segment")
SIDE_BY_SIDE = frozenset({"crypt", "snapshot-origin", "striped"})
"""Targets whose segment has the same number of sectors on each lower device, from its offset on."""
MOST_NAMED = 8
"""The limit of overlaps per filesystem: 1000 devices on the same sectors make a million pairs."""


class Taken(NamedTuple):
    """The disk sectors that the mounted filesystems of a host occupy, and the gaps.

    `on_disks` has two entries for a disk: under False the ranges that are certainly occupied, and
    under True those of which unknown sectors are occupied.
    """

    filesystems: tuple[tuple[Filesystem, tuple[Part, ...]], ...]
    on_disks: Mapping[tuple[DeviceNumber, bool], "Disk"]
    gaps: tuple[Unknown, ...]

    def overlapping(
        self, fs: Filesystem, own: tuple[Part, ...]
    ) -> Iterator[tuple[Filesystem, tuple[Part, ...]]]:
        """Yield, in order, the filesystems that overlap with these parts.

        The search stops after MOST_NAMED certain and MOST_NAMED possible overlaps.
        """
        pairs = [(part, gap) for part in own for gap in (False, True)]
        sure = [(part, gap) for part, gap in pairs if not part.gap and not gap]
        unsure = [(part, gap) for part, gap in pairs if part.gap or gap]
        found = {number for each in (sure, unsure) for number in self._first(fs, each)}
        yield from (self.filesystems[number] for number in sorted(found))

    def _first(self, fs: Filesystem, wanted: Sequence[tuple[Part, bool]]) -> Collection[int]:
        """Return the indices of the first MOST_NAMED other filesystems on the wanted sectors."""
        disks = ((part, self.on_disks.get((part.disk, gap))) for part, gap in wanted)
        numbers = (n for part, disk in disks if disk for n in disk.overlapping(part.sectors))
        found: dict[int, None] = {}
        for number in numbers:
            if self.filesystems[number][0].device_number != fs.device_number:
                found[number] = None
            if len(found) == MOST_NAMED:
                break
        return found


class Disk(NamedTuple):
    """The occupied ranges of a disk, sorted, with the indices of the filesystems that own them.

    `ends` is a segment tree in an array: its second half holds the end of each range, and node n
    holds the larger value of nodes 2 n and 2 n + 1.
    """

    ranges: tuple[Sectors, ...]
    owners: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]

    def overlapping(self, sectors: Sectors) -> Iterator[int]:
        """Yield the indices of the filesystems that occupy these sectors through another device."""
        middle = len(self.ends) // 2
        stop = middle + bisect_left(self.ranges, (sectors.end,))
        pending = [1]
        while pending:
            node = pending.pop()
            first = node << (middle.bit_length() - node.bit_length())
            if first >= stop or self.ends[node] <= sectors.start:
                continue
            if node < middle:
                pending += (2 * node + 1, 2 * node)
            elif self.ranges[node - middle].overlap(sectors):
                yield from self.owners[node - middle]


@rule(
    "LAY009",
    "overlapping-devices",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man8/sfdisk.8.html",
        "https://docs.kernel.org/filesystems/ext4/overview.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether two mounted ext4 filesystems lie on the same sectors of a disk: on partitions that
    overlap, or one on the whole disk and the other on a partition of it. The partitions below
    arrays and logical volumes count as well. Only partitions below ext4 filesystems are known. The
    rule also reports one filesystem that is mounted through two devices: two loop devices over one
    file, or two paths to one disk without dm-multipath. For each filesystem, the report names the
    first eight that overlap with it.

    ## Why it matters

    The kernel accepts a partition table with overlaps. Both filesystems allocate the same
    sectors, and each write to one destroys data or metadata of the other; nothing is logged
    until damaged metadata is read.

    ## Remedy

    Stop all writers and copy the data of both elsewhere, before anything else is written. Then
    correct the partition table and create the filesystems anew.

    ## When to ignore

    Do not ignore it.
    """
    refuse_unmounted(fs)
    written = (other for other in host.mounted_twice(fs) if _is_written(fs, other))
    twice = tuple(islice(written, MOST_NAMED))
    yield from (_twice(fs, other) for other in twice)
    own = need(_parts_of(fs))
    if not own:
        raise_for(host.unplaced_twins(fs))
        if twice:
            return
        raise NotApplicable("no disk is below it")
    taken = _taken(_seen(host))
    gaps, met = taken.gaps, 0
    for other, parts in taken.overlapping(fs, own):
        if met == MOST_NAMED:
            break
        pair = _overlap(own, parts)
        unsure = [part.gap for part in pair or () if part.gap]
        gaps += tuple(unsure)
        if pair is not None and not unsure:
            met += 1
            yield _finding(other, *pair)
    if not met:
        yield from map(_cite, own)
    raise_for(gaps)


def _is_written(*filesystems: Filesystem) -> bool:
    """Return whether any of the filesystems may be written; read-only mounts do no harm."""
    return not all(for_wording(fs.read_only, False) for fs in filesystems)


@cached_by_identity
def _seen(host: Host) -> tuple[Filesystem, ...]:
    return (*host.filesystems, *host.lower)


@cached_by_identity
def _taken(filesystems: tuple[Filesystem, ...]) -> Taken:
    """Return the sectors that the mounted filesystems occupy, and the gaps."""
    found = [(fs, _parts_of(fs)) for fs in filesystems if fs.alive]
    known = tuple((fs, parts.value) for fs, parts in found if isinstance(parts, Known))
    gaps = (parts for _, parts in found if isinstance(parts, Unknown))
    owners: dict[tuple[DeviceNumber, bool], dict[Sectors, list[int]]] = {}
    for number, (_, parts) in enumerate(known):
        for part in parts:
            disk = part.disk, part.gap is not None
            owners.setdefault(disk, {}).setdefault(part.sectors, []).append(number)
    disks = {disk: _sorted(taken) for disk, taken in owners.items()}
    return Taken(known, disks, tuple(dict.fromkeys(gaps)))


def _sorted(owners: Mapping[Sectors, list[int]]) -> Disk:
    ranges = tuple(sorted(owners))
    middle = 1 << (len(ranges) - 1).bit_length()
    ends = [0] * middle + [each.end for each in ranges] + [0] * (middle - len(ranges))
    for node in range(middle - 1, 0, -1):
        ends[node] = max(ends[2 * node], ends[2 * node + 1])
    return Disk(ranges, tuple(tuple(owners[each]) for each in ranges), tuple(ends))


def _parts_of(fs: Filesystem) -> Evidence[tuple[Part, ...]]:
    """Return the disk parts that a filesystem occupies; its stack is not followed below a loop."""
    if isinstance(fs.stack, Unknown):
        return fs.stack
    try:
        return Known(tuple(_parts(fs.stack.value, set())), fs.stack.origin)
    except Undetermined as met:
        return met.unknowns[0]


def _parts(device: BlockDevice, seen: set[DeviceNumber]) -> Iterator[Part]:
    """Yield the partitions and whole disks below a device, once each; raises Undetermined."""
    if device.device_number in seen:
        return
    seen.add(device.device_number)
    if device.kind == "partition":
        if device.start_sectors is None:
            gap = Unknown(f"start of {device.name}", Why.ABSENT)
            raise Undetermined((device.start_gap or gap,))
        for disk in need(device.below):
            end = device.start_sectors + need(device.size_sectors)
            yield Part(disk.device_number, device, device.start_sectors, end)
    elif device.kind == "disk":
        yield Part(device.device_number, device, 0, need(device.size_sectors))
    elif device.loop is None:
        for below in need(device.below):
            yield from _mapped(device, below, seen) if device.dm else _parts(below, seen)


def _mapped(device: BlockDevice, below: BlockDevice, seen: set[DeviceNumber]) -> Iterator[Part]:
    """Yield the parts of a lower device that a mapped device occupies: of a disk, its segments.

    kpartx maps the partitions of a disk in addition to those of the kernel, and the volumes of a
    group lie side by side on its disks. A device whose table is not known or not understood may
    map any sectors, and two such devices may map the same ones.
    """
    table = device.dm.table if device.dm else Known((), "")
    if below.kind != "disk":
        yield from _parts(below, seen)
    elif isinstance(table, Unknown):
        yield from (part._replace(device=device, gap=table) for part in _parts(below, set()))
    else:
        for segment in table.value:
            yield from _of_segment(segment, device, below, seen)


def _of_segment(
    segment: DmSegment, device: BlockDevice, below: BlockDevice, seen: set[DeviceNumber]
) -> Iterator[Part]:
    """Yield the parts of a disk that a segment occupies; dm-multipath has all of each path."""
    if segment.target == "multipath":
        yield from _parts(below, seen)
        return
    names = {below.name, str(below.device_number)}
    try:
        places = tuple(_places(segment))
    except (ValueError, IndexError) as error:
        gap = Unknown(f"sectors of {device.name} on {below.name}", Why.UNSUPPORTED, str(error))
        yield from (part._replace(device=device, gap=gap) for part in _parts(below, set()))
        return
    for name, start, length in places:
        if name in names:
            end = start + length
            yield Part(below.device_number, device, start, end, on=below.name)


def _places(segment: DmSegment) -> Iterator[tuple[str, int, int]]:
    """Yield the lower devices of a segment, each with its first sector and the number of sectors.

    Raises ValueError or IndexError for another target, and for text that is not understood.
    """
    if segment.target == "linear":
        start = whole_number(segment.arguments[1])
        if start is None:
            raise ValueError(f"{segment.arguments[1][:40]!r} is not a sector")
        yield segment.arguments[0], start, segment.length_sectors
        return
    if segment.target not in SIDE_BY_SIDE:
        raise ValueError(f"which sectors the target {segment.target!r} occupies is not known")
    components = _split_segment(segment).components
    for name, start_bytes in components:
        yield name, start_bytes // SECTOR_BYTES, segment.length_sectors // len(components)


def _overlap(own: tuple[Part, ...], parts: tuple[Part, ...]) -> tuple[Part, Part] | None:
    """Return a pair of parts that overlap, preferably one without gaps; None if there is none."""
    pairs = [
        (a, b) for a in own for b in parts if a.disk == b.disk and a.sectors.overlap(b.sectors)
    ]
    return min(pairs, key=lambda pair: any(part.gap for part in pair), default=None)


def _cite(part: Part) -> Citation:
    table = part.device.dm.table if part.device.dm else None
    sysfs = f"/sys/class/block/{part.device.name}"
    place = table.origin if isinstance(table, Known) else sysfs
    label = f"{part.device.name} on {part.on}" if part.on else part.device.name
    return Citation(label, f"sectors {part.start} to {part.end - 1}", place)


def _twice(fs: Filesystem, other: Filesystem) -> Finding:
    return Finding(
        message=f"{fs.device} and {other.device} are the same storage, and both are mounted: the "
        "kernel treats them as two filesystems, and their writes overwrite each other.",
        severity=Severity.CRITICAL,
        confidence=Confidence.CONFIRMED,
        citations=tuple(
            Citation(each.device, f"{each.uuid} on {few(each.mount_points)}", MOUNT_TABLE)
            for each in (fs, other)
        ),
        remedies=(
            Remedy(
                "Stop all writers, unmount both, and check it through one of the devices "
                "(e2fsck -f). Detach the other loop device, or let dm-multipath join the paths.",
                Disruption.UNMOUNT,
            ),
        ),
        fact=f"twice {other.uuid}",
        summary="one filesystem is mounted through two devices",
    )


def _finding(other: Filesystem, own: Part, its: Part) -> Finding:
    where = few(other.mount_points) or other.device
    return Finding(
        message=f"{own.device.name} and {its.device.name} overlap on the same disk, and both hold "
        f"mounted filesystems (the other is {where}): they overwrite each other.",
        severity=Severity.CRITICAL,
        confidence=Confidence.CONFIRMED,
        citations=(_cite(own), _cite(its)),
        remedies=(
            Remedy(
                "Stop all writers, copy the data of both filesystems elsewhere, correct the "
                "partition table (sfdisk --verify), and create the filesystems anew.",
                Disruption.RECREATE,
                destructive=True,
            ),
        ),
        fact=other.uuid or str(other.device_number),
        summary="two mounted filesystems lie on the same part of a disk",
    )

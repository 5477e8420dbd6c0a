"""Sizes, shares and times as text; the journal and stripe sizes of a filesystem."""

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import (
    Evidence,
    Known,
    Undetermined,
    Unknown,
    Why,
    derive,
    for_wording,
    is_surely,
    need,
    origin_of,
)
from ext4audit.facts import GIB, whole_number
from ext4audit.facts.devices import IMAGES, SECTOR_BYTES, BlockDevice
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.facts.layout import stripe_at_mount
from ext4audit.facts.mount import Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Disruption, Remedy
from ext4audit.layout import MOST_COLUMNS, journal_blocks_of, may_stripe
from ext4audit.rules.shared import cite_option, in_rootflags, superblock_field

UNITS = ("TiB", 1 << 40), ("GiB", GIB), ("MiB", 1 << 20)
BLOCKS_OF_32_BITS = 1 << 32
"""The maximum number of blocks of a filesystem without the feature 64bit."""


def size(count_bytes: int) -> str:
    """Return a size as text: "1.5 TiB", "50 GiB", "12 MiB", "100 bytes"."""
    for unit, unit_bytes in UNITS:
        if abs(count_bytes) >= unit_bytes:
            return f"{count_bytes / unit_bytes:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count_bytes} bytes"


def percent(part: int, whole: int) -> str:
    """Return a share as text, rounded down: 100 % means exactly all."""
    return f"{part * 1000 // whole / 10:g} %" if whole else "0 %"


def full_share(usage: Usage) -> float:
    """Return the used share from 0 to 1, computed like df(1), without the reserved blocks."""
    used = usage.size_blocks - usage.free_blocks
    reachable = used + usage.available_blocks
    return used / reachable if reachable > 0 else 1.0


def cite_space(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the space in use, if it is known."""
    if not isinstance(fs.usage, Known):
        return ()
    usage = fs.usage.value
    words = [
        f"{size(blocks * usage.block_bytes)} {name}"
        for blocks, name in (
            (usage.size_blocks, "in all"),
            (usage.free_blocks, "free"),
            (usage.available_blocks, "free for users"),
        )
    ]
    return (Citation("space", ", ".join(words), fs.usage.origin),)


def is_image(fs: Filesystem) -> bool:
    """Return whether the filesystem is in an image file or in a partition of one."""
    stack = for_wording(fs.stack, None)
    return stack is not None and stack.image is not None


def device_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the size of the filesystem's device."""
    if not isinstance(fs.stack, Known):
        return fs.stack
    if fs.stack.value.kind in IMAGES:
        return superblock_field(fs, "size", lambda superblock: superblock.size_bytes)
    return derive("size", lambda sectors: sectors * SECTOR_BYTES, fs.stack.value.size_sectors)


def may_be_followed(fs: Filesystem) -> Evidence[bool]:
    """Return whether the filesystem starts inside a file, whose rest may hold other data.

    `mount -o loop,offset=` for a partition in an image of a disk makes a loop device that ends
    with the image, not with the partition: growing the filesystem overwrites the next partition.
    """
    stack = for_wording(fs.stack, None)
    devices = stack.descend(lambda device: device.kind != "dm-crypt") if stack else ()
    offsets = [device.loop.offset_bytes for device in devices if device.loop is not None]
    if None in offsets:
        return Unknown("where in its file the loop device starts", Why.NOT_CAPTURED)
    return Known(any(offsets), "/sys/block/loop*/loop/offset")


def least_idle(device: int) -> int:
    """Return how many bytes of a device a filesystem may leave unused without a finding."""
    return max(GIB, device // 100)


def has_room_to_grow(fs: Filesystem) -> bool:
    """Return whether the device is known to be larger than the filesystem, as in CAP005."""

    def has_room(device: int, block: int, superblock: Superblock) -> bool:
        return device - superblock.size_blocks * block > least_idle(device)

    room = derive("room", has_room, device_bytes(fs), block_bytes(fs), fs.superblock)
    return is_surely(room) and not for_wording(may_be_followed(fs), True)


def block_bytes(fs: Filesystem) -> Evidence[int]:
    """Return the block size, from statfs(2) if the superblock does not show it."""
    found = superblock_field(fs, "block size", lambda superblock: superblock.block_bytes)
    if isinstance(found, Unknown) and isinstance(fs.usage, Known) and fs.usage.value.block_bytes:
        return Known(fs.usage.value.block_bytes, fs.usage.origin)
    return found


_TIME = r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?[Zz]"
DAY_SECONDS = 86400
_DAYS_OF_ERA = 146097
_DAYS_TO_1970 = 719468
"""Days from 0000-03-01, where the calendar arithmetic of `_date()` starts."""


def utc(seconds: int) -> str:
    """Return a time as RFC 3339 in UTC: 0 is "1970-01-01T00:00:00Z"."""
    days, rest = divmod(seconds, DAY_SECONDS)
    year, month, day = _date(days)
    hour, minute, second = rest // 3600, rest // 60 % 60, rest % 60
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}Z"


def seconds_since_1970(text: str) -> int | None:
    """Return the Unix time of an RFC 3339 time in UTC; None for any other text."""
    match = re.fullmatch(_TIME, text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:  # the calendar has no such day, or the day no such hour
        return None
    return int(moment.timestamp())


def _date(days: int) -> tuple[int, int, int]:
    """Return the Gregorian date of a day since 1970-01-01; internally, years start in March."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _DAYS_OF_ERA)
    leap = day_of_era // 1460 - day_of_era // 36524 + day_of_era // 146096
    year_of_era = (day_of_era - leap) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9  # noqa: PLR2004 - January is 10
    return era * 400 + year_of_era + (month <= 2), month, day  # noqa: PLR2004 - until February


SMALL = 8
"""Older mke2fs versions create an eighth (1.42: at most 32768 blocks), which is not reported."""
LEAST_BYTES = 20 * GIB


class Journal(NamedTuple):
    """The sizes of an internal journal and of the one that mke2fs would create, in bytes."""

    present_bytes: int
    usual_bytes: int
    filesystem_bytes: int

    @property
    def undersized(self) -> bool:
        """Whether the filesystem is large and its journal less than an eighth of the usual size."""
        small = self.present_bytes * SMALL < self.usual_bytes
        return small and self.filesystem_bytes > LEAST_BYTES


def journal_of(fs: Filesystem) -> Evidence[Journal]:
    """Return the journal sizes of a filesystem with an internal journal."""
    block_bytes = superblock_field(fs, "size of a block", lambda each: each.block_bytes)
    present = superblock_field(fs, "size of the journal", lambda each: each.journal_bytes)

    def join(superblock: Superblock, block: int, journal: int) -> Journal:
        usual = journal_blocks_of(superblock.size_blocks) * block
        return Journal(journal, usual, superblock.size_blocks * block)

    origin = origin_of(fs.superblock)
    return derive("journal", join, fs.superblock, block_bytes, present, origin=origin)


def cite_journal(fs: Filesystem, journal: Journal) -> tuple[Citation, ...]:
    """Cite the size of the journal and the size that mke2fs would create."""
    origin = origin_of(fs.superblock)
    usual = f"{size(journal.usual_bytes)} for a filesystem of {size(journal.filesystem_bytes)}"
    return (
        Citation("journal", size(journal.present_bytes), origin),
        Citation("journal that mke2fs would make", usual, "computed"),
    )


class RecommendedStripe(NamedTuple):
    """The chunk size and the full stripe width that a device reports, in bytes."""

    chunk_bytes: int
    width_bytes: int


def recommended_stripe(device: BlockDevice) -> RecommendedStripe | None:
    """Return the stripe that a device recommends; None if its I/O sizes are those of a disk.

    Raises Undetermined. A single disk reports its physical block size as the minimum, and a disk
    behind a USB bridge may report an optimal size that is not a multiple of the minimum.
    """
    limits = device.queue
    chunk, width = need(limits.minimum_io_bytes, limits.optimal_io_bytes)
    if chunk <= SECTOR_BYTES:
        return None
    if not may_stripe(device) and chunk <= need(limits.physical_block_bytes):
        return None
    columns, rest = divmod(width, chunk)
    return None if rest or not 1 < columns <= MOST_COLUMNS else RecommendedStripe(chunk, width)


def hides_stripe(device: BlockDevice) -> bool:
    """Return whether no array is visible and the I/O sizes that could reveal one are unknown."""
    limits = device.queue
    sizes = [limits.minimum_io_bytes, limits.optimal_io_bytes]
    chunk = limits.minimum_io_bytes
    if not (isinstance(chunk, Known) and chunk.value <= SECTOR_BYTES):
        sizes.append(limits.physical_block_bytes)
    return not may_stripe(device) and any(isinstance(size, Unknown) for size in sizes)


def stripes_cost_cpu(host: Host) -> Evidence[bool]:
    """Return whether any stripe can keep a CPU busy on the host's kernel (KRN002)."""
    return derive("KRN002", lambda found: found.affected, exposure("KRN002", host.kernel))


def block_bytes_of(superblock: Superblock) -> int:
    """Return the block size; raises Undetermined if it was not captured."""
    if superblock.block_bytes:
        return superblock.block_bytes
    raise Undetermined((Unknown("block size", Why.NOT_CAPTURED),))


def largest_stripe_blocks(fs: Filesystem) -> int:
    """Return the largest stripe that a mount accepts, in blocks: the size of a block group."""
    if isinstance(fs.superblock, Known):
        return group_blocks(fs.superblock.value)
    return 8 * need(block_bytes(fs))


def cite_raid_hints(fs: Filesystem) -> Iterator[Citation]:
    """Cite the stride and the stripe width of the superblock."""
    if isinstance(fs.superblock, Known):
        superblock = fs.superblock.value
        value = f"stride {superblock.stride_blocks}, width {superblock.stripe_width_blocks} blocks"
        yield Citation("RAID hints", value, fs.superblock.origin)


def cite_stripe(fs: Filesystem) -> tuple[Citation, ...]:
    """Cite the stripe in force, the superblock's two fields, and where else the option is set."""
    cited = tuple(cite_option(fs, "stripe"))
    return (*cited[:1], *cite_raid_hints(fs), *cited[1:])


def stripe_in_force(fs: Filesystem, host: Host) -> int:
    """Return the stripe, in blocks, that the allocator uses; raises Undetermined.

    If the filesystem is unmounted or only planned, no mount table shows stripe=, and the
    superblock's value is returned.
    """
    if not fs.alive:
        return _stripe_at_mount(fs, host)
    options = need(fs.options)
    value = need(options.token("stripe")).partition("=")[2]
    option = options.find("stripe")
    shown = option is not None and any(x.provenance is Provenance.MOUNT for x in option.layers)
    if not (options.complete or shown):
        return _stripe_at_mount(fs, host)
    stripe = whole_number(value)
    if stripe is None:
        raise Undetermined((Unknown("option stripe", Why.UNPARSABLE, f"{value:.40}"),))
    return stripe


def _with_block_size(fs: Filesystem) -> Superblock:
    """Return the superblock; raises Undetermined, with a hint, if its block size is unknown."""
    size_of = superblock_field(fs, "block size", lambda s: s.blocks_per_group or s.block_bytes)
    return need(fs.superblock, size_of)[0]


def _stripe_at_mount(fs: Filesystem, host: Host) -> int:
    """Return the stripe of the next mount; raises Undetermined if the kernel decides."""
    linux = derive("version of Linux", lambda kernel: kernel.upstream, host.kernel)
    superblock = _with_block_size(fs)
    limited = superblock._replace(blocks_per_group=group_blocks(superblock))
    return need(stripe_at_mount(limited, linux))


def group_blocks(superblock: Superblock) -> int:
    """Return the blocks per group; by default as many as one bitmap block describes."""
    return superblock.blocks_per_group or 8 * block_bytes_of(superblock)


def stripe_off(fs: Filesystem, host: Host) -> Remedy:
    """Return the remedy that turns a stripe off, with what a person has to do for it."""
    superblock = for_wording(fs.superblock, None)
    more = "" if superblock else " The superblock was not read: scan as root for the commands."
    if in_rootflags(fs, host, "stripe"):
        more += " Also remove stripe= from rootflags= in the boot loader's configuration."
    return Remedy(
        f"Turn the stripe off, now and where it is set{remedies.remount.elsewhere(fs)}.{more}",
        Disruption.REMOUNT if fs.alive else Disruption.ONLINE,
        remedies.superblock_fields.set_stripe(fs, superblock, 0, 0) if superblock else (),
    )

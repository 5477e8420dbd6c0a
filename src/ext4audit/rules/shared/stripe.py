"""The stripe that a device recommends, and the one that ext4 works with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.options import Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation
from ext4audit.layout.striping import MOST_COLUMNS, may_stripe


@dataclass(frozen=True, slots=True)
class Recommended:
    """A chunk and a whole stripe of data, in bytes, from a device's I/O sizes."""

    chunk_bytes: int
    width_bytes: int


def recommended(device: BlockDevice) -> Recommended | None:
    """Return the stripe that a device recommends; None where its I/O sizes are those of a disk.

    Raises Undetermined. A single disk reports its physical block as the minimum, and disks behind
    USB bridges an optimal size that is no multiple of anything.
    """
    limits = device.queue
    chunk, width = need(limits.minimum_io_bytes, limits.optimal_io_bytes)
    if chunk <= SECTOR_BYTES:
        return None
    if not may_stripe(device) and chunk <= need(limits.physical_block_bytes):
        return None
    columns, rest = divmod(width, chunk)
    return None if rest or not 1 < columns <= MOST_COLUMNS else Recommended(chunk, width)


def hides_stripe(device: BlockDevice) -> bool:
    """Whether no array is visible, and the I/O sizes that would hint at one are not known."""
    limits = device.queue
    sizes = limits.minimum_io_bytes, limits.optimal_io_bytes, limits.physical_block_bytes
    return not may_stripe(device) and any(isinstance(size, Unknown) for size in sizes)


def spins(host: Host) -> Evidence[bool]:
    """Return whether any stripe may cost a whole CPU on the host's kernel (KRN002)."""
    found = exposure("KRN002", host.kernel)
    return found if isinstance(found, Unknown) else Known(found.value.affected, found.origin)


def block_bytes(superblock: Superblock) -> int:
    """Return the block size; raises Undetermined where the reader could not see it."""
    if superblock.block_bytes:
        return superblock.block_bytes
    raise Undetermined((Unknown("block size", Why.NOT_CAPTURED, hint="run as root"),))


def unit_bytes(fs: Filesystem) -> int:
    """Return the block size; of statfs where the superblock could not be read."""
    if isinstance(fs.usage, Known) and fs.usage.value.block_bytes:
        return fs.usage.value.block_bytes
    return block_bytes(need(fs.superblock))


def most_blocks(fs: Filesystem) -> int:
    """Return the largest stripe that a mount accepts, as far as it is known."""
    if isinstance(fs.superblock, Known):
        return group_blocks(fs.superblock.value)
    return 8 * unit_bytes(fs)


def cite_hints(fs: Filesystem) -> Iterator[Citation]:
    """Yield the stride and the stripe width of the superblock."""
    if isinstance(fs.superblock, Known):
        superblock = fs.superblock.value
        value = f"stride {superblock.stride_blocks}, width {superblock.stripe_width_blocks} blocks"
        yield Citation("RAID hints", value, fs.superblock.origin)


def in_force(fs: Filesystem) -> int:
    """Return the stripe, in blocks, that the allocator works with; raises Undetermined.

    It is the superblock's where the filesystem is not mounted, or only planned: no mount table
    then shows stripe=.
    """
    if not fs.alive:
        return at_mount(need(fs.superblock))
    options = need(fs.options)
    value = need(options.token("stripe")).partition("=")[2]
    option = options.find("stripe")
    shown = option is not None and any(x.provenance is Provenance.MOUNT for x in option.layers)
    if not (options.complete or shown):
        return at_mount(need(fs.superblock))
    if not (value.isascii() and value.isdigit()):
        raise Undetermined((Unknown("option stripe", Why.UNPARSABLE, value),))
    return int(value)


def at_mount(superblock: Superblock) -> int:
    """Return the stripe that a mount without stripe= uses (fs/ext4/super.c, 6.1).

    It is the width, else the stride; neither where it is larger than a block group. One block is
    no stripe.
    """
    most = group_blocks(superblock)
    fields = superblock.stripe_width_blocks, superblock.stride_blocks
    taken = next((blocks for blocks in fields if 0 < blocks <= most), 0)
    return taken if taken > 1 else 0


def group_blocks(superblock: Superblock) -> int:
    """Return the blocks of a group: as many as one block of bitmap describes by default."""
    return superblock.blocks_per_group or 8 * block_bytes(superblock)

"""The stripe that a device recommends, the one that ext4 works with, and how to change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, Why, need
from ext4audit.facts.devices import SECTOR_BYTES, BlockDevice
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.kernel_bugs import exposure
from ext4audit.facts.mount import Mount
from ext4audit.facts.options import Provenance
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Phase, Step
from ext4audit.layout.striping import MOST_COLUMNS, may_stripe
from ext4audit.remedies.fstab import FstabEdit, edit_options
from ext4audit.remedies.options import option_of
from ext4audit.remedies.remount import remount_command, usable_mount
from ext4audit.remedies.shell import quote

FIELDS = {"RAID stride": 0, "RAID stripe width": 1}


@dataclass(frozen=True, slots=True)
class Recommended:
    """A chunk and a whole stripe of data, in bytes, as a device's I/O sizes state them."""

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


def tells_nothing(device: BlockDevice) -> bool:
    """Whether no array is seen, and the I/O sizes that would hint at one are not known."""
    limits = device.queue
    sizes = limits.minimum_io_bytes, limits.optimal_io_bytes, limits.physical_block_bytes
    return not may_stripe(device) and any(isinstance(size, Unknown) for size in sizes)


def spins(host: Host) -> Evidence[bool]:
    """Return whether any stripe may cost a whole CPU on the host's kernel, as KRN002 has it."""
    said = exposure("KRN002", host.kernel)
    return said if isinstance(said, Unknown) else Known(said.value.affected, said.origin)


def block_bytes(superblock: Superblock) -> int:
    """Return the block size; raises Undetermined where the reader could not see it."""
    if superblock.block_bytes:
        return superblock.block_bytes
    raise Undetermined((Unknown("block size", Why.NOT_CAPTURED, hint="run as root"),))


def unit_bytes(fs: Filesystem) -> int:
    """Return the block size, by statfs where nobody may read the superblock."""
    if isinstance(fs.usage, Known) and fs.usage.value.block_bytes:
        return fs.usage.value.block_bytes
    return block_bytes(need(fs.superblock))


def most_blocks(fs: Filesystem) -> int:
    """Return the largest stripe that a mount takes, as far as it can be seen."""
    if isinstance(fs.superblock, Known):
        return group_blocks(fs.superblock.value)
    return 8 * unit_bytes(fs)


def cite_hints(fs: Filesystem) -> Iterator[Citation]:
    """Yield what the superblock holds."""
    if isinstance(fs.superblock, Known):
        held = fs.superblock.value
        said = f"stride {held.stride_blocks}, width {held.stripe_width_blocks} blocks"
        yield Citation("RAID hints", said, fs.superblock.origin)


def in_force(fs: Filesystem) -> int:
    """Return the stripe, in blocks, that the allocator works with; raises Undetermined.

    The superblock's where it is not mounted, or only planned: then no mount table says stripe=.
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
    """Return the stripe that a mount without stripe= takes (fs/ext4/super.c, 6.1).

    The width, else the stride; neither where it is larger than a block group; one block is none.
    """
    most = group_blocks(superblock)
    fields = superblock.stripe_width_blocks, superblock.stride_blocks
    taken = next((blocks for blocks in fields if 0 < blocks <= most), 0)
    return taken if taken > 1 else 0


def group_blocks(superblock: Superblock) -> int:
    """Return the blocks of a group: as many as one block of bitmap describes by default."""
    return superblock.blocks_per_group or 8 * block_bytes(superblock)


def set_stripe(fs: Filesystem, superblock: Superblock, stride: int, width: int) -> tuple[Step, ...]:
    """Return the commands that put stride and width, in blocks, into the superblock and in force.

    stripe= leaves fstab: `stripe=0` there does nothing, because the superblock's value wins, and
    any other would win over the superblock. Empty where no mount of the whole filesystem is here.
    """
    mount = usable_mount(fs)
    lost = fs.alive and (mount is None or quote(mount.mount_point) is None)
    if lost or quote(fs.device) is None:
        return ()
    old, now = (superblock.stride_blocks, superblock.stripe_width_blocks), _live(fs)
    edits = list(_edits(fs))
    do = [c for edit in edits for c in edit.apply]
    undo = [c for edit in reversed(edits) for c in edit.undo]
    if old != (stride, width):
        do, undo = [*do, _tune(fs, stride, width)], [_tune(fs, *old), *undo]
    return (
        *_steps(Phase.IMMEDIATE, _remount(fs, mount, now, width)),
        *_steps(Phase.PERSISTENT, do),
        *_steps(Phase.VERIFY, [*_shown(fs, width), *_stored(fs, (stride, width))]),
        *_steps(Phase.ROLLBACK, undo),
        *_steps(Phase.ROLLBACK, _remount(fs, mount, width, now)),
    )


def _remount(fs: Filesystem, mount: Mount | None, old: int | None, new: int | None) -> list[str]:
    """Return the remount that puts a stripe in force, none where it is or nothing is mounted."""
    if mount is None or None in {old, new} or old == new:
        return []
    return [remount_command(fs, mount, [f"stripe={new}"], {"stripe"})]


def _live(fs: Filesystem) -> int | None:
    """Return the stripe in force, None where the options do not tell it."""
    option = option_of(fs, "stripe")
    value = option.token.partition("=")[2] if option else ""
    return int(value) if value.isascii() and value.isdigit() else None


def _edits(fs: Filesystem) -> Iterator[FstabEdit]:
    """Yield the edits that take stripe= out of the entries of the device."""
    entries = fs.fstab.value if isinstance(fs.fstab, Known) else ()
    for line in (entry.line for entry in entries):
        edit = edit_options(line, [w for w in line.options if w.startswith("stripe=")], ())
        if edit is not None:
            yield edit


def _tune(fs: Filesystem, stride: int, width: int) -> str:
    """Return the command that stores both; allowed on a mounted filesystem."""
    return f"tune2fs -E stride={stride},stripe_width={width} {quote(fs.device)}"


def _shown(fs: Filesystem, width: int) -> Iterator[str]:
    """Yield the command that fails while another stripe is in force."""
    if fs.alive:
        yield f"grep -qx stripe={width} {quote(f'/proc/fs/ext4/{fs.name}/options')}"


def _stored(fs: Filesystem, wanted: tuple[int, int]) -> Iterator[str]:
    """Yield the commands that fail while the superblock holds another value; 0 is not printed."""
    listing = f"tune2fs -l {quote(fs.device)}"
    for label, place in FIELDS.items():
        value = wanted[place]
        if value:
            yield f"{listing} | grep -qxE '{label}: +{value}'"
        else:
            yield f"{listing} | grep -q UUID: && ! {listing} | grep -q '^{label}:'"


def _steps(phase: Phase, commands: list[str]) -> tuple[Step, ...]:
    """Make steps of commands."""
    return tuple(Step(phase, command) for command in commands)

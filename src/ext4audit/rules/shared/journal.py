"""The journal against what mke2fs makes for a filesystem of its size, and a larger one."""

from __future__ import annotations

from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known, derive, need, value_or
from ext4audit.facts.host import Filesystem
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Disruption, Remedy
from ext4audit.remedies.offline import checked, unmounted_steps, why_by_hand
from ext4audit.remedies.shell import quote
from ext4audit.rules.shared.citations import stated
from ext4audit.rules.shared.quantities import GIB, size

MIB = 1 << 20
USUAL_BLOCKS = (
    (2048, 0),
    (32768, 1024),
    (262144, 4096),
    (524288, 8192),
    (4194304, 16384),
    (8388608, 32768),
    (16777216, 65536),
    (33554432, 131072),
)
"""Blocks of the journal below a number of blocks (mke2fs 1.47.0, seen at 19 sizes)."""
USUAL_BLOCKS_BEYOND = 262144
SMALL = 8
"""A journal of an eighth is that of an older mke2fs (1.42: 32768 blocks at most): not small."""
LEAST_BYTES = 20 * GIB
SIZE_IN_MIB = "/ournal size:/ { n = $NF + 0; if ($NF ~ /k$/) n /= 1024 }"
"""awk on what dumpe2fs prints: "Total journal size:       128M", in KiB ("4096k") below 8 MiB."""
FREE_SHARE = 2
"""tune2fs 1.47.0 makes no journal larger than half of what is free."""


@dataclass(frozen=True, slots=True)
class Journal:
    """An internal journal, and the one that mke2fs would make for this filesystem, in bytes."""

    present_bytes: int
    usual_bytes: int
    filesystem_bytes: int

    @property
    def undersized(self) -> bool:
        """Whether the filesystem is large, and its journal less than an eighth of the usual."""
        small = self.present_bytes * SMALL < self.usual_bytes
        return small and self.filesystem_bytes > LEAST_BYTES


def usual_blocks(size_blocks: int) -> int:
    """Return how many blocks mke2fs gives the journal of a filesystem of so many; 0 for none."""
    fitting = (journal for below, journal in USUAL_BLOCKS if size_blocks < below)
    return next(fitting, USUAL_BLOCKS_BEYOND)


def journal_of(fs: Filesystem) -> Evidence[Journal]:
    """Return the internal journal of a filesystem that has one."""
    block_bytes = stated(fs, "size of a block", lambda each: each.block_bytes)
    present = stated(fs, "size of the journal", lambda each: each.journal_bytes)

    def join(superblock: Superblock, block: int, journal: int) -> Journal:
        usual = usual_blocks(superblock.size_blocks) * block
        return Journal(journal, usual, superblock.size_blocks * block)

    origin = fs.superblock.origin if isinstance(fs.superblock, Known) else None
    return derive("journal", join, fs.superblock, block_bytes, present, origin=origin)


def is_external(superblock: Superblock) -> bool:
    """Whether the journal lies on a device of its own."""
    inside = bool(superblock.journal_inode or superblock.journal_bytes)
    return superblock.has_journal and bool(superblock.journal_device) and not inside


def cite_journal(fs: Filesystem, journal: Journal) -> tuple[Citation, ...]:
    """Cite the journal, and the yardstick."""
    origin = fs.superblock.origin if isinstance(fs.superblock, Known) else ""
    usual = f"{size(journal.usual_bytes)} for a filesystem of {size(journal.filesystem_bytes)}"
    return (
        Citation("journal", size(journal.present_bytes), origin),
        Citation("journal that mke2fs would make", usual, "computed"),
    )


def enlarge(fs: Filesystem, journal: Journal, summary: str) -> Remedy:
    """Return the remedy that replaces the journal by one of the usual size.

    tune2fs takes the old one out first. Where the new one then does not fit, the old size is
    made again, so that the filesystem is not left without one.
    """
    new, old = (max(1, each // MIB) for each in (journal.usual_bytes, journal.present_bytes))
    device = quote(fs.device)
    verify = f"dumpe2fs -h {device} 2>/dev/null | awk '{SIZE_IN_MIB} END {{ exit !(n >= {new}) }}'"
    room = room_bytes(fs)
    enough = isinstance(room, Known) and room.value >= FREE_SHARE * new * MIB
    # What dumpe2fs calls the size holds the area of fast commits too, whose own is not known.
    exact = "fast_commit" not in need(fs.superblock).features
    undo = (_replace(device, old, new),) if exact else ()
    work = checked(fs), _replace(device, new, old)
    steps = unmounted_steps(fs, work, (verify,), undo) if enough else ()
    where = "" if steps else f", {_why_not(fs, room, new)}"
    return Remedy(
        f"{summary}: a journal of {new} MiB{where}.",
        Disruption.UNMOUNT,
        steps,
        trade_off=f"It takes {new - old} MiB more of the filesystem; the kernel replays up to so "
        "much after a crash.",
    )


def room_bytes(fs: Filesystem) -> Evidence[int]:
    """Return what is free: of the mounted filesystem, else what its superblock says."""
    if fs.alive:
        return derive("space in use", lambda usage: usage.free_blocks * usage.block_bytes, fs.usage)
    return stated(fs, "free blocks", _free_bytes)


def _free_bytes(superblock: Superblock) -> int | None:
    if superblock.free_blocks is None or superblock.block_bytes is None:
        return None
    return superblock.free_blocks * superblock.block_bytes


def _replace(device: str | None, new: int, old: int) -> str:
    make = f"{{ tune2fs -J size={new} {device} || tune2fs -J size={old} {device}; }}"
    return f"tune2fs -O ^has_journal {device} && {make}"


def _why_not(fs: Filesystem, room: Evidence[int], new: int) -> str:
    if value_or(room, 0) >= FREE_SHARE * new * MIB:
        return why_by_hand(fs)
    return f"once {FREE_SHARE * new} MiB are free: tune2fs wants twice its size"

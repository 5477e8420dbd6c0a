"""Simulation of a planned filesystem by running mke2fs on a sparse file in memory."""

from typing import NamedTuple

from ext4audit.assemble import all_known, ask
from ext4audit.evidence import Evidence, Unknown, Why, derive, for_wording
from ext4audit.facts.layout import Basis
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.superblock import GroupTable, Superblock, sizes_of
from ext4audit.layout import SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET_BYTES, descriptor_extents
from ext4audit.layout.groups import is_exact, predict_table
from ext4audit.layout.mkfs_parameters import DESCRIPTOR_BYTES
from ext4audit.parsers.dumpe2fs import parse_group_descriptors
from ext4audit.parsers.mke2fs import DryRun
from ext4audit.parsers.superblock import parse_raw_superblock
from ext4audit.sources import ReadBytes, RunCommand, Source, VirtualMemory


class Prediction(NamedTuple):
    """The superblock and group table that mke2fs will make; with `doubts` they are only likely.

    `assumed` has sentences for the user. If mke2fs rejects the plan, the superblock is
    Unknown(FAILED) with the message of mke2fs.
    """

    superblock: Evidence[Superblock]
    table: Evidence[GroupTable]
    basis: Basis
    doubts: tuple[Unknown, ...]
    assumed: tuple[str, ...]


ORIGIN = "made by mke2fs in memory"
MOST_BYTES = 300 << 20
"""The memory limit of a simulation, unless a quarter of the available memory is less."""
BESIDE_BYTES = 16 << 20
"""Memory for the ends of the journal, the root directory and the first bitmaps."""
FAST_OPTIONS = ("lazy_itable_init=1", "nodiscard")
"""Extended options that speed up the simulation without moving metadata."""


def run_mke2fs(
    source: Source, plan: Plan, mkfs: MkfsArguments, *flags: str, size_bytes: int | None = None
) -> Evidence[str]:
    """Run mke2fs on the planned device, or on its first `size_bytes`."""
    size = () if size_bytes is None else (f"{size_bytes >> 10}k",)
    options = mkfs.without_value("-t").with_extended(*FAST_OPTIONS).arguments()
    argv = ("mke2fs", *flags, "-F", "-t", plan.fstype, *options, plan.device, *size)
    return source.fetch(RunCommand(argv))


def simulated(source: Source, plan: Plan, mkfs: MkfsArguments, dry: DryRun) -> Prediction | None:
    """Return the result of mke2fs, None if this machine lacks the memory or the run is stopped."""
    if _predicted_bytes(dry) > _spare_bytes(source):
        return None
    done = run_mke2fs(source, plan, mkfs, "-q")
    if isinstance(done, Unknown) and done.why in {Why.UNSUPPORTED, Why.TIMED_OUT}:
        return None
    superblock = made_superblock(source, plan.device, done, ORIGIN)
    table = _table(source, plan.device, superblock)
    return Prediction(superblock, table, "simulated", (), ())


def _predicted_bytes(dry: DryRun) -> int:
    """Return the memory for a simulation: each group with a backup has a copy of all descriptors.

    The source stops a simulation that needs more than its limit.
    """
    return dry.groups * DESCRIPTOR_BYTES * (1 + dry.backups) + BESIDE_BYTES


def _spare_bytes(source: Source) -> int:
    def quarter(text: str) -> int:
        return min(int(text.split("\n")[1]) // 4, MOST_BYTES)

    return for_wording(ask(source, VirtualMemory(), quarter, "memory"), 0)


def made_superblock(
    source: Source, device: str, done: Evidence[str], origin: str
) -> Evidence[Superblock]:
    """Read the superblock that mke2fs made, or return the error of mke2fs."""
    if isinstance(done, Unknown):
        return done
    raw = source.fetch(ReadBytes(device, SUPERBLOCK_OFFSET_BYTES, SUPERBLOCK_BYTES))
    return derive("planned superblock", parse_raw_superblock, raw, origin=origin)


def is_foreseen(source: Source, plan: Plan, mkfs: MkfsArguments, size_bytes: int) -> Evidence[bool]:
    """Return whether a small filesystem made by mke2fs agrees with the closed form.

    mke2fs.conf(5) can set `packed_meta_blocks` or `options` of -E, which no argument shows. Flex
    groups of two show on few groups what a single larger flex group would hide.
    """
    done = run_mke2fs(source, plan, mkfs.with_value("-G", "2"), "-q", size_bytes=size_bytes)
    superblock = made_superblock(source, plan.device, done, ORIGIN)
    table = _table(source, plan.device, superblock)
    return derive("places of the metadata", _agrees, table, superblock)


def _agrees(table: GroupTable, superblock: Superblock) -> bool:
    sizes = sizes_of(superblock)
    columns = zip(table, predict_table(sizes), strict=True)
    is_same = all(list(one) == list(other) for one, other in columns)
    return is_same or not is_exact(sizes)


def _table(source: Source, device: str, superblock: Evidence[Superblock]) -> Evidence[GroupTable]:
    """Read the group descriptors that mke2fs made."""
    if isinstance(superblock, Unknown):
        return superblock
    sizes = sizes_of(superblock.value)
    extents = descriptor_extents(sizes)
    parts = all_known((source.fetch(ReadBytes(device, *extent)) for extent in extents), ORIGIN)
    return derive(
        "planned block groups",
        lambda found: parse_group_descriptors(b"".join(found), sizes.descriptor_bytes),
        parts,
    )

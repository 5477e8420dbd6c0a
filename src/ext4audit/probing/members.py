"""The probe for LAY001: how small-file churn is spread over member devices, and the prediction."""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ext4audit.evidence import Unknown
from ext4audit.facts.host import Filesystem
from ext4audit.facts.layout import EVEN, MetadataLayout, Spread
from ext4audit.facts.measurement import Figure, Measurement, MemberFigures
from ext4audit.probing.bench import Bench, BudgetExceeded, Judged, affected, healthy, inconclusive
from ext4audit.probing.counters import BlockStat, differences, read_stats

EVEN_FROM = 0.75
"""The lowest Jain's index of the members' writes that is healthy, the threshold of LAY001."""
FEWEST_WRITES_EACH = 20
"""The lowest mean number of write requests per member; with fewer, chance decides."""
MOST_DIRECTORIES = 600
FILES_PER_DIRECTORY = 16
DIRECTORIES_PER_ROUND = 40
DIRECTORY_BYTES, INODE_BYTES = 4096, 256
IDLE_SECONDS = 1.0
FOREIGN_PART = 0.2
HEALTHY = f"the members' write requests have Jain's index {EVEN_FROM} or more: 1 is even"
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS on 64-bit machines (include/uapi/linux/fs.h): their numbers
are of a long, but the kernel copies an int."""
TOP_DIRECTORY = 0x00020000
"""FS_TOPDIR_FL: directories below it are spread over the block groups (chattr(1), T)."""


class NothingToMeasure(Exception):  # noqa: N818 - an outcome, not a failure
    """The probe does not apply to this filesystem; the message is the reason."""


class Churn(NamedTuple):
    """What the members completed during the churn, and the expected writes of other programs."""

    members: tuple[MemberFigures, ...]
    foreign_writes: float

    @property
    def spread(self) -> Spread:
        """The write requests of the members."""
        return Spread(tuple(member.writes for member in self.members))


def layout_of(fs: Filesystem) -> MetadataLayout:
    """Return the layout on the members; raises NothingToMeasure without several known members."""
    if fs.layout is None:
        raise NothingToMeasure("no stripe lies below the filesystem")
    if isinstance(fs.layout, Unknown):
        hint = f" ({fs.layout.hint})" if fs.layout.hint else ""
        raise NothingToMeasure(f"{fs.layout.what}: {fs.layout.detail}{hint}")
    if len(fs.layout.value.members) == 1:
        raise NothingToMeasure("a single device lies below the filesystem")
    return fs.layout.value


def measure(bench: Bench) -> Measurement:
    """Create small files all over the filesystem, and count the members' writes.

    Raises NothingToMeasure and OSError.
    """
    layout = layout_of(bench.fs)
    names = [member.name for member in layout.members]
    idle = read_stats(names)
    idle_seconds = bench.budget.pause(IDLE_SECONDS)
    before = read_stats(names)
    started = bench.budget.seconds
    directories = _churn(bench)
    seconds = bench.budget.seconds - started
    counted = differences(before, read_stats(names))
    others = sum(stat.writes for stat in differences(idle, before).values())
    churn = Churn(member_figures(layout, counted), others * seconds / idle_seconds)
    verdict, why = judge(churn, layout.evenness)
    figures = (
        Figure("directories", directories),
        Figure("files", directories * FILES_PER_DIRECTORY),
        *figures_of(churn, layout),
    )
    return Measurement("members", "LAY001", verdict, why, HEALTHY, figures, churn.members)


def figures_of(churn: Churn, layout: MetadataLayout) -> tuple[Figure, ...]:
    """Return the measured spread over all members next to the predicted one."""
    return (
        Figure("evenness", churn.spread.evenness),
        Figure("predicted_evenness_of_bitmaps", layout.evenness),
        Figure("busiest_share", churn.spread.hottest_share),
        Figure("predicted_busiest_share", layout.churn.hottest_share),
        Figure("foreign_writes", churn.foreign_writes),
    )


def member_figures(
    layout: MetadataLayout, counted: Mapping[str, BlockStat]
) -> tuple[MemberFigures, ...]:
    """Return the I/O of each member in slot order, with its measured and predicted share."""
    total = sum(stat.writes for stat in counted.values())
    churn = sum(layout.churn.loads)
    return tuple(
        stat.figures(member.name)._replace(
            share=stat.writes / total if total else None,
            predicted_share=load / churn if churn else None,
        )
        for member, load in zip(layout.members, layout.churn.loads, strict=True)
        if (stat := counted.get(member.name)) is not None
    )


def judge(churn: Churn, predicted: float) -> Judged:
    """Judge the writes of the members; `predicted` is Jain's index of the bitmaps."""
    total = sum(churn.spread.loads)
    if len(churn.members) < 2 or total < FEWEST_WRITES_EACH * len(churn.members):  # noqa: PLR2004
        return inconclusive(f"{total} write requests are too few for {len(churn.members)} members")
    if churn.foreign_writes > FOREIGN_PART * total:
        return inconclusive("other programs write to the same members")
    evenness = churn.spread.evenness
    busiest = f"the busiest member got {churn.spread.hottest_share:.0%} of the writes"
    measured = f"{busiest}, {1 / len(churn.members):.0%} would be even (evenness {evenness:.2f})"
    if evenness >= EVEN_FROM:
        return healthy(measured)
    if predicted >= EVEN:
        return inconclusive(f"{measured}, although the bitmaps are distributed evenly")
    return affected(measured)


def _churn(bench: Bench) -> int:
    """Create directories of empty files in rounds; return the number of directories."""
    space = bench.workspace
    os.mkdir("churn", 0o700, dir_fd=space.descriptor)
    top = space.reopen("churn", os.O_RDONLY | os.O_DIRECTORY)
    most = min(MOST_DIRECTORIES, bench.budget.limits.inodes // (FILES_PER_DIRECTORY + 1))
    made = 0
    try:
        _spread_below(top)
        with contextlib.suppress(BudgetExceeded):
            while made < most and bench.budget.seconds_left() > 0:
                made += _round(bench, top, range(made, min(most, made + DIRECTORIES_PER_ROUND)))
                sync_filesystem(top)
                bench.tell(made / most)
    finally:
        os.close(top)
    return made


def _round(bench: Bench, top: int, numbers: Sequence[int]) -> int:
    for number in numbers:
        bench.budget.spend(DIRECTORY_BYTES + FILES_PER_DIRECTORY * INODE_BYTES)
        os.mkdir(str(number), 0o700, dir_fd=top)
        for file in range(FILES_PER_DIRECTORY):
            os.mknod(f"{number}/{file}", 0o600, dir_fd=top)
    return len(numbers)


def _spread_below(directory: int) -> None:
    """Spread the subdirectories over all groups; by default they stay near their parent."""
    flags = array.array("i", [0])
    fcntl.ioctl(directory, GET_FLAGS, flags)
    flags[0] |= TOP_DIRECTORY
    fcntl.ioctl(directory, SET_FLAGS, flags)


def sync_filesystem(descriptor: int) -> None:
    """Write all dirty data of the filesystem of an open file (syncfs(2)); raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(descriptor):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

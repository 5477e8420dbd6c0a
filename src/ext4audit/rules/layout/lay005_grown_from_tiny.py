"""LAY005: A filesystem was created tiny and then grown: it keeps small blocks and many inodes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit.evidence import Evidence, Known, Undetermined, Unknown, derive, for_wording, need
from ext4audit.facts import GIB
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field
from ext4audit.rules.shared.quantities import cite_journal, device_bytes, journal_of, size

SMALL_BLOCK_BYTES = 1024
SMALL_BLOCKS_ABOVE = 16 * GIB
DENSE_BYTES_PER_INODE = 8 << 10
DENSE_ABOVE = 64 * GIB
HUGE = 1024 * GIB
CLUES_NEEDED = 2


class Shape(NamedTuple):
    """The block size, the total size and the number of inodes of a filesystem."""

    block_bytes: int
    size_bytes: int
    inodes: int

    @property
    def small_blocks(self) -> bool:
        """Whether a large filesystem has the block size that mke2fs uses below 512 MiB."""
        return self.block_bytes == SMALL_BLOCK_BYTES and self.size_bytes > SMALL_BLOCKS_ABOVE

    @property
    def dense_inodes(self) -> bool:
        """Whether a large filesystem has at least twice as many inodes as by default."""
        dense = self.size_bytes <= DENSE_BYTES_PER_INODE * self.inodes
        return dense and self.size_bytes > DENSE_ABOVE


@rule(
    "LAY005",
    "grown-from-tiny",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://github.com/tytso/e2fsprogs/issues/98",
        "https://github.com/democratic-csi/democratic-csi/issues/238",
        "https://man7.org/linux/man-pages/man5/mke2fs.conf.5.html",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Parameters that mke2fs chooses by size and that growing does not change. Two of these three
    must apply: 1 KiB blocks on more than 16 GiB; an inode per 8 KiB or less on more than 64 GiB;
    a journal that is undersized (PRF009). Severity is medium, and high for 1 KiB blocks on more
    than 1 TiB.

    ## Why it matters

    Below 512 MiB, mke2fs chooses 1 KiB blocks and an inode per 4 KiB. Grown from 400 MB to 200 GB,
    such a filesystem has 52 million inodes, whose tables take 12.5 GiB, groups of 8 MiB instead of
    128 MiB, a journal of 8 MiB, and a maximum size of 4 TiB without the feature `64bit`. Large
    files have many more extents, a check takes longer, and a directory holds far fewer entries.
    ext4 is designed to grow by a factor of ten or twenty, not by a thousand.

    ## Remedy

    The block size and the number of inodes are fixed: back up, recreate, restore. Only the journal
    can be replaced in place. For images that grow at the first boot, pass mke2fs the parameters of
    the final size: `-T default -b 4096` and `-J size=`.

    ## When to ignore

    Ignore it if the small blocks or the many inodes are intended. Many inodes alone, as for a mail
    spool, are not reported.
    """
    device = device_bytes(fs)
    if isinstance(device, Known) and device.value <= SMALL_BLOCKS_ABOVE:
        raise NotApplicable(f"its device has only {size(device.value)}")
    shape, small_journal = _shape(fs), _small_journal(fs)
    clues = (
        derive("size of blocks", lambda known: known.small_blocks, shape),
        derive("number of inodes", lambda known: known.dense_inodes, shape),
        small_journal,
    )
    true = sum(isinstance(clue, Known) and clue.value for clue in clues)
    unknowns = tuple(dict.fromkeys(clue for clue in clues if isinstance(clue, Unknown)))
    if true < CLUES_NEEDED <= true + len([c for c in clues if isinstance(c, Unknown)]):
        raise Undetermined(unknowns)
    citations = _citations(fs, shape)
    if true < CLUES_NEEDED:
        need(device)
        yield from citations
    else:
        yield _finding(fs, shape, citations, clues)


def _shape(fs: Filesystem) -> Evidence[Shape]:
    """Return the shape from statfs, which needs no root, else from the superblock."""
    if isinstance(fs.usage, Known):
        usage = fs.usage.value
        size_bytes = usage.size_blocks * usage.block_bytes
        return Known(Shape(usage.block_bytes, size_bytes, usage.inodes), fs.usage.origin)
    return superblock_field(fs, "size of a block", _superblock_shape)


def _superblock_shape(superblock: Superblock) -> Shape | None:
    block_bytes, inodes = superblock.block_bytes, superblock.inode_count
    if block_bytes is None or inodes is None:
        return None
    return Shape(block_bytes, superblock.size_blocks * block_bytes, inodes)


def _small_journal(fs: Filesystem) -> Evidence[bool]:
    superblock = fs.superblock
    if isinstance(superblock, Known) and (
        not superblock.value.has_journal or superblock.value.external_journal
    ):
        return Known(value=False, origin=superblock.origin)
    return derive("size of the journal", lambda journal: journal.undersized, journal_of(fs))


def _citations(fs: Filesystem, shape: Evidence[Shape]) -> tuple[Citation, ...]:
    journal = journal_of(fs)
    found = for_wording(journal, None)
    cited = cite_journal(fs, found) if found else ()
    if isinstance(shape, Unknown):
        return cited
    return (
        Citation("block size", f"{shape.value.block_bytes} bytes", shape.origin),
        Citation("inodes", _density(fs, shape.value), shape.origin),
        *cited,
    )


def _density(fs: Filesystem, shape: Shape) -> str:
    if not shape.inodes:
        return "none"
    each = f"{shape.inodes}, one per {shape.size_bytes // shape.inodes} bytes"
    superblock = for_wording(fs.superblock, None)
    if superblock is None or superblock.inode_bytes is None:
        return each
    return f"{each}; their tables take {size(shape.inodes * superblock.inode_bytes)}"


def _finding(
    fs: Filesystem,
    shape: Evidence[Shape],
    citations: tuple[Citation, ...],
    clues: Sequence[Evidence[bool]],
) -> Finding:
    names = ("1 KiB blocks", "an inode per 8 KiB or less", "a small journal")
    found = [
        name
        for name, clue in zip(names, clues, strict=True)
        if isinstance(clue, Known) and clue.value
    ]
    known = for_wording(shape, None)
    huge = known is not None and known.small_blocks and known.size_bytes > HUGE
    exact = superblock_field(fs, "size", _superblock_shape)
    large = for_wording(exact, known)
    much = size(large.size_bytes) if large else "a large filesystem"
    return Finding(
        message=f"The filesystem was probably created tiny and then grown: {', '.join(found)} on "
        f"{much} waste space and slow it down.",
        severity=Severity.HIGH if huge else Severity.MEDIUM,
        confidence=Confidence.LIKELY,
        citations=citations,
        remedies=tuple(_remedies(fs)),
        summary="created tiny and then grown: small blocks, many inodes or a small journal",
    )


def _remedies(fs: Filesystem) -> Iterator[Remedy]:
    yield Remedy(
        "Back up, recreate with mkfs.ext4 -T default -b 4096 at the current size, and restore: "
        f"mkfs DESTROYS all data on {fs.device}.",
        Disruption.RECREATE,
        destructive=True,
    )
    journal = _small_journal(fs)
    if isinstance(journal, Known) and journal.value:
        yield Remedy("Until then, replace the journal (see PRF009).", Disruption.UNMOUNT)

"""CAP004: A directory index may be full: creating a file fails although space is free."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, need, origin_of
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule

ENTRY_BYTES = 8
"""The size of an index entry, and of the tail with the checksum of an index block."""
ROOT_HEAD_BYTES, NODE_HEAD_BYTES = 32, 8
"""The bytes before the entries: ".", ".." and the index header, or an empty entry in a node."""
LONGEST_NAME_BYTES = 264
"""The size of a directory entry with a name of 255 characters."""
USUAL_NAME_BYTES = 28
"""The size of a directory entry with a name of 20 characters."""
FILLED = 3 / 4
"""The average fill level of blocks that are split in half when they are full."""


def leaves(block_bytes: int) -> int:
    """Return how many leaf blocks, which hold the names, one directory can have."""
    root = (block_bytes - ROOT_HEAD_BYTES - ENTRY_BYTES) // ENTRY_BYTES
    node = (block_bytes - NODE_HEAD_BYTES - ENTRY_BYTES) // ENTRY_BYTES
    return root * node


def usual_names(block_bytes: int) -> int:
    """Return how many names of 20 characters fill a directory, with blocks of average fill."""
    return leaves(block_bytes) * int(block_bytes * FILLED / USUAL_NAME_BYTES)


def least_names(block_bytes: int) -> int:
    """Return the fewest names that can fill a directory: the longest, in half-full blocks."""
    return leaves(block_bytes) * max(1, block_bytes // 2 // LONGEST_NAME_BYTES)


SMALL_BLOCK_BYTES = 1024
LARGE_DIR_SINCE = (4, 13)
READ_BY_LOADER = ("/", "/boot", "/boot/efi")


@rule(
    "CAP004",
    "htree-ceiling",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://github.com/minio/minio/issues/3857",
        "https://github.com/NixOS/nix/issues/1522",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the index of a directory may be full. Without the feature `large_dir`, an index has two
    levels. Severity is medium if the kernel has logged warnings since the mount (which can have
    other causes) and the filesystem has enough files to fill one directory. It is info if the
    filesystem has blocks of 1 KiB and more inodes than one directory can hold (some hundred
    thousand names).

    ## Why it matters

    Creating a file in a full directory fails with "No space left on device", at about ten million
    names with 4 KiB blocks, and earlier with long names. Deleting files hardly helps, because an
    index does not shrink.

    ## Remedy

    Search the kernel log for "index full", and distribute the files over subdirectories. The
    feature `large_dir` adds a level. Linux before 4.13 cannot mount a filesystem with it, and
    tune2fs cannot remove it.

    ## When to ignore

    Ignore it if no program creates that many files in one directory.
    """
    refuse_unmounted(fs)
    usage = need(fs.usage)
    used = usage.inodes - usage.free_inodes
    crowded = used >= least_names(usage.block_bytes)
    small = usage.block_bytes == SMALL_BLOCK_BYTES
    narrow = small and usage.inodes > usual_names(usage.block_bytes)
    warnings = _warnings(fs) if crowded else 0
    if not warnings and not narrow:
        yield _cite(fs, usage)
        return
    superblock = need(fs.superblock)
    if "dir_index" not in superblock.features:
        raise NotApplicable("directories have no index (dir_index)")
    if "large_dir" in superblock.features:
        yield Citation("features", "large_dir", origin_of(fs.superblock))
    elif warnings:
        yield _warned(fs, host, usage, warnings)
    else:
        yield _narrow(fs, host, usage)


def _warnings(fs: Filesystem) -> int:
    """Return how many warnings the kernel logged since the mount, 0 if it does not count them."""
    counted = need(fs.errors).warnings
    return 0 if counted is None else need(counted)


def _cite(fs: Filesystem, usage: Usage) -> Citation:
    used = usage.inodes - usage.free_inodes
    value = f"{used:,} of {usage.inodes:,}, blocks of {usage.block_bytes} bytes"
    return Citation("inodes in use", value, origin_of(fs.usage))


def _warned(fs: Filesystem, host: Host, usage: Usage, warnings: int) -> Finding:
    times = "once" if warnings == 1 else f"{warnings:,} times"
    used = usage.inodes - usage.free_inodes
    return Finding(
        message=f"The kernel logged a warning {times} since the mount, and one directory may hold "
        f"so many of the {used:,} files that its index is full: no file can be created in it.",
        severity=Severity.MEDIUM,
        confidence=Confidence.POSSIBLE,
        citations=(Citation("warnings", str(warnings), origin_of(fs.errors)), _cite(fs, usage)),
        remedies=tuple(_remedies(fs, host)),
        summary="the kernel logged warnings, and a directory index may be full",
    )


def _narrow(fs: Filesystem, host: Host, usage: Usage) -> Finding:
    return Finding(
        message=f"With {usage.block_bytes}-byte blocks, one directory holds about "
        f"{usual_names(usage.block_bytes) // 1000 * 1000:,} names of 20 characters "
        f"({leaves(usage.block_bytes):,} blocks), fewer than the {usage.inodes:,} inodes of the "
        "filesystem.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=(_cite(fs, usage),),
        remedies=tuple(_remedies(fs, host)),
        summary="small blocks limit the number of files in one directory",
    )


def _remedies(fs: Filesystem, host: Host) -> Iterator[Remedy]:
    yield Remedy(
        "Check whether a directory is full (dmesg | grep -i 'index full'), and distribute its "
        "files over subdirectories, for example by the first characters of a hash.",
        Disruption.ONLINE,
    )
    if isinstance(host.kernel, Known) and host.kernel.value.since(*LARGE_DIR_SINCE):
        yield _large_dir(fs)


def _large_dir(fs: Filesystem) -> Remedy:
    """Return how to add the third level, without steps if a boot loader may read the filesystem."""
    booted = any(point in READ_BY_LOADER for point in fs.mount_points)
    steps = () if booted else remedies.features.enable_large_dir(fs)
    where = "" if booted else remedies.remount.by_hand(fs, steps)
    return Remedy(
        f"Allow a third index level (tune2fs -O large_dir){where}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="tune2fs cannot remove large_dir. Linux before 4.13 cannot mount the filesystem, "
        "not even read-only, and GRUB before 2.12 cannot read it: do not use it for /boot.",
    )

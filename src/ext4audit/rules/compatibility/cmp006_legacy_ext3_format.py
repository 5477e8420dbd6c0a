"""CMP006: The filesystem has the ext3 format: no extents, so large files are slow."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, for_wording, need
from ext4audit.facts import GIB
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabLine
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import cite_features, cite_fstab, milder_while_read_only
from ext4audit.rules.shared.quantities import device_bytes, size

OLD_TYPES = frozenset({"ext2", "ext3"})
WANTED = "extent", "uninit_bg", "dir_index"
"""Features that convert ext3 to ext4 (Documentation/admin-guide/ext4.rst)."""


@rule(
    "CMP006",
    "legacy-ext3-format",
    severity=Severity.LOW,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://github.com/canonical/dqlite/issues/653",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    Filesystems of more than 1 GiB that are mounted as ext3 or ext2, which the ext4 driver
    serves, or that lack the feature extent. Severity is low, and info on a read-only mount. /boot
    is excluded, because boot loaders read it.

    ## Why it matters

    Without extents the block map of a file has one entry for each block. Deleting and truncating
    large files reads and writes the whole map. fallocate(2) fails, and posix_fallocate(3) writes to
    every block instead: dqlite took 12 s for 8 MB on ext3. Filesystems that are mounted as ext3 or
    ext2 do not use delayed allocation either.

    ## Remedy

    Preferably create a new filesystem, which also has larger inodes and checksums, and copy the
    files. In place: mount it as ext4, set the features, and check it.

    ## When to ignore

    Ignore it if an old system or a boot loader must read the disk, or if all files are small.
    """
    if fs.alive and (fstype := need(fs.fstype)) in OLD_TYPES:
        seen = Citation("mounted as", fstype, MOUNT_TABLE)
        sentence = f"It is mounted as {fstype}, without extents and delayed allocation"
    else:
        has_extents = "extent" in need(fs.superblock).features
        (seen,) = cite_features(fs)
        if has_extents:
            yield seen
            return
        sentence = "It has no extents"
    if "/boot" in fs.mount_points:
        raise NotApplicable("it is /boot, which boot loaders read")
    total = need(device_bytes(fs))
    if total <= GIB:
        raise NotApplicable(f"it is small: {size(total)}")
    yield _finding(fs, seen, sentence, total)


def _finding(fs: Filesystem, seen: Citation, sentence: str, total: int) -> Finding:
    old = [cite_fstab(each, each.fstype, "fstab {}, type") for each in _old_lines(fs)]
    message = (
        f"{sentence}: deleting, truncating and allocating large files is slow on this filesystem "
        f"of {size(total)}"
    )
    severity, message = milder_while_read_only(fs, Severity.LOW, message)
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(seen, *old),
        remedies=(
            Remedy(
                "Create a new ext4 filesystem and copy the files: only a new one has larger "
                "inodes, checksums and flexible groups.",
                Disruption.RECREATE,
            ),
            _in_place(fs),
        ),
        summary="ext3 format without extents: large files are slow",
    )


def _old_lines(fs: Filesystem) -> tuple[FstabLine, ...]:
    lines = (entry.line for entry in for_wording(fs.fstab, ()))
    return tuple(line for line in lines if line.fstype in OLD_TYPES)


def _in_place(fs: Filesystem) -> Remedy:
    steps = remedies.features.convert_to_ext4(fs, _old_lines(fs), _missing(fs))
    return Remedy(
        "In place, after a backup: mount it as ext4 and set the features"
        f"{remedies.remount.by_hand(fs, steps)}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="This cannot be undone: tune2fs cannot remove extents, and ext3 can no longer "
        "mount it. Existing files keep their block maps until they are rewritten.",
    )


def _missing(fs: Filesystem) -> tuple[str, ...]:
    """Return the features to set; metadata_csum replaces uninit_bg."""
    superblock = for_wording(fs.superblock, None)
    there = superblock.features if superblock else frozenset()
    needless = {"uninit_bg"} if "metadata_csum" in there else frozenset[str]()
    return tuple(name for name in WANTED if name == "extent" or name not in there | needless)

"""CMP006: The filesystem has the format of ext3: no extents, and slow work on large files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ext4audit.evidence import Known, need, value_or
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import FstabLine
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.remedies.fstab import edit_type
from ext4audit.remedies.offline import checked, unmounted_steps, why_by_hand
from ext4audit.remedies.shell import quote
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import GIB, device_bytes, size

OLD_TYPES = frozenset({"ext2", "ext3"})
BOOT = "/boot"
WANTED = "extent", "uninit_bg", "dir_index"
"""What makes ext4 of ext3 (Documentation/admin-guide/ext4.rst); all else needs a new mke2fs."""


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
    serves, or that lack the feature extent. /boot is left out: boot loaders read it.

    ## Why it matters

    Without extents each block of a file has an entry of its own in its map. Deleting and truncating
    large files reads and writes all of the map. fallocate(2) is refused, and the C library then
    writes zeros instead: dqlite took 12 s for 8 MB on ext3. Mounted as ext3 or ext2 there is no
    delayed allocation either.

    ## Remedy

    Best a new filesystem, and the files copied: it has larger inodes and checksums, too. In
    place: mount it as ext4, set the features, check it.

    ## When to ignore

    Where an old system or a boot loader must read the disk, and where all files are small.
    """
    if fs.alive and (fstype := need(fs.fstype)) in OLD_TYPES:
        seen = Citation("mounted as", fstype, "/proc/self/mountinfo")
        sentence = f"It is mounted as {fstype}: it has neither extents nor delayed allocation"
    else:
        superblock = need(fs.superblock)
        origin = fs.superblock.origin if isinstance(fs.superblock, Known) else ""
        seen = Citation("features", " ".join(sorted(superblock.features)), origin)
        if "extent" in superblock.features:
            yield seen
            return
        sentence = "It has no extents: each block of a file has an entry of its own in its map"
    _refuse(fs)
    yield _finding(fs, seen, sentence)


def _refuse(fs: Filesystem) -> None:
    if BOOT in fs.mount_points:
        raise NotApplicable("it is /boot, which boot loaders read")
    total = need(device_bytes(fs))
    if total <= GIB:
        raise NotApplicable(f"it is small: {size(total)}")


def _finding(fs: Filesystem, seen: Citation, sentence: str) -> Finding:
    total = need(device_bytes(fs))
    return Finding(
        message=f"{sentence}, so that deleting, truncating and allocating large files on these "
        f"{size(total)} takes long.",
        severity=Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(seen, *_cite_fstab(fs)),
        remedies=(
            Remedy(
                "Make a new ext4 filesystem, and copy the files: only a new one has larger inodes, "
                "checksums and flexible groups.",
                Disruption.RECREATE,
            ),
            _in_place(fs),
        ),
    )


def _cite_fstab(fs: Filesystem) -> Iterator[Citation]:
    for line in _old_lines(fs):
        yield Citation(f"fstab line {line.line_number}, type", line.fstype, "/etc/fstab")


def _old_lines(fs: Filesystem) -> tuple[FstabLine, ...]:
    lines = (entry.line for entry in value_or(fs.fstab, ()))
    return tuple(line for line in lines if line.fstype in OLD_TYPES)


def _in_place(fs: Filesystem) -> Remedy:
    steps = _steps(fs)
    return Remedy(
        "In place, after a backup: mount it as ext4 from now on, and set the features"
        f"{'' if steps else f', {why_by_hand(fs)}'}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="There is no way back: tune2fs cannot take extents away, and ext3 can no longer "
        "mount it. Files that exist keep their maps until they are written anew.",
    )


def _steps(fs: Filesystem) -> tuple[Step, ...]:
    """Return the commands; fstab first, because the mount at the end reads it."""
    edits = [edit_type(line, "ext4") for line in _old_lines(fs)]
    features = f"tune2fs -O {','.join(_missing(fs))} {quote(fs.device)}"
    steps = unmounted_steps(_as_ext4(fs), (f"{features} && {checked(fs)}",), tuple(_verify(fs)))
    if not steps or any(edit is None for edit in edits):
        return ()
    commands = [command for edit in edits if edit for command in edit.apply]
    return (*(Step(Phase.PERSISTENT, command) for command in commands), *steps)


def _verify(fs: Filesystem) -> Iterator[str]:
    yield f"tune2fs -l {quote(fs.device)} | grep '^Filesystem features:' | grep -qw extent"
    for mount in fs.mounts:
        yield f"findmnt -no FSTYPE -M {quote(mount.mount_point)} | grep -qx ext4"


def _missing(fs: Filesystem) -> tuple[str, ...]:
    """Return the features to set: uninit_bg gives way to metadata_csum, which does the same."""
    superblock = fs.superblock.value if isinstance(fs.superblock, Known) else None
    there = superblock.features if superblock else frozenset()
    needless = {"uninit_bg"} if "metadata_csum" in there else frozenset[str]()
    return tuple(word for word in WANTED if word == "extent" or word not in there | needless)


def _as_ext4(fs: Filesystem) -> Filesystem:
    """Return the filesystem with the mounts that it shall have."""
    return replace(fs, mounts=tuple(replace(mount, fstype="ext4") for mount in fs.mounts))

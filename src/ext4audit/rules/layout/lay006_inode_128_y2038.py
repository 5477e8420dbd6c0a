"""LAY006: 128-byte inodes cannot store times after 19 January 2038."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared import superblock_field

SMALL, USUAL = 128, 256
IN_PLACE = frozenset(
    (
        "64bit dir_index dir_nlink ea_inode encrypt ext_attr extent extra_isize fast_commit "
        "filetype has_journal huge_file large_dir large_file meta_bg needs_recovery orphan_file "
        "orphan_present quota resize_inode sparse_super sparse_super2 stable_inodes uninit_bg "
        "verity"
    ).split()
)
"""Features with which tune2fs 1.47.0 enlarged inodes without harming files or directories.

It refuses flex_bg. It damaged all filesystems with bigalloc or mmp, or of revision 0, whose inodes
stay small, and three of four with metadata_csum.
"""


@rule(
    "LAY006",
    "inode-128-y2038",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://docs.kernel.org/filesystems/ext4/inodes.html#inode-timestamps",
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://github.com/tytso/e2fsprogs/issues/54",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether inodes have 128 bytes. mke2fs before 1.46.4 created such inodes on filesystems smaller
    than 512 MiB, and old ext2 and ext3 filesystems usually have them. Severity is low for an
    existing filesystem, and high in a plan, where the remedy still costs nothing (low for /boot).
    An existing /boot is not checked: its files are replaced with every kernel.

    ## Why it matters

    A 128-byte inode stores times as 32-bit seconds since 1970, which end on 19 January 2038. It has
    no space for the creation time, for fractions of a second, or for small extended attributes,
    which then take a block each. Programs that compare times, such as make and rsync, treat files
    that were modified in the same second as equally old.

    ## Remedy

    Create the filesystem with `-I 256`. `tune2fs -I 256` enlarges inodes in place only without some
    features: it refuses `flex_bg`, and version 1.47.0 damaged every filesystem with `bigalloc`,
    `mmp` or the format of revision 0 in tests, and three of four with `metadata_csum`.

    ## When to ignore

    Ignore it if the filesystem will be replaced before 2038.
    """
    inode_bytes = need(superblock_field(fs, "size of an inode", lambda each: each.inode_bytes))
    superblock = need(fs.superblock)
    origin = "the plan" if host.planned else origin_of(fs.superblock)
    seen = Citation("inode size", f"{inode_bytes} bytes", origin)
    if inode_bytes > SMALL:
        yield seen
        return
    if inode_bytes < SMALL:
        raise NotApplicable(f"{inode_bytes} bytes is not a valid inode size")
    if _is_boot(fs) and not host.planned:
        raise NotApplicable("the files of /boot are replaced with every kernel")
    yield Finding(
        message="Inodes have 128 bytes: they cannot store times after 19 January 2038 or fractions "
        "of a second.",
        severity=Severity.HIGH if host.planned and not _is_boot(fs) else Severity.LOW,
        confidence=Confidence.CONFIRMED,
        citations=(seen,),
        remedies=(_remedy(fs, superblock),),
        summary="128-byte inodes cannot store times after 2038",
    )


def _is_boot(fs: Filesystem) -> bool:
    """Return whether the filesystem is mounted, and only at or below /boot."""
    points = fs.mount_points
    return bool(points) and all(p == "/boot" or p.startswith("/boot/") for p in points)


def _remedy(fs: Filesystem, superblock: Superblock) -> Remedy:
    if superblock.revision != 1 or superblock.features - IN_PLACE:
        return Remedy(
            "Back up, recreate with mkfs.ext4 -I 256, and restore: mkfs DESTROYS all data on "
            f"{fs.device}. Do not use tune2fs -I here.",
            Disruption.RECREATE,
            destructive=True,
        )
    steps = remedies.superblock_fields.set_inode_size(fs, USUAL)
    return Remedy(
        f"Make a backup and enlarge the inodes in place{remedies.remount.by_hand(fs, steps)}.",
        Disruption.UNMOUNT,
        steps,
        trade_off="It moves all inode tables, must not be interrupted, and cannot be undone. "
        f"The tables take {USUAL - SMALL} more bytes per inode.",
    )

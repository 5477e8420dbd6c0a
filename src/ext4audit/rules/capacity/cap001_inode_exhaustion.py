"""CAP001: Inodes run out before the space does, and no file can then be created."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import below
from ext4audit.rules.shared.quantities import has_room_to_grow, origin_of, percent, size

FULL = (99, Severity.CRITICAL), (95, Severity.HIGH), (85, Severity.MEDIUM)
"""Used inodes in percent, and how bad that is."""
SPARSE_BYTES = 65536
"""Bytes per inode above which many small files use the inodes up first; mke2fs's own types for
disks of any size (ext4, big, huge) give one for at most so many bytes."""
FRESH_INODES = 1000
"""A filesystem with fewer inodes in use can still be recreated at no cost."""
MANY_FILES = (
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/kubelet",
    "/var/lib/rancher",
    "/var/lib/lxc",
    "/var/lib/lxd",
    "/var/lib/incus",
    "/var/lib/jenkins",
    "/var/lib/gitlab-runner",
    "/var/mail",
    "/var/spool",
    "/var/vmail",
    "/home/vmail",
    "/nix",
)
"""Mount points of container images, mail, builds and packages: many files of a few KiB."""


@rule(
    "CAP001",
    "inode-exhaustion",
    severity=Severity.CRITICAL,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man8/mke2fs.8.html",
        "https://github.com/moby/moby/issues/10613",
        "https://github.com/kubernetes/kubernetes/issues/53887",
    ),
)
def check(fs: Filesystem, _host: Host) -> RuleOutput:
    """## What it checks

    How many of the inodes are in use: from 85 % on medium, from 95 % high, from 99 % critical.
    A filesystem that is still empty, and mounted where container images, mail, builds or
    packages are kept, is measured by its ratio: medium with more than 64 KiB for each inode.

    ## Why it matters

    Every file, directory and link needs an inode. Without a free one, creating a file fails with
    "No space left on device" while df shows space: containers do not start, mail is not
    delivered, and logs end. The number of inodes is fixed when the filesystem is made.

    ## Remedy

    Delete what makes them: old container layers, session files, caches. Growing the filesystem
    adds inodes with every block group. Otherwise it must be made anew, with `-i 8192` or `-N`.

    ## When to ignore

    Where the number of files is fixed. A filesystem that is mounted read-only is not judged:
    images are often made with exactly the inodes that they need.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    usage = need(fs.usage)
    if usage.inodes <= 0:
        raise NotApplicable("it has no fixed number of inodes")
    used = usage.inodes - usage.free_inodes
    severity = next((s for share, s in FULL if used * 100 >= share * usage.inodes), None)
    place = _place_of_many_files(fs) if used < FRESH_INODES else None
    if severity is None and (place is None or _bytes_per_inode(usage) <= SPARSE_BYTES):
        yield _cite(usage, fs)
        return
    if need(fs.read_only):
        raise NotApplicable("it is mounted read-only: no file is created on it")
    if severity is not None:
        yield _full(fs, usage, severity)
    else:
        yield _sparse(fs, usage, f"{place}")


def _place_of_many_files(fs: Filesystem) -> str | None:
    """Return a mount point that is known for many small files."""
    return next((place for place in fs.mount_points if below(place, MANY_FILES)), None)


def _bytes_per_inode(usage: Usage) -> int:
    return usage.size_blocks * usage.block_bytes // usage.inodes


def _cite(usage: Usage, fs: Filesystem) -> Citation:
    used = usage.inodes - usage.free_inodes
    value = f"{used:,} of {usage.inodes:,} in use ({percent(used, usage.inodes)})"
    return Citation("inodes", value, origin_of(fs.usage))


def _full(fs: Filesystem, usage: Usage, severity: Severity) -> Finding:
    used = usage.inodes - usage.free_inodes
    left = f"after {usage.free_inodes:,} more files" if usage.free_inodes else "now"
    free = size(usage.available_blocks * usage.block_bytes)
    return Finding(
        message=f"{percent(used, usage.inodes)} of the inodes are in use: {left} no file can be "
        f"created, with {free} of space free.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(_cite(usage, fs),),
        remedies=tuple(_remedies(fs, usage)),
    )


def _sparse(fs: Filesystem, usage: Usage, place: str) -> Finding:
    each = _bytes_per_inode(usage)
    return Finding(
        message=f"{usage.inodes:,} inodes, one for {each // 1024} KiB of space, are few for "
        f"{place}, where most files are smaller: they run out long before the space.",
        severity=Severity.MEDIUM,
        confidence=Confidence.LIKELY,
        citations=(_cite(usage, fs), Citation("mount point", place, "/proc/self/mountinfo")),
        remedies=(_recreate(usage, "while it is still empty"),),
    )


def _remedies(fs: Filesystem, usage: Usage) -> Iterator[Remedy]:
    yield remedies.superblock_fields.find_many_files(fs)
    first = (
        "Grow the filesystem, whose device has room, as CAP005 says"
        if has_room_to_grow(fs)
        else "Grow the volume and then the filesystem (resize2fs)"
    )
    yield Remedy(
        f"{first}: every block group that is added brings inodes of its own, in the ratio that "
        "it was made with.",
        Disruption.ONLINE,
    )
    yield _recreate(usage, "after a backup")


def _recreate(usage: Usage, when: str) -> Remedy:
    dense = max(4096, min(8192, _bytes_per_inode(usage) // 2))
    return Remedy(
        f"Make the filesystem anew {when}, with an inode for every {dense} bytes (mkfs.ext4 -i "
        f"{dense}) or with a number of your own (-N): they cannot be added in place.",
        Disruption.RECREATE,
        destructive=True,
        trade_off="Each inode takes 256 bytes of the disk, whether it is used or not.",
    )

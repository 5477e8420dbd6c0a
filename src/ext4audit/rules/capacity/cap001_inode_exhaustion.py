"""CAP001: Inodes run out before the space, and no more files can be created."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, need, origin_of
from ext4audit.facts.host import Filesystem, Host, Usage
from ext4audit.facts.mount import below
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared.quantities import has_room_to_grow, percent, size

FULL = (99, Severity.CRITICAL), (95, Severity.HIGH), (85, Severity.MEDIUM)
"""Thresholds of used inodes in percent, and their severities."""
SPARSE_BYTES = 65536
"""Bytes per inode above which many small files exhaust the inodes before the space. mke2fs's types
for disks of any size (ext4, big, huge) create one inode per at most this many bytes."""
FRESH_INODES = 1000
"""A filesystem with fewer used inodes counts as empty: recreating it costs nothing."""
MANY_FILES = frozenset(
    (
        "/var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/kubelet /var/lib/rancher "
        "/var/lib/lxc /var/lib/lxd /var/lib/incus /var/lib/jenkins /var/lib/gitlab-runner "
        "/var/mail /var/spool /var/vmail /home/vmail /nix"
    ).split()
)
"""Mount points for container images, mail, builds and packages: many files of a few KiB."""


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

    The share of inodes in use: severity is medium from 85 %, high from 95 %, critical from 99 %. A
    filesystem that is still empty and is mounted where container images, mail, builds or packages
    are kept is checked for its ratio instead: severity is medium if it has more than 64 KiB per
    inode.

    ## Why it matters

    Every file, directory and symbolic link needs an inode. Without a free inode, creating a file
    fails with "No space left on device" although df shows free space: containers do not start,
    mail is not delivered, and logging stops. The number of inodes is fixed when the filesystem is
    created.

    ## Remedy

    Delete unneeded small files: old container layers, session files, caches. Growing the
    filesystem adds inodes with every block group. Otherwise, recreate it with `-i 8192` or `-N`.

    ## When to ignore

    Ignore it if the number of files does not change. Filesystems that are mounted read-only are not
    checked: images often have exactly as many inodes as they need.
    """
    refuse_unmounted(fs)
    usage = need(fs.usage)
    if usage.inodes <= 0:
        raise NotApplicable("it has no fixed number of inodes")
    used = usage.inodes - usage.free_inodes
    severity = next((s for share, s in FULL if used * 100 >= share * usage.inodes), None)
    sparse = used < FRESH_INODES and _bytes_per_inode(usage) > SPARSE_BYTES
    place = _place_of_many_files(fs) if severity is None and sparse else None
    if severity is None and place is None:
        yield _cite(usage, fs)
        return
    if need(fs.read_only):
        raise NotApplicable("it is mounted read-only")
    if severity is not None:
        yield _full(fs, usage, severity)
    else:
        yield _sparse(fs, usage, f"{place}")


def _place_of_many_files(fs: Filesystem) -> str | None:
    """Return a mount point that is known to hold many small files, if any."""
    need(fs.mounted_here)
    return next((place for place in fs.mount_points if below(place, MANY_FILES)), None)


def _bytes_per_inode(usage: Usage) -> int:
    return usage.size_blocks * usage.block_bytes // usage.inodes


def _cite(usage: Usage, fs: Filesystem) -> Citation:
    used = usage.inodes - usage.free_inodes
    value = f"{used:,} of {usage.inodes:,} in use ({percent(used, usage.inodes)})"
    return Citation("inodes", value, origin_of(fs.usage))


def _full(fs: Filesystem, usage: Usage, severity: Severity) -> Finding:
    used = usage.inodes - usage.free_inodes
    left = f"only {usage.free_inodes:,} more files" if usage.free_inodes else "no more files"
    free = usage.available_blocks * usage.block_bytes
    beside = f", although {size(free)} of space are free" if free > 0 else ", and no space is free"
    return Finding(
        message=f"{percent(used, usage.inodes)} of the inodes are in use: {left} can be created"
        f"{beside}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(_cite(usage, fs),),
        remedies=tuple(_remedies(fs, usage)),
        summary="inodes are running out" if usage.free_inodes else "no free inodes",
    )


def _sparse(fs: Filesystem, usage: Usage, place: str) -> Finding:
    each = _bytes_per_inode(usage)
    return Finding(
        message=f"The filesystem has {usage.inodes:,} inodes, one per {each // 1024} KiB, but "
        f"most files in {place} are smaller: inodes will run out long before the space.",
        severity=Severity.MEDIUM,
        confidence=Confidence.LIKELY,
        citations=(_cite(usage, fs), Citation("mount point", place, MOUNT_TABLE)),
        remedies=(_recreate(usage, "while it is still empty"),),
        summary="too few inodes for many small files",
    )


def _remedies(fs: Filesystem, usage: Usage) -> Iterator[Remedy]:
    yield remedies.superblock_fields.find_many_files(fs)
    first = (
        "Grow the filesystem to the size of its device (see CAP005)"
        if has_room_to_grow(fs)
        else "Grow the volume and then the filesystem (resize2fs)"
    )
    yield Remedy(
        f"{first}: every added block group has the same number of inodes as the existing ones.",
        Disruption.ONLINE,
    )
    yield _recreate(usage, "after a backup")


def _recreate(usage: Usage, when: str) -> Remedy:
    dense = max(4096, min(8192, _bytes_per_inode(usage) // 2))
    return Remedy(
        f"Recreate the filesystem {when} with an inode per {dense} bytes (mkfs.ext4 -i {dense}) "
        "or with a chosen number (-N): inodes cannot be added in place.",
        Disruption.RECREATE,
        destructive=True,
        trade_off="Each inode takes 256 bytes of disk space, used or not.",
    )

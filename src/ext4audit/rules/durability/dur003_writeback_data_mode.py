"""DUR003: With data=writeback a crash can expose stale data of deleted files in new files."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import MOUNT_TABLE, Known, for_wording, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import below
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import cite_mount_points, cite_option, milder_while_read_only
from ext4audit.rules.shared.demands import (
    TENANTS,
    back_to_ordered,
    container_layers,
    data_mode,
    holds_tenants,
)

MESSAGE = (
    "data=writeback: after a crash, files that were being written can contain stale data of "
    "deleted files"
)


@rule(
    "DUR003",
    "writeback-data-mode",
    severity=Severity.HIGH,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://kafka.apache.org/documentation/#ext4",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `data=writeback` is in force on a filesystem with a journal. Severity is medium; it is
    high if several users or containers share the filesystem (/home, /var/lib/docker,
    /var/lib/kubelet and similar mount points, or overlays of running containers), because the stale
    data then belongs to others, and info on a read-only mount. Severity is low if delayed
    allocation and `dioread_nolock` are also in force, which is the default since Linux 5.6, and the
    filesystem has the feature `extent`: ext4 then marks new blocks of most files as unwritten until
    their data is on the disk, in this mode too.

    ## Why it matters

    In the default mode, ordered, ext4 writes file data before it commits the metadata that points
    to it. With writeback the metadata may reach the disk first: a crash between the two leaves a
    file with the right size and the previous content of its blocks. The kernel documentation calls
    this a security exposure. A program that calls fsync() is safe in both modes.

    ## Remedy

    Mount with `data=ordered`. A remount cannot change the mode: unmount the filesystem and mount it
    again. The root filesystem needs a restart, and `rootflags=` on the kernel command line must not
    set another mode.

    ## When to ignore

    Ignore it on volumes of one service that verifies its data or has replicas: no data leaks to
    another user there. The documentation of Kafka recommends this mode for its logs, and that of
    PostgreSQL mentions it.
    """
    mode = data_mode(fs)
    if mode != "data=writeback":
        yield from cite_option(fs, "data")
        return
    layer = next(container_layers(fs, host), None)
    severity, message = _grade(fs, shared=layer is not None or holds_tenants(fs))
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.LIKELY if _marks_unwritten(fs) else Confidence.CONFIRMED,
        citations=(*cite_option(fs, "data"), *_cite_places(fs, layer)),
        remedies=(
            back_to_ordered(
                fs,
                host,
                trade_off="fsync() of one file may wait for the data of other files in the same "
                "transaction.",
            ),
        ),
        summary="data=writeback: a crash can expose stale data of deleted files",
    )
    if severity is Severity.MEDIUM:
        need(fs.mounted_here, host.mounts, host.container)
    elif severity is Severity.LOW:
        need(fs.superblock)


def _grade(fs: Filesystem, *, shared: bool) -> tuple[Severity, str]:
    if is_surely(fs.read_only):
        return milder_while_read_only(fs, Severity.INFO, MESSAGE)
    if _marks_unwritten(fs):
        return Severity.LOW, f"{MESSAGE}; dioread_nolock and delalloc prevent it for most files"
    return Severity.HIGH if shared else Severity.MEDIUM, MESSAGE


def _cite_places(fs: Filesystem, layer: str | None) -> Iterator[Citation]:
    """Cite the mount points and the container layer on the filesystem."""
    if fs.mounts:
        yield cite_mount_points(fs, lambda point: below(point, TENANTS))
    if layer:
        yield Citation("layer of a container", layer, MOUNT_TABLE)


def _marks_unwritten(fs: Filesystem) -> bool:
    """Return whether new blocks of most files are unwritten extents until the data is on disk.

    ext4_should_dioread_nolock(): with delalloc and dioread_nolock, for files that use extents. The
    options are listed without the feature too, as on an ext3 that is mounted as ext4 (6.18).
    """
    if isinstance(fs.superblock, Known) and "extent" not in fs.superblock.value.features:
        return False
    options = need(fs.options)
    return for_wording(options.token("delalloc"), "") == "delalloc" and (
        for_wording(options.token("dioread_nolock"), "") == "dioread_nolock"
    )

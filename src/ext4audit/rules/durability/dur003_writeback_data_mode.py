"""DUR003: data=writeback lets a crash leave old contents of the disk in new files."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import for_wording, is_surely, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import cite_option
from ext4audit.rules.shared.demands import (
    back_to_ordered,
    container_layers,
    data_mode,
    holds_tenants,
)

MESSAGE = (
    "data=writeback: after a crash, files that were being written can show old contents of the "
    "disk, of files that anybody deleted"
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

    Whether `data=writeback` is in force on a filesystem with a journal, whoever set it. It is
    medium; high where the mount point is one of several users or of containers (/home,
    /var/lib/docker, /var/lib/kubelet and the like), or where overlays of running containers
    write to it, because there the old contents belong to somebody else; info while it is
    mounted read-only. Where delayed allocation and
    dioread_nolock are in force as well the finding is only likely: most new blocks are then
    marked unwritten until their data is there, in this mode too.

    ## Why it matters

    In the default mode, ordered, ext4 writes a file's data before it commits the metadata that
    points to it. With writeback the metadata may be first: a crash between the two leaves a file
    with the right size whose blocks hold whatever lay there before. The kernel's documentation
    calls it a security exposure. A program that calls fsync() is safe either way.

    ## Remedy

    Return to data=ordered. No kernel changes the mode by remount: it takes an unmount, or a
    restart for the root, whose rootflags= on the kernel command line must agree.

    ## When to ignore

    Volumes that belong to one service which checks what it reads or has copies elsewhere:
    Kafka's documentation advises this mode for its logs, PostgreSQL's mentions it. Nothing is
    gained on them by a crash, and nothing leaks to another user.
    """
    mode = data_mode(fs)
    if mode != "data=writeback":
        yield from cite_option(fs, "data")
        return
    layer = next(container_layers(fs, host), None)
    severity = Severity.HIGH if layer or holds_tenants(fs) else Severity.MEDIUM
    message = MESSAGE
    if is_surely(fs.read_only):
        severity = Severity.INFO
        message = f"{MESSAGE}, once it is mounted writable"
    yield Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.LIKELY if _marks_unwritten(fs) else Confidence.CONFIRMED,
        citations=(*cite_option(fs, "data"), *_cite_places(fs, layer)),
        remedies=(
            back_to_ordered(
                fs,
                host,
                trade_off="An fsync() of one file may wait for the data of others that were "
                "written in the same transaction.",
            ),
        ),
    )


def _cite_places(fs: Filesystem, layer: str | None) -> Iterator[Citation]:
    """Yield what tells whose files lie there."""
    if fs.mounts:
        yield Citation("mount points", ", ".join(fs.mount_points), "/proc/self/mountinfo")
    if layer:
        yield Citation("layer of a container", layer, "/proc/self/mountinfo")


def _marks_unwritten(fs: Filesystem) -> bool:
    """Whether new blocks of most files are unwritten extents until their data is on the disk.

    ext4_should_dioread_nolock(): with delalloc and dioread_nolock, in files that have extents.
    """
    options = need(fs.options)
    return for_wording(options.token("delalloc"), "") == "delalloc" and (
        for_wording(options.token("dioread_nolock"), "") == "dioread_nolock"
    )

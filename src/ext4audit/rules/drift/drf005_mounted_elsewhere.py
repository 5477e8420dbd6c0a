"""DRF005: A filesystem is mounted only in another mount namespace."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import MOUNT_TABLE, Known, need, origin_of
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, few
from ext4audit.rule import RuleOutput, refuse_unmounted, rule
from ext4audit.rules.shared import refuse_container


@rule(
    "DRF005",
    "mounted-elsewhere",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man7/mount_namespaces.7.html",
        "https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a filesystem that the kernel has active (/sys/fs/ext4) is missing from the mount table
    of this namespace. The finding is confirmed if the mount table of another process lists the
    filesystem, and possible otherwise: open files after a lazy unmount, or a mount table that
    changed during the scan, look the same. Inside a container this is normal, and the rule does not
    apply.

    ## Why it matters

    The filesystem looks unmounted but is in use: mount reports "busy", and e2fsck or tune2fs on
    its device would damage it. Often a service or container still holds a mount that was
    unmounted elsewhere, and the disk cannot be detached.

    ## Remedy

    Find the processes that have the filesystem mounted, and stop them, or unmount it in their
    namespace.

    ## When to ignore

    Ignore it if a container or a sandboxed service is supposed to have its own volume.
    """
    refuse_container(host, "a {} container does not show the host's mounts")
    refuse_unmounted(fs)
    mounts = need(host.mounts)
    if fs.mounts:
        yield Citation("mounted on", few(fs.mount_points), origin_of(host.mounts))
        return
    yield _finding(fs, len(mounts))


def _finding(fs: Filesystem, mounts: int) -> Finding:
    """Return the finding; the type is known only if the mount table of a process lists it."""
    seen = isinstance(fs.fstype, Known)
    effect = "it cannot be checked, tuned or detached"
    return Finding(
        message=f"{fs.device} is mounted in another mount namespace: {effect} until it is "
        "unmounted there."
        if seen
        else f"{fs.device} is active in the kernel but in no readable mount table: it is mounted "
        f"in another namespace, or open files keep it active, and {effect}.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED if seen else Confidence.POSSIBLE,
        citations=tuple(_cite(fs, mounts)),
        remedies=(_remedy(fs),),
        summary="mounted in another mount namespace"
        if seen
        else "active in the kernel, but in no readable mount table",
    )


def _cite(fs: Filesystem, mounts: int) -> Iterator[Citation]:
    yield Citation("active", fs.name, "/sys/fs/ext4")
    yield Citation("mount table", f"not among its {mounts} mounts", MOUNT_TABLE)
    if isinstance(fs.fstype, Known):
        yield Citation("mounted there as", fs.fstype.value, fs.fstype.origin)


def _remedy(fs: Filesystem) -> Remedy:
    number = fs.device_number
    return Remedy(
        "Find the processes that have it mounted (as root: grep -l ' "
        f"{number} ' /proc/[0-9]*/mountinfo), and stop these services or unmount it in their "
        "namespace (nsenter --mount --target PID umount ...). If there are none, open files keep "
        "it active after a lazy unmount, or a bind mount of /proc/PID/ns/mnt does.",
        Disruption.ONLINE,
    )

"""DRF005: A filesystem is mounted in a mount namespace that this one does not show."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.quantities import origin_of


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

    Whether the kernel serves a filesystem (/sys/fs/ext4) that has no line in the mount table of
    this namespace. Another namespace is confirmed where the mount table of a process has it, and
    only possible else: an open file of a lazy unmount looks the same, and so does a stale list.
    Inside a container that is the rule, and is not judged.

    ## Why it matters

    It looks unmounted and is not: mount says "busy", and e2fsck or tune2fs on its device would
    damage a filesystem in use. Often a service or container still holds a mount that was taken
    away outside, and its disk cannot be detached.

    ## Remedy

    Find the processes that have it mounted, and stop them or unmount it in their namespace.

    ## When to ignore

    Where a container or sandboxed service is meant to have a volume of its own.
    """
    container = need(host.container)
    if container:
        raise NotApplicable(f"a {container} container does not show the host's mounts")
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    mounts = need(host.mounts)
    if fs.mounts:
        yield Citation("mounted on", ", ".join(fs.mount_points), origin_of(host.mounts))
        return
    yield _finding(fs, len(mounts))


def _finding(fs: Filesystem, mounts: int) -> Finding:
    """Make the finding; a type is known where the mount table of some process has it."""
    seen = isinstance(fs.fstype, Known)
    where = "mounted in a namespace that this one does not show"
    doubt = "it is in no mount table that can be read, so an open file may hold it instead"
    return Finding(
        message=f"{fs.device} is in use, {where}: it cannot be checked, tuned or detached before "
        "that mount is gone."
        if seen
        else f"{fs.device} is listed by the kernel, and is probably {where} ({doubt}): it cannot "
        "be checked, tuned or detached before that is over.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED if seen else Confidence.POSSIBLE,
        citations=tuple(_cite(fs, mounts)),
        remedies=(_remedy(fs),),
    )


def _cite(fs: Filesystem, mounts: int) -> Iterator[Citation]:
    yield Citation("alive", fs.name, "/sys/fs/ext4")
    yield Citation("mount table", f"no line of {mounts} has it", "/proc/self/mountinfo")
    if isinstance(fs.fstype, Known):
        yield Citation("mounted there as", fs.fstype.value, fs.fstype.origin)


def _remedy(fs: Filesystem) -> Remedy:
    number = fs.device_number
    return Remedy(
        "Find who has it mounted (as root: grep -l ' "
        f"{number} ' /proc/[0-9]*/mountinfo), and stop these services or unmount it in their "
        "namespace (nsenter --mount --target PID umount ...). Nobody in the list: open files of a "
        "lazy unmount hold it, or a bind mount of /proc/PID/ns/mnt.",
        Disruption.ONLINE,
    )

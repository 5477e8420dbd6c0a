"""PRF001: Every page of a buffered write becomes a separate extent until writeback."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EffectiveOptions
from ext4audit.facts.versions import Exposure
from ext4audit.finding import Citation, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.performance import LOADED_BEFORE
from ext4audit.rules.shared import (
    cite_kernel,
    cite_mount_points,
    cite_option,
    grade,
    milder_while_read_only,
    update,
    what_else_sets_it,
)
from ext4audit.rules.shared.demands import demanded, required_by

OPTIONS = {"delalloc": "nodelalloc", "dioread_nolock": "dioread_nolock"}
"""The states of two options that are harmful only together."""


@rule(
    "PRF001",
    "dioread-nolock-nodelalloc",
    severity=Severity.HIGH,
    since="0.1",
    references=(
        (
            "https://www.alibabacloud.com/help/en/alinux/support/"
            "the-buffer-i-o-write-performance-of-the-ext4-file-system"
        ),
        "https://lore.kernel.org/r/20200319150028.24592-1-enwlinux@gmail.com",
        "https://git.kernel.org/linus/c8980e1980ccdc2229aa2218d532ddc62e0aabe5",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `dioread_nolock` and `nodelalloc` are both in force on an affected kernel. Up to Linux
    5.5 both options must be set; on 5.6.0 to 5.6.12, `nodelalloc` is enough, because
    `dioread_nolock` is the default.

    Alibaba Cloud Linux 2 is affected from 4.19.24-9.al7 to before 4.19.91-26.al7, which the vendor
    confirms. Other kernels before 5.6.13 are likely affected if they lack commit c8980e1980cc:
    those of kernel.org (including 4.14, 4.19 and 5.4 LTS), of Debian, and of Red Hat up to
    4.18.0-240. Of these, 4.19.222 and 5.4.286 were measured, and the sources of 3.10, 4.4, 4.14 and
    of Red Hat's kernels were read. Kernels of other vendors, such as Ubuntu's 5.4, and older ones
    of Alibaba are possibly affected.

    ## Why it matters

    Without delayed allocation ext4 allocates page by page. With `dioread_nolock` each of these
    allocations is an unwritten extent of 4 KiB, and writeback converts them one by one. Writing 192
    MiB took 24 s on 4.19.222 and 56 s on 5.4.286, in 48,000 extents; every other combination of the
    two options took less than one second. Data is not at risk. Copies, logs and databases with
    buffered I/O are slow; direct I/O is not affected.

    ## Remedy

    Mount with `dioread_lock`. It takes effect on the next write, also for open files, and keeps
    `nodelalloc` for products that require it (TiDB checks for it). Enabling delayed allocation
    takes effect later: ext4 sets the allocation mode of a file when it loads the inode, so open or
    cached files keep the old mode until the filesystem is mounted again or the host restarts.
    Dropping caches does not reach open files, and this rule passes in the meantime. The other
    remedy is a kernel update.

    ## When to ignore

    Do not ignore it on an affected kernel. Linux 5.6.13, 5.7 and later ignore `dioread_nolock` if
    delayed allocation is off, although the options file lists both options, and this rule passes.
    Filesystems mounted as ext2 or ext3, or with `data=journal`, are not affected.
    """
    refuse_unmounted(fs)
    _, fstype = need(host.kernel, fs.fstype)
    if fstype != "ext4":
        raise NotApplicable(f"it is mounted as {fstype}, which has no dioread_nolock")
    exposed = need(exposure("PRF001", host.kernel))
    seen = cite_kernel(host, exposed)
    if not exposed.affected:
        yield seen
        return
    options = need(fs.options)
    if for_wording(options.token("data"), "") == "data=journal":
        raise NotApplicable("data=journal turns both options off")
    if _harmless(options):
        yield seen
        yield from _cite(fs)
        return
    need(options.token("delalloc"), options.token("dioread_nolock"))
    yield _finding(fs, host, exposed, seen)


def _harmless(options: EffectiveOptions) -> bool:
    """Return whether one of the two options is known to be in its harmless state."""
    return any(
        isinstance(token := options.token(name), Known) and token.value != bad
        for name, bad in OPTIONS.items()
    )


def _cite(fs: Filesystem) -> Iterator[Citation]:
    """Cite both options; citations that they share (mount table, fstab) appear once."""
    yield from dict.fromkeys(each for name in OPTIONS for each in cite_option(fs, name))


def _finding(fs: Filesystem, host: Host, exposed: Exposure, seen: Citation) -> Finding:
    severity, confidence = grade(exposed)
    severity, message = milder_while_read_only(fs, severity, exposed.symptom)
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=confidence,
        citations=(seen, *_cite(fs), cite_mount_points(fs), *_vendor(fs, host)),
        remedies=tuple(_remedies(fs, host, exposed)),
        summary="dioread_nolock with nodelalloc makes buffered writes slow on this kernel",
    )


def _vendor(fs: Filesystem, host: Host) -> Iterator[Citation]:
    """Cite the profile that requires nodelalloc, if any."""
    profile = demanded(fs, host).get("nodelalloc")
    if profile is not None:
        yield Citation(f"profile {profile.name}", profile.says, profile.source)


def _remedies(fs: Filesystem, host: Host, exposed: Exposure) -> Iterator[Remedy]:
    """Yield the remedies; only dioread_lock if a profile requires nodelalloc."""
    profile = demanded(fs, host).get("nodelalloc")
    if profile is not None:
        yield _dioread_lock(fs, host, f"Keep nodelalloc, {required_by(profile)},")
        return
    yield _dioread_lock(fs, host, "Keep nodelalloc, which some products require (TiDB, TiKV),")
    yield _delalloc(fs, host)
    yield update(exposed)


def _delalloc(fs: Filesystem, host: Host) -> Remedy:
    steps = remedies.options.change_option(fs, "delalloc", "delalloc")
    return Remedy(
        f"Enable delayed allocation{remedies.remount.elsewhere(fs)}.{LOADED_BEFORE}"
        f"{what_else_sets_it(fs, host, 'delalloc')}",
        remedies.options.disruption(steps),
        steps,
        trade_off="Data that is not synced may reach the disk up to 30 s later, so a crash can "
        "lose more of it, and allocation comes in bursts. From Linux 6.13 on, going back needs an "
        "unmount.",
    )


def _dioread_lock(fs: Filesystem, host: Host, first: str) -> Remedy:
    steps = remedies.options.change_option(fs, "dioread_nolock", "nodioread_nolock")
    return Remedy(
        f"{first} and disable dioread_nolock{remedies.remount.elsewhere(fs)}."
        f"{what_else_sets_it(fs, host, 'dioread_nolock')}",
        remedies.options.disruption(steps),
        steps,
        trade_off="Direct reads of a file wait while it is being written. The change takes effect "
        "on the next write, also for open files.",
    )

"""PRF003: Delayed allocation is off, so blocks of buffered writes are allocated page by page."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import EffectiveOptions, Provenance
from ext4audit.finding import Confidence, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.performance import LOADED_BEFORE
from ext4audit.rules.shared import cite_option, what_else_sets_it
from ext4audit.rules.shared.demands import demanded


@rule(
    "PRF003",
    "nodelalloc-without-profile",
    severity=Severity.INFO,
    since="0.2",
    references=(
        "https://docs.kernel.org/admin-guide/ext4.html",
        "https://docs.pingcap.com/tidb/stable/check-before-deployment/",
        "https://github.com/tikv/tikv/issues/7892",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether `nodelalloc` is in force on a writable filesystem that is mounted as ext4, from fstab,
    the superblock or a remount. The rule does not apply if `data=journal` disables delayed
    allocation.

    ## Why it matters

    With delayed allocation the kernel chooses the blocks of a file at writeback, when its size is
    known. Without it, the kernel chooses them at each write(2), one page at a time: files that
    grow concurrently fragment, buffered writes cost more processor time, and short-lived files
    are allocated as well.

    ## Remedy

    Enable delayed allocation. A remount suffices for files that are opened for the first time. ext4
    sets the allocation mode of a file when it loads the inode: open or cached files keep the old
    mode until the filesystem is mounted again or the host restarts. Dropping caches does not reach
    open files. The option listing, and this rule, show `delalloc` at once.

    ## When to ignore

    Ignore it if a product requires `nodelalloc`: TiDB and TiKV (their check fails without it,
    although tikv#7892 questions the reasons), DAOS on persistent memory, GBase 8a. The rule is off
    by default for that reason. Databases that use direct I/O are not affected.
    """
    refuse_unmounted(fs)
    fstype = need(fs.fstype)
    if fstype != "ext4":
        raise NotApplicable(f"{fstype} has no delayed allocation")
    options = need(fs.options)
    if need(options.token("delalloc")) == "delalloc":
        yield from cite_option(fs, "delalloc")
        return
    profile = demanded(fs, host).get("nodelalloc")
    if profile is not None:
        raise NotApplicable(f"{profile.product} requires nodelalloc (profile {profile.name})")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")
    _refuse_data_journal(options)
    yield _finding(fs, host)


def _refuse_data_journal(options: EffectiveOptions) -> None:
    """Raise if data=journal disables delayed allocation, or if that is unknown."""
    implied = _is_implied(options)
    data = options.token("data")
    journal = isinstance(data, Known) and data.value == "data=journal"
    if journal or (implied and not options.lacks("data")):
        raise NotApplicable("data=journal disables delayed allocation")
    if not options.lacks("data"):
        need(data)


def _is_implied(options: EffectiveOptions) -> bool:
    option = options.find("delalloc")
    return option is not None and option.set_by is Provenance.IMPLIED


def _cause(fs: Filesystem, host: Host) -> str:
    """Return a sentence on what sets it, if no step corrects that."""
    if _is_implied(need(fs.options)):
        # The kernel forgets the mode of a filesystem without a journal, after it has obeyed it.
        return " Each mount disables it again while the superblock has the default journal_data."
    return what_else_sets_it(fs, host, "delalloc")


def _finding(fs: Filesystem, host: Host) -> Finding:
    steps = remedies.options.change_option(fs, "delalloc", "delalloc")
    return Finding(
        message="Delayed allocation is off (nodelalloc): buffered writes are allocated page by "
        "page, and files that grow concurrently fragment each other.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_option(fs, "delalloc")),
        remedies=(
            Remedy(
                "Enable delayed allocation, unless a product on this host requires nodelalloc"
                f"{remedies.remount.elsewhere(fs)}.{LOADED_BEFORE}"
                f"{_cause(fs, host)}",
                remedies.options.disruption(steps),
                steps,
                trade_off="Data that is not synced may reach the disk up to 30 s later, so a "
                "crash can lose more of it. From Linux 6.13 on, going back needs an unmount.",
            ),
        ),
        summary="nodelalloc: files that grow concurrently fragment each other",
    )

"""PRF003: Delayed allocation is off, so that buffered writes are placed page by page."""

from __future__ import annotations

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.options import EffectiveOptions, Provenance
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
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

    Whether nodelalloc is in force on a writable filesystem that is mounted as ext4, whoever set
    it. Where data=journal turns delayed allocation off, the rule does not apply.

    ## Why it matters

    With delayed allocation the kernel chooses the blocks of a file when it writes the file out,
    and then sees all of it. Without, it chooses at each write(2) and one page at a time: files
    that grow side by side end up in smaller pieces, buffered writing costs more processor time,
    and files that are deleted soon are allocated all the same.

    ## Remedy

    Turn delayed allocation on. A remount suffices for files that are opened for the first time.
    ext4 decides for each file when it loads the inode: files that are open or cached go on
    without, until the filesystem is unmounted and mounted again, or the host restarts. Dropping
    caches reaches no file that is open. The options, and this rule, show delalloc at once.

    ## When to ignore

    Where a product asks for it: TiDB and TiKV (their check fails without it, though the reasons
    were questioned in tikv#7892), DAOS on persistent memory, GBase 8a. The rule is off by default
    for that reason. Databases that use direct I/O do not feel the difference.
    """
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    fstype = need(fs.fstype)
    if fstype != "ext4":
        raise NotApplicable(f"{fstype} has no delayed allocation")
    options = need(fs.options)
    if need(options.token("delalloc")) == "delalloc":
        yield from cite_option(fs, "delalloc")
        return
    profile = demanded(fs, host).get("nodelalloc")
    if profile is not None:
        raise NotApplicable(f"{profile.product} asks for nodelalloc (profile {profile.name})")
    if need(fs.read_only):
        raise NotApplicable("it is read-only")
    _refuse_data_journal(options)
    yield _finding(fs, host)


def _refuse_data_journal(options: EffectiveOptions) -> None:
    """Raise where data=journal turns delayed allocation off, or may do so unseen."""
    option = options.find("delalloc")
    data = options.token("data")
    journal = isinstance(data, Known) and data.value == "data=journal"
    if journal or (option is not None and option.set_by is Provenance.IMPLIED):
        raise NotApplicable("data=journal turns delayed allocation off")
    if not options.complete:
        need(data)


def _finding(fs: Filesystem, host: Host) -> Finding:
    steps = remedies.options.change_option(fs, "delalloc", "delalloc")
    return Finding(
        message="Delayed allocation is off: buffered writes get their blocks page by page, and "
        "files that grow side by side fragment each other.",
        severity=Severity.INFO,
        confidence=Confidence.CONFIRMED,
        citations=tuple(cite_option(fs, "delalloc")),
        remedies=(
            Remedy(
                "Turn delayed allocation on, unless a product that runs here asks for nodelalloc."
                f"{LOADED_BEFORE}{what_else_sets_it(fs, host, 'delalloc')}",
                remedies.options.disruption(steps) if steps else Disruption.REMOUNT,
                steps,
                trade_off="What is written and not synced may reach the disk up to 30 s later, so "
                "that a crash can lose more of it. From Linux 6.13 on the way back needs an "
                "unmount.",
            ),
        ),
    )

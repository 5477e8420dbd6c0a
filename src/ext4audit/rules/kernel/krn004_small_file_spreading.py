"""KRN004: On this kernel, many small files make an SD card or eMMC many times slower."""

from __future__ import annotations

from ext4audit.evidence import Known, need, origin_of, raise_for
from ext4audit.facts.features_and_bugs import exposure
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.finding import Citation, Disruption, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, refuse_unmounted, rule
from ext4audit.rules.kernel import bug_finding
from ext4audit.rules.shared import cite_kernel, gaps_below, superblock_field, update

OPTION, OFF = "mb_optimize_scan", "mb_optimize_scan=0"
FLASH = "mmcblk"
FEWEST_GROUPS = 16
"""The kernel searches filesystems with fewer groups linearly (MB_DEFAULT_LINEAR_SCAN_THRESHOLD)."""
SEARCH_OFF = Remedy(
    f"Mount it with {OFF}: add it to its line in fstab and remount. Some of these kernels do not "
    "list the option where it is in force.",
    Disruption.REMOUNT,
)


@rule(
    "KRN004",
    "small-file-spreading",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://github.com/raspberrypi/linux/issues/5097",
        "https://git.kernel.org/linus/077d0c2c78df6f7260cdd015a991327efa44d8ad",
        "https://git.kernel.org/linus/4fca50d440cc5d4dc570ad5484cc0b70b381bc2a",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a filesystem on an SD card or eMMC (mmcblk) with at least 16 block groups runs on a
    kernel that has commit 077d0c2c78df without the fixes of 6.0: 5.15.33 to 5.15.70, 5.16 from
    5.16.19 on, 5.17 from 5.17.2 on, 5.18, and 5.19 before 5.19.12; and whether
    `mb_optimize_scan=0` turns the new search off. Kernels of other vendors are assessed by the
    upstream version that they are based on, with confidence possible at most.

    ## Why it matters

    These kernels spread the blocks of small files over all block groups. An SD card handles few
    regions at a time well: unpacking an archive or updating packages takes many times longer,
    with a high load.

    ## Remedy

    Mount with `mb_optimize_scan=0`, or update the kernel.

    ## When to ignore

    Ignore it if the card is fast enough for its work. Other disks were not reported, and are not
    checked.
    """
    refuse_unmounted(fs)
    stack = need(fs.stack)
    if not any(leaf.name.startswith(FLASH) for leaf in stack.leaves()):
        raise_for(gaps_below(stack))
        raise NotApplicable("it is on no SD card or eMMC")
    exposed = exposure("KRN004", host.kernel)
    if isinstance(exposed, Known) and not exposed.value.affected:
        yield cite_kernel(host, exposed.value)
        return
    groups = need(superblock_field(fs, "number of block groups", lambda each: each.groups))
    if groups < FEWEST_GROUPS:
        raise NotApplicable(f"it has fewer than {FEWEST_GROUPS} block groups")
    need(fs.options)
    option = option_of(fs, OPTION)
    if option is not None and option.token == OFF:
        yield Citation(f"option in force: {OPTION}", option.token, option.origin)
        return
    bug = need(exposed)
    yield bug_finding(
        host,
        bug,
        Citation("block groups", f"{groups}", origin_of(fs.superblock)),
        remedies=(SEARCH_OFF, update(bug)),
        summary="this kernel spreads small files over the whole SD card or eMMC",
        writes_to=fs,
    )

"""LAY001: Block-group bitmaps are concentrated on a few members of a stripe."""

from __future__ import annotations

from collections.abc import Mapping

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host, Profile
from ext4audit.finding import Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import by_demand, demands_features


@rule(
    "LAY001",
    "striped-metadata-hotspot",
    severity=Severity.HIGH,
    since="0.1",
    references=(
        "https://nvartolomei.com/ext4-io-distribution-raid0",
        "mke2fs(8)",
        "https://listman.redhat.com/archives/ext3-users/2008-June/msg00042.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Which member devices of a stripe (md RAID0, RAID10, RAID4, 5 and 6, striped LVM) hold the block
    bitmaps and inode bitmaps, according to the group descriptors. Mirrors and parity count. The
    rule reports a Jain index of the members' shares below 0.75, and info below 0.95. Filesystems
    with too few groups for the number of disks are not checked.

    ## Why it matters

    Every allocation writes a block bitmap or an inode bitmap, so they should be on all disks. With
    flex_bg, mke2fs places the bitmaps of 16 groups together every 2 GiB. This distance is a
    power-of-two multiple of the chunk size. With the defaults, the number of disks that hold
    bitmaps is therefore only the odd factor of the number of disks: 3 of 12, 1 of 8. With many
    small files, the busiest disks of a real array had 8 to 15 times the writes of the others.

    The primary descriptor table is written often as well. It is at the start of the filesystem
    and extends to one more disk per TiB (chunks of 512 KiB). No group size changes this, so it is
    shown as evidence and not reported separately.

    ## Remedy

    The number of blocks per group cannot be changed in place. Recreate the filesystem with the
    group size and flex_bg size that the finding computes for this array; the well-known
    `-g 32744` is right only for chunks of 512 KiB and more. Or grow the RAID0 by a disk, to an odd
    number. Stride and stripe width have no effect: with flex_bg, mke2fs ignores them when it
    places bitmaps, contrary to its manual page.

    ## When to ignore

    Where files are large and rarely created or deleted, and on fast SSDs (non-rotational members
    have severity low for this reason).
    """
    if fs.layout is None:
        raise NotApplicable("it is not on a stripe")
    layout, superblock = need(fs.layout, fs.superblock)
    from ext4audit.rules.layout.hotspot import hotspot  # noqa: PLC0415 - 5 ms, for stripes only

    lacking = {f: p for f, p in demands_features(fs, host).items() if f not in superblock.features}
    for item in hotspot(fs, layout, superblock):
        yield _with_demands(item, lacking) if isinstance(item, Finding) and lacking else item


def _with_demands(finding: Finding, lacking: Mapping[str, Profile]) -> Finding:
    """Return the finding without a mkfs line that leaves out a feature which a profile demands."""
    demands = "; ".join(f"{f}, {by_demand(p)}" for f, p in lacking.items())
    advice = Remedy(
        f"Recreate it with {demands}: `ext4audit plan` computes the group size.",
        Disruption.RECREATE,
        destructive=True,
    )
    others = (each for each in finding.remedies if each.disruption is not Disruption.RECREATE)
    return finding._replace(remedies=(advice, *others))

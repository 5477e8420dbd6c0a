"""LAY001: Block-group bitmaps all lie on a few members of a stripe."""

from __future__ import annotations

from collections.abc import Mapping

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.profile import Profile
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

    Which member devices of a stripe (md RAID0, RAID10, RAID4, 5 and 6, striped LVM) are written
    when each block bitmap and inode bitmap is, from the group descriptors themselves. Mirrors
    and parity count. It fires when Jain's index of the members' shares is below 0.75, and notes
    (info) what is below 0.95. Too few groups for the number of disks are not judged.

    ## Why it matters

    Every allocation writes a block bitmap or an inode bitmap: they belong on all disks. With
    flex_bg, mke2fs packs the bitmaps of 16 groups together every 2 GiB. That distance is a
    multiple of a power of two of chunks, so that with the defaults only the odd part of the
    number of disks ever holds bitmaps: 3 of 12 disks, 1 of 8. Under churn of small files the
    hot disks of a real array had 8 to 15 times the writes of a cold one.

    The primary descriptor table is hot as well. It lies at the start of the filesystem, on one
    more disk for every TiB (chunks of 512 KiB). No group size changes that, so that it is shown
    as evidence and is no finding of its own.

    ## Remedy

    Blocks per group cannot be changed in place. Recreate the filesystem with the group size
    and flex_bg size that the finding computes for this array; the well-known `-g 32744` is
    right only for chunks of 512 KiB and more. Or grow the RAID0 by a disk, to an odd number.
    Stride and stripe width change nothing: with flex_bg, mke2fs ignores them when it places
    bitmaps, whatever its manual says.

    ## When to ignore

    Large files and few creations or deletions; members without seeks and with queues to
    spare (low on non-rotational members for this reason).
    """
    if fs.layout is None:
        raise NotApplicable("no stripe lies below it")
    layout, superblock = need(fs.layout, fs.superblock)
    from ext4audit.rules.layout.hotspot import hotspot  # noqa: PLC0415 - 5 ms, for stripes only

    lacking = {f: p for f, p in demands_features(fs, host).items() if f not in superblock.features}
    for item in hotspot(fs, layout, superblock):
        yield _with_demands(item, lacking) if isinstance(item, Finding) and lacking else item


def _with_demands(finding: Finding, lacking: Mapping[str, Profile]) -> Finding:
    """Return the finding without a mkfs line that leaves out a feature which a profile demands."""
    demands = "; ".join(f"{f}, {by_demand(p)}" for f, p in lacking.items())
    advice = Remedy(
        f"Recreate it, with {demands}: `ext4audit plan` finds the groups that fit.",
        Disruption.RECREATE,
        destructive=True,
    )
    others = (each for each in finding.remedies if each.disruption is not Disruption.RECREATE)
    return finding._replace(remedies=(advice, *others))

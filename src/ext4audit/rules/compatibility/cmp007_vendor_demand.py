"""CMP007: The filesystem does not meet the requirements of a product's vendor."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Undetermined, Unknown, need
from ext4audit.facts.host import Filesystem, Host, Profile
from ext4audit.finding import Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.compatibility.forbidden_options import forbidden_options
from ext4audit.rules.compatibility.vendor_demands import demanded_options, made_otherwise


@rule(
    "CMP007",
    "vendor-demand",
    severity=Severity.MEDIUM,
    since="0.2",
    references=(
        "https://docs.pingcap.com/tidb/stable/check-before-deployment",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/storage-twp.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether a filesystem meets the requirements of the vendors whose products use it: mount options
    that must or must not be in force, features, cluster size, the share of reserved blocks. The
    rule needs `--profile NAME`, which selects the product, or `--profile NAME=MOUNT_POINT` for
    single filesystems, or a profile that the policy file of the site defines. It also reports a
    required option that the superblock hides, if the vendor's own check reads the mount table.

    ## Why it matters

    A failed precheck stops an installation: TiUP refuses to deploy without nodelalloc. An option
    that the vendor forbids can void its guarantees: without barriers, PostgreSQL loses committed
    transactions. Some requirements can only be met when the filesystem is created: torn write
    prevention on AWS has no effect without bigalloc and clusters of 16 KiB.

    ## Remedy

    Set the options in fstab and put them in force; from Linux 6.13 on nodelalloc needs an unmount.
    If another rule reports the required option on this kernel, the commands satisfy both: for
    TiDB they set dioread_lock with nodelalloc where dioread_nolock makes writes slow (PRF001).
    Requirements of mkfs need a new filesystem.

    ## When to ignore

    If the product does not use this filesystem, or the vendor has withdrawn the requirement.
    """
    if any(profile.place is not None for profile in host.profiles):
        need(fs.mounted_here)
    profiles = host.profiles_of(fs)
    if not profiles:
        raise NotApplicable("no profile is selected for it")
    if not any(_demands(profile) for profile in profiles):
        raise NotApplicable("its profiles have no requirements")
    if not (fs.alive or any(_demands_layout(profile) for profile in profiles)):
        raise NotApplicable("it is not mounted")
    gaps: list[Unknown] = []
    for part in _parts(fs, host, profiles):
        yield from _collected(part, gaps)
    if gaps:
        raise Undetermined(tuple(dict.fromkeys(gaps)))


def _collected(part: RuleOutput, gaps: list[Unknown]) -> RuleOutput:
    """Yield the output of one part, and collect its unknowns in `gaps`."""
    try:
        yield from part
    except Undetermined as met:
        gaps += met.unknowns


def _parts(fs: Filesystem, host: Host, profiles: tuple[Profile, ...]) -> Iterator[RuleOutput]:
    """Yield the parts that are judged separately, so that a gap in one does not hide another."""
    if fs.alive:
        yield demanded_options(fs, host, profiles)
        yield forbidden_options(fs, host, profiles)
    for profile in profiles:
        yield from made_otherwise(fs, profile)


def _demands(profile: Profile) -> bool:
    return bool(profile.options or profile.forbid) or _demands_layout(profile)


def _demands_layout(profile: Profile) -> bool:
    made = (profile.features, profile.cluster_bytes, profile.instead_of_ext4)
    return any(made) or profile.reserved_percent is not None

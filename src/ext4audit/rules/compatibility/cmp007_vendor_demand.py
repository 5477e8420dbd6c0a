"""CMP007: A product's vendor demands what this filesystem does not have."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Undetermined, Unknown, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.profile import Profile
from ext4audit.finding import Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
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

    Whether a filesystem has what the vendors of the products on it demand: mount options,
    features, cluster size, the share of reserved blocks. It judges with `--profile` only; the
    profile says which product, and `--profile NAME=MOUNT_POINT` on which filesystems. An option
    that is in force and hidden in the superblock satisfies the kernel, and not a vendor's check
    that reads the mount table: that is said too.

    ## Why it matters

    A precheck that fails stops an installation (TiUP refuses to deploy without nodelalloc), and
    a layout that a vendor's guarantee rests on can only be given when the filesystem is made:
    torn write prevention on AWS does nothing without bigalloc and clusters of 16 KiB.

    ## Remedy

    Put the options in force and into fstab; from Linux 6.13 on nodelalloc needs an unmount. Where
    another rule warns of what the vendor demands on this kernel, the commands satisfy both:
    TiDB's nodelalloc goes with dioread_lock where dioread_nolock would make writes slow
    (PRF001). What mkfs decides needs a new filesystem.

    ## When to ignore

    When the product runs elsewhere, or the vendor has withdrawn the demand.
    """
    if any(profile.place is not None for profile in host.profiles):
        need(fs.mounted_here)
    profiles = host.profiles_of(fs)
    if not profiles:
        raise NotApplicable("no profile is chosen for it")
    if not any(_demands(profile) for profile in profiles):
        raise NotApplicable("nothing is demanded of it")
    if not (fs.alive or any(_demands_layout(profile) for profile in profiles)):
        raise NotApplicable("it is not mounted")
    gaps: list[Unknown] = []
    for part in _parts(fs, host, profiles):
        yield from _collected(part, gaps)
    if gaps:
        raise Undetermined(tuple(dict.fromkeys(gaps)))


def _collected(part: RuleOutput, gaps: list[Unknown]) -> RuleOutput:
    """Yield what one part yields, and collect its unknowns in `gaps`."""
    try:
        yield from part
    except Undetermined as met:
        gaps += met.unknowns


def _parts(fs: Filesystem, host: Host, profiles: tuple[Profile, ...]) -> Iterator[RuleOutput]:
    """Yield what is judged separately: a gap in one hides nothing of another."""
    if fs.alive:
        yield demanded_options(fs, host, profiles)
    for profile in profiles:
        yield from made_otherwise(fs, profile)


def _demands(profile: Profile) -> bool:
    return bool(profile.options) or _demands_layout(profile)


def _demands_layout(profile: Profile) -> bool:
    made = (profile.features, profile.cluster_bytes, profile.instead_of_ext4)
    return any(made) or profile.reserved_percent is not None

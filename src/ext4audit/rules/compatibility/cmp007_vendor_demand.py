"""CMP007: The filesystem does not meet the requirements of a product's vendor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import Undetermined, Unknown, need, raise_for
from ext4audit.facts.host import Filesystem, Host, Profile
from ext4audit.facts.mount import ATIME_OPTIONS, Mount, flags_in_force
from ext4audit.facts.options import canonical, recognize
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.compatibility.vendor_demands import (
    demanded_options,
    in_force_remedy,
    is_in_force,
    layout_checks,
    required_words,
    statement,
)
from ext4audit.rules.shared.demands import WARNED_OF
from ext4audit.rules.shared.mount_config import tokens_by_name

OPPOSITE = {"nobarrier": "barrier", "noauto_da_alloc": "auto_da_alloc"}
"""The state to set instead of each option that a profile forbids."""
NEWEST = (99,)
"""A version later than all kernels, to look up the newest defaults."""


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

    A failed precheck holds up an installation: TiUP's check fails without `nodelalloc`. An option
    that the vendor forbids can void its guarantees: without barriers, PostgreSQL loses committed
    transactions. Some requirements can only be met when the filesystem is created: torn write
    prevention on AWS has no effect without `bigalloc` and clusters of 16 KiB.

    ## Remedy

    Set the options in fstab and put them in force; from Linux 6.13 on `nodelalloc` needs an
    unmount. If another rule reports the required option on this kernel, the commands satisfy both:
    for TiDB they set `dioread_lock` with `nodelalloc` where `dioread_nolock` makes writes slow
    (PRF001). Requirements of mkfs need a new filesystem.

    ## When to ignore

    Ignore it if the product does not use this filesystem, or if the vendor has withdrawn the
    requirement.
    """
    if any(profile.place is not None for profile in host.profiles):
        need(fs.mounted_here)
    profiles = host.profiles_of(fs)
    if not profiles:
        raise NotApplicable("no profile is selected for it")
    of_layout = any(map(_demands_layout, profiles))
    if not (of_layout or any(each.options or each.forbid for each in profiles)):
        raise NotApplicable("its profiles have no requirements")
    if not (fs.alive or of_layout):
        raise NotApplicable("it is not mounted")
    gaps: list[Unknown] = []
    for part in _parts(fs, host, profiles):
        yield from _collected(part, gaps)
    raise_for(gaps)


def _collected(part: RuleOutput, gaps: list[Unknown]) -> RuleOutput:
    """Yield the output of one check, and collect its unknowns in `gaps`."""
    try:
        yield from part
    except Undetermined as met:
        gaps += met.unknowns


def _parts(fs: Filesystem, host: Host, profiles: tuple[Profile, ...]) -> Iterator[RuleOutput]:
    """Yield the checks, which run separately so that a gap in one does not hide another."""
    if fs.alive:
        yield demanded_options(fs, host, profiles)
        yield forbidden_options(fs, host, profiles)
    for profile in profiles:
        yield from layout_checks(fs, profile)


def _demands_layout(profile: Profile) -> bool:
    made = (profile.features, profile.cluster_bytes, profile.instead_of_ext4)
    return any(made) or profile.reserved_percent is not None


def forbidden_options(fs: Filesystem, host: Host, profiles: Sequence[Profile]) -> RuleOutput:
    """Judge which forbidden options are in force; raises Undetermined.

    `demanded_options` handles options whose opposite state a profile requires.
    """
    required = {word for profile in profiles for word in required_words(profile)}
    for token in dict.fromkeys(t for profile in profiles for t, _ in profile.forbid):
        wanted = replacement_of(token)
        if wanted in required:
            continue
        by = [profile for profile in profiles if token in dict(profile.forbid)]
        if _is_set(fs, host, token):
            yield _forbidden(token, by, _remedy_without(fs, host, token, wanted))
        else:
            names = ", ".join(profile.name for profile in by)
            yield Citation("forbidden, and not in force", token, f"profile {names}")


def replacement_of(token: str) -> str | None:
    """Return the state to set instead of a forbidden one; empty to set none, None if unknown."""
    if token in ATIME_OPTIONS:
        return "noatime" if canonical(token) == "relatime" else "relatime"
    known = recognize(token)
    if known is None:
        return None
    spec, state = known
    if not spec.has_value:
        return OPPOSITE.get(state) or (spec.off if state == spec.on else spec.on)
    default = spec.default(NEWEST)
    return default if default and default != state else None


def _is_set(fs: Filesystem, host: Host, token: str) -> bool:
    """Return whether a token is in force; a token missing from a complete listing is not."""
    if token in ATIME_OPTIONS:
        remedies.flags.seen_here(fs)
        return bool(_mounts_with_flag(fs, host, token))
    known = recognize(token)
    options = need(fs.options)
    absent = known is not None and options.complete and options.find(known[0].name) is None
    return not absent and is_in_force(fs, host, canonical(token))


def _mounts_with_flag(fs: Filesystem, host: Host, token: str) -> tuple[Mount, ...]:
    """Return the mounts with a flag that a profile for their mount point forbids."""
    by = [active for active in host.profiles if token in dict(active.profile.forbid)]
    return tuple(
        mount
        for mount in fs.mounts
        if canonical(token) in flags_in_force(mount)
        and any(each.covers((mount.mount_point,)) for each in by)
    )


def _remedy_without(fs: Filesystem, host: Host, token: str, wanted: str | None) -> Remedy:
    """Return the remedy that sets `wanted` instead of a token, or removes the token."""
    if wanted is None:
        return Remedy(f"Change {token} to another value wherever it is set.", Disruption.REMOUNT)
    if wanted:
        concerned = _mounts_with_flag(fs, host, token) if token in ATIME_OPTIONS else None
        return in_force_remedy(fs, host, [wanted], concerned)
    tokens = dict.fromkeys(tokens_by_name([token]), remedies.mounting.NOT_SET)
    return Remedy(
        f"Remove {token} where it is set, and mount it again.{remedies.mounting.left_by_hand(fs)}",
        remedies.mounting.disruption_of_new_mount(fs),
        remedies.mounting.change_by_new_mount(fs, tokens),
    )


def _forbidden(token: str, by: Sequence[Profile], remedy: Remedy) -> Finding:
    products = ", ".join(profile.product for profile in by)
    known = (dict(profile.forbid)[token] or WARNED_OF.get(canonical(token), "") for profile in by)
    rules = ", ".join(filter(None, dict.fromkeys(known)))
    see = f" (see {rules})" if rules else ""
    return Finding(
        message=f"{products}: {token} is forbidden but in force{see}.",
        severity=Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=tuple(statement(profile) for profile in by),
        remedies=(remedy,),
        fact=f"forbidden {token}",
        summary=f"forbidden option in force: {token}",
    )

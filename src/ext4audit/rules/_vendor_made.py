"""What a vendor demands of the way a filesystem was made: features, clusters, the reserve."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem
from ext4audit.facts.profile import Profile
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.rule import Said
from ext4audit.rules._shell import quote
from ext4audit.rules._stated import stated

PERCENT = 100
KIB = 1024


def made_otherwise(fs: Filesystem, profile: Profile) -> Iterator[Said]:
    """Yield what is judged of one profile, each apart; they raise Undetermined."""
    if profile.features:
        yield _features(fs, profile)
    if profile.cluster_bytes:
        yield _clusters(fs, profile, profile.cluster_bytes)
    if profile.reserved_percent is not None:
        yield _reserve(fs, profile, profile.reserved_percent)
    if profile.instead_of_ext4:
        yield _another(profile)


def statement(profile: Profile) -> Citation:
    """Cite what the vendor says."""
    return Citation(f"profile {profile.name}", profile.says, profile.source)


def _features(fs: Filesystem, profile: Profile) -> Said:
    features = need(fs.superblock).features
    lacking = [feature for feature in profile.features if feature not in features]
    if lacking:
        words = ", ".join(lacking)
        yield _finding(profile, f"the filesystem was made without {words}", words, _anew(profile))
    else:
        yield Citation("features", ", ".join(profile.features), _origin(fs))


def _clusters(fs: Filesystem, profile: Profile, wanted: int) -> Said:
    if set(profile.features) - need(fs.superblock).features:
        return  # without the feature there are no clusters
    block_bytes, blocks = need(
        stated(fs, "block size", lambda superblock: superblock.block_bytes),
        stated(fs, "cluster size", lambda superblock: superblock.cluster_blocks),
    )
    has = block_bytes * blocks
    if has != wanted:
        what = f"its clusters have {has // KIB} KiB instead of {wanted // KIB}"
        yield _finding(profile, what, "clusters", _anew(profile))
    else:
        yield Citation("cluster size", f"{has // KIB} KiB", _origin(fs))


def _reserve(fs: Filesystem, profile: Profile, most: int) -> Said:
    reserved = need(stated(fs, "reserved blocks", lambda superblock: superblock.reserved_blocks))
    blocks = need(fs.superblock).size_blocks
    if reserved * PERCENT <= most * blocks or not blocks:
        yield Citation("reserved blocks", str(reserved), _origin(fs))
        return
    share = reserved * PERCENT / blocks
    what = f"{share:.1f} % is reserved for root, and at most {most} % may be"
    yield _finding(profile, what, "reserve", _free(fs, reserved))


def _another(profile: Profile) -> Said:
    advice = Remedy("See the vendor's page before the data grows.", Disruption.RECREATE)
    what = f"it is ext4, and the vendor recommends {profile.instead_of_ext4}"
    yield _finding(profile, what, "filesystem", advice, Severity.INFO)


def _finding(
    profile: Profile,
    what: str,
    fact: str,
    remedy: Remedy,
    severity: Severity = Severity.MEDIUM,
) -> Finding:
    return Finding(
        message=f"{profile.product}: {what}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(statement(profile),),
        remedies=(remedy,),
        fact=f"{profile.name} {fact}",
    )


def _anew(profile: Profile) -> Remedy:
    clusters = f" -C {profile.cluster_bytes}" if profile.cluster_bytes else ""
    return Remedy(
        "Back up, recreate, restore: no tool changes it in place, and mkfs.ext4 -O "
        f"{','.join(profile.features)}{clusters} DESTROYS all data.",
        Disruption.RECREATE,
        destructive=True,
    )


def _free(fs: Filesystem, reserved: int) -> Remedy:
    """Return the commands that give up the reserve."""
    device = quote(fs.device)
    shown = f"tune2fs -l {device} | grep -qE '^Reserved block count: +0$'"
    steps = (
        Step(Phase.IMMEDIATE, f"tune2fs -m 0 {device}"),
        Step(Phase.VERIFY, shown),
        Step(Phase.ROLLBACK, f"tune2fs -r {reserved} {device}"),
    )
    return Remedy(
        "Reserve nothing for root.",
        Disruption.ONLINE,
        steps if device else (),
        trade_off="Root cannot clean up on a filesystem that is full to the last block.",
    )


def _origin(fs: Filesystem) -> str:
    return fs.superblock.origin if isinstance(fs.superblock, Known) else ""

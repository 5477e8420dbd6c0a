"""CMP007: A product's vendor demands what this filesystem does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.profile import Profile
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, Said, rule
from ext4audit.rules._demands import canonical
from ext4audit.rules._vendor_remedies import option_remedies

PERCENT = 100


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
def check(fs: Filesystem, host: Host) -> Said:
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

    Put the options in force and into fstab. Where another rule warns of what the vendor demands
    on this kernel, the commands satisfy both: TiDB's nodelalloc goes with dioread_lock where
    dioread_nolock would make writes slow (PRF001).

    ## When to ignore

    When the product runs elsewhere, or the vendor has withdrawn the demand.
    """
    profiles = host.profiles_of(fs)
    if not profiles:
        raise NotApplicable("no profile is chosen for it")
    if not fs.alive:
        raise NotApplicable("it is not mounted")
    yield from _missing_options(fs, host, profiles)
    for profile in profiles:
        yield from _missing_features(fs, profile)
        yield from _reserved(fs, profile)
        if profile.instead_of_ext4:
            yield _finding(
                profile, f"it is ext4, and the vendor recommends {profile.instead_of_ext4}"
            )


def _missing_options(fs: Filesystem, host: Host, profiles: Sequence[Profile]) -> Said:
    """Say once, for all profiles, which options are missing or hidden."""
    missing, hidden = [], []
    for word in dict.fromkeys(canonical(w) for profile in profiles for w in profile.options):
        if not _in_force(fs, word):
            missing.append(word)
        elif _is_hidden(fs, word) and any(p.shown for p in profiles if word in p.options):
            hidden.append(word)
        else:
            yield Citation("demanded, and in force", word, _by(word, profiles))
    askers = [p for p in profiles if any(canonical(w) in missing + hidden for w in p.options)]
    if missing:
        message = (
            f"{_products(askers)}: {', '.join(missing)} {_is(missing)} demanded and not in force"
        )
        yield _options_finding(fs, host, message, askers, missing, Severity.MEDIUM)
    if hidden:
        message = (
            f"{_products(askers)}: {', '.join(hidden)} {_is(hidden)} in force, but set where no mount "
            "table shows it, and the vendor's check reads the mount table"
        )
        yield _options_finding(fs, host, message, askers, hidden, Severity.LOW)


def _in_force(fs: Filesystem, word: str) -> bool:
    """Whether a word is in force; raises Undetermined where that cannot be seen."""
    if word in ATIME_WORDS:
        return bool(fs.mounts) and all(word in mount.mount_options for mount in fs.mounts)
    known = recognize(word)
    name = known[0].name if known else word
    if name == "errors":
        return _errors_in_force(fs) == word
    return need(need(fs.options).token(name)) == word


def _errors_in_force(fs: Filesystem) -> str:
    """Return the errors= word in force: an options file lists it, a mount table may not."""
    option = need(fs.options).find("errors")
    return option.token if option else f"errors={need(fs.superblock).errors}"


def _is_hidden(fs: Filesystem, word: str) -> bool:
    known = recognize(word)
    option = need(fs.options).find(known[0].name) if known else None
    return option is not None and option.hidden


def _options_finding(
    fs: Filesystem,
    host: Host,
    message: str,
    askers: Sequence[Profile],
    words: list[str],
    severity: Severity,
) -> Finding:
    return Finding(
        message=f"{message}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(_statement(profile) for profile in askers),
        remedies=tuple(option_remedies(fs, host, words)),
    )


def _missing_features(fs: Filesystem, profile: Profile) -> Said:
    if not (profile.features or profile.cluster_bytes):
        return
    superblock = need(fs.superblock)
    lacking = [f for f in profile.features if f not in superblock.features]
    if lacking:
        yield _finding(profile, f"the filesystem was made without {', '.join(lacking)}")
        return
    block_bytes, cluster = superblock.block_bytes, superblock.cluster_blocks
    wanted = profile.cluster_bytes
    if wanted and block_bytes and cluster and block_bytes * cluster != wanted:
        has = block_bytes * cluster
        yield _finding(profile, f"its clusters have {has >> 10} KiB instead of {wanted >> 10}")


def _reserved(fs: Filesystem, profile: Profile) -> Iterator[Finding]:
    if profile.reserved_percent is None:
        return
    superblock = need(fs.superblock)
    reserved, limit = superblock.reserved_blocks, profile.reserved_percent
    if reserved is not None and reserved * PERCENT > limit * superblock.size_blocks:
        share = reserved * PERCENT / superblock.size_blocks
        yield _finding(profile, f"{share:.1f} % is reserved for root, and at most {limit} % may be")


def _finding(profile: Profile, what: str) -> Finding:
    """Return a finding that no remount cures."""
    made = bool(profile.features)
    advice = "Make the filesystem anew as the vendor's page says." if made else "See CAP002."
    if profile.instead_of_ext4:
        advice = "See the vendor's page before the data grows."
    return Finding(
        message=f"{profile.product}: {what}.",
        severity=Severity.INFO if profile.instead_of_ext4 else Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=(_statement(profile),),
        remedies=(Remedy(advice, Disruption.RECREATE if made else Disruption.ONLINE),),
    )


def _statement(profile: Profile) -> Citation:
    return Citation(f"profile {profile.name}", profile.says, profile.source)


def _products(profiles: Sequence[Profile]) -> str:
    return ", ".join(profile.product for profile in profiles)


def _by(word: str, profiles: Sequence[Profile]) -> str:
    names = [p.name for p in profiles if word in map(canonical, p.options)]
    return f"profile {', '.join(names)}"


def _is(words: list[str]) -> str:
    return "is" if len(words) == 1 else "are"

"""Vendor requirements for features, clusters, reserve and mount options, and their remedies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, for_wording, need, origin_of
from ext4audit.facts import KIB
from ext4audit.facts.features_and_bugs import NOT_BY_REMOUNT, REFUSED_BY_REMOUNT, exposure
from ext4audit.facts.host import Filesystem, Host, Profile, option_of
from ext4audit.facts.mount import ATIME_OPTIONS, Mount, flags_in_force
from ext4audit.facts.options import (
    canonical,
    option_name,
)
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, listed
from ext4audit.rule import RuleOutput
from ext4audit.rules.shared import pronoun, rootflags, superblock_field, verb, what_else_sets_it
from ext4audit.rules.shared.mount_config import refused_at_boot, tokens_by_name


def shown_remedy(fs: Filesystem, host: Host, options: Sequence[str]) -> Remedy:
    """Return the remedy that moves options from the superblock to fstab and mounts again."""
    if _only_at_boot(fs, host, tokens_by_name(options)):
        return Remedy(
            f"Clear {', '.join(options)} in the superblock.{_boot_sentences(fs, options)}",
            Disruption.REBOOT,
        )
    return Remedy(
        f"Set {', '.join(options)} in fstab, clear {pronoun(options)} in the superblock, and mount "
        "the filesystem again."
        f"{remedies.mounting.left_by_hand(fs)}{_first(fs, host)}",
        remedies.mounting.disruption_of_new_mount(fs) if fs.alive else Disruption.ONLINE,
        remedies.mounting.move_to_fstab(fs, tokens_by_name(options)),
    )


def _first(fs: Filesystem, host: Host) -> str:
    """Return a sentence on where else the options must be set; empty if fstab is enough."""
    if "/" in fs.mount_points:
        return " Also set it in rootflags=." if for_wording(rootflags(host), ()) else ""
    mount = remedies.remount.single_mount(fs)
    if mount is None or remedies.remount.fstab_line(fs, mount) is not None:
        return ""
    return f" It has no fstab entry: first set it in {remedies.mounted_by(fs)}."


def in_force_remedy(
    fs: Filesystem, host: Host, options: Sequence[str], concerned: Collection[Mount] | None = None
) -> Remedy:
    """Return the remedy that puts options in force now and persistently, flags first.

    `concerned` are the mounts whose atime option is set, by default those where it is required.
    """
    given = tokens_by_name(options)
    at_boot = _only_at_boot(fs, host, given)
    tokens = {name: token for name, token in given.items() if name not in at_boot}
    needed = _needed_with(fs, host, tokens)
    anew = _needs_new_mount(host, tokens)
    atime = [option for option in options if option in ATIME_OPTIONS]
    required = (mount for option in atime for mount in _mounts(fs, host, option))
    places = {mount.mount_point for mount in (required if concerned is None else concerned)}
    steps = remedies.flags.set_flags_and_options(
        fs, atime, {**tokens, **needed}, by_new_mount=anew, places=places
    )
    now = [option for option in options if option_name(option) not in at_boot]
    also = ", with dioread_lock, because of PRF001 on this kernel" if needed else ""
    first = f"Set {', '.join(now)} in fstab and put {pronoun(now)} in force{also}." if now else ""
    by_hand = [remedies.mounting.left_by_hand(fs)] if anew else []
    by_hand += [what_else_sets_it(fs, host, name) for name in tokens]
    by_hand += [_also_on(fs, host, list(tokens.values()))]
    by_hand += [remedies.options.not_persistent(fs, steps)] if now else []
    by_hand += [_boot_sentences(fs, [*at_boot.values()])] if at_boot else []
    return Remedy(
        f"{first}{''.join(dict.fromkeys(by_hand))}".lstrip(),
        remedies.mounting.disruption_of_new_mount(fs)
        if anew or at_boot
        else remedies.options.disruption(steps)
        if steps
        else Disruption.REMOUNT,
        steps,
    )


def _only_at_boot(fs: Filesystem, host: Host, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the root that its entry in fstab cannot set, by name.

    The boot remounts the root with the options of fstab. If the kernel refuses, the root stays
    read-only (DRF004).
    """
    return {name: each for name, each in tokens.items() if refused_at_boot(fs, host, name, each)}


def _boot_sentences(fs: Filesystem, tokens: Sequence[str]) -> str:
    """Return the sentences on where the root gets options that no remount can set."""
    return (
        f" Set {', '.join(tokens)} in rootflags= of the boot loader's configuration, not only "
        "in fstab: the boot remounts the root with the options of fstab, and the kernel would "
        f"refuse {pronoun(tokens)}.{remedies.mounting.left_by_hand(fs)}"
    )


def _mounts(fs: Filesystem, host: Host, token: str) -> tuple[Mount, ...]:
    """Return the mounts in this namespace on which a profile requires a token."""
    demanding = [active for active in host.profiles if token in required_words(active.profile)]
    return tuple(m for m in fs.mounts if any(each.covers((m.mount_point,)) for each in demanding))


def _also_on(fs: Filesystem, host: Host, tokens: Sequence[str]) -> str:
    """Return a sentence on other mounts that the ext4 options also affect."""
    wanted = {mount for token in tokens for mount in _mounts(fs, host, token)}
    others = [mount.mount_point for mount in fs.mounts if mount not in wanted]
    if not wanted or not others:
        return ""
    applies, then = ("applies", "it is") if len(tokens) == 1 else ("apply", "they are")
    return (
        f" {', '.join(tokens)} {applies} to the whole filesystem: {then} then in force on "
        f"{listed(others, 1)} too, and the first line of fstab that mounts it must set "
        f"{pronoun(tokens)}."
    )


def _needed_with(fs: Filesystem, host: Host, tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the option that nodelalloc needs if dioread_nolock would make writes slow."""
    if tokens.get("delalloc") != "nodelalloc":
        return {}
    option = option_of(fs, "dioread_nolock")
    exposed = exposure("PRF001", host.kernel)
    affected = isinstance(exposed, Known) and exposed.value.affected
    off = option is not None and option.token == "nodioread_nolock"  # noqa: S105 - an option
    return {"dioread_nolock": "nodioread_nolock"} if affected and not off else {}


def _needs_new_mount(host: Host, tokens: Mapping[str, str]) -> bool:
    """Return whether the kernel refuses, or may refuse, a remount with these options."""
    if not (NOT_BY_REMOUNT - {"delalloc"}).isdisjoint(tokens):
        return True
    if tokens.get("delalloc") != "nodelalloc":
        return False
    kernel = for_wording(host.kernel, None)
    return kernel is None or kernel.since(*REFUSED_BY_REMOUNT["delalloc"])


PERCENT = 100


def layout_checks(fs: Filesystem, profile: Profile) -> Iterator[RuleOutput]:
    """Yield the checks of one profile; each can raise Undetermined."""
    if profile.features:
        yield _features(fs, profile)
    if profile.cluster_bytes:
        yield _clusters(fs, profile, profile.cluster_bytes)
    if profile.reserved_percent is not None:
        yield _reserve(fs, profile, profile.reserved_percent)
    if profile.instead_of_ext4:
        yield _other_filesystem(profile)


def statement(profile: Profile) -> Citation:
    """Cite the vendor's statement that the profile is based on."""
    return Citation(f"profile {profile.name}", profile.says, profile.source)


def _features(fs: Filesystem, profile: Profile) -> RuleOutput:
    features = need(fs.superblock).features
    lacking = [feature for feature in profile.features if feature not in features]
    if lacking:
        words = ", ".join(lacking)
        yield _creation_finding(
            profile, f"the filesystem was created without {words}", words, _recreate(profile)
        )
    else:
        yield Citation("features", ", ".join(profile.features), origin_of(fs.superblock))


def _clusters(fs: Filesystem, profile: Profile, wanted: int) -> RuleOutput:
    if set(profile.features) - need(fs.superblock).features:
        return  # without the feature there are no clusters
    block_bytes, blocks = need(
        superblock_field(fs, "block size", lambda superblock: superblock.block_bytes),
        superblock_field(fs, "cluster size", lambda superblock: superblock.cluster_blocks),
    )
    has = block_bytes * blocks
    if has != wanted:
        what = f"its clusters have {has // KIB} KiB instead of {wanted // KIB} KiB"
        yield _creation_finding(profile, what, "clusters", _recreate(profile))
    else:
        yield Citation("cluster size", f"{has // KIB} KiB", origin_of(fs.superblock))


def _reserve(fs: Filesystem, profile: Profile, most: float) -> RuleOutput:
    reserved = need(
        superblock_field(fs, "reserved blocks", lambda superblock: superblock.reserved_blocks)
    )
    blocks = need(fs.superblock).size_blocks
    if reserved * PERCENT <= most * blocks or not blocks:
        yield Citation("reserved blocks", str(reserved), origin_of(fs.superblock))
        return
    share = reserved * PERCENT / blocks
    what = f"{share:.1f} % is reserved for root; the limit is {most:g} %"
    yield _creation_finding(profile, what, "reserve", _lower_reserve(fs, profile, reserved))


def _other_filesystem(profile: Profile) -> RuleOutput:
    advice = Remedy("Read the vendor's page before the data grows.", Disruption.RECREATE)
    what = f"the filesystem is ext4, but the vendor recommends {profile.instead_of_ext4}"
    yield _creation_finding(profile, what, "filesystem", advice, Severity.INFO)


def _creation_finding(
    profile: Profile, what: str, fact: str, remedy: Remedy, severity: Severity = Severity.MEDIUM
) -> Finding:
    return Finding(
        message=f"{profile.product}: {what}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=(statement(profile),),
        remedies=(remedy,),
        fact=f"{profile.name} {fact}",
        summary=f"does not meet the requirements of profile {profile.name}: {fact}",
    )


def _recreate(profile: Profile) -> Remedy:
    clusters = f" -C {profile.cluster_bytes}" if profile.cluster_bytes else ""
    return Remedy(
        "Back up, recreate and restore; it cannot be changed in place. mkfs.ext4 -O "
        f"{','.join(profile.features)}{clusters} DESTROYS all data.",
        Disruption.RECREATE,
        destructive=True,
    )


def _lower_reserve(fs: Filesystem, profile: Profile, reserved: int) -> Remedy:
    """Return the remedy that reserves as much as a profile allows."""
    percent = profile.new_reserve_percent
    if not percent:
        return Remedy(
            "Reserve nothing for root.",
            Disruption.ONLINE,
            remedies.superblock_fields.reserve_nothing(fs, reserved),
            trade_off="Root cannot clean up on a filesystem that is full to the last block.",
        )
    blocks = int(need(fs.superblock).size_blocks * percent // PERCENT)
    steps = remedies.superblock_fields.set_reserved_blocks(fs, blocks)
    return Remedy(f"Reserve {percent:g} % for root.", Disruption.ONLINE, steps)


def demanded_options(fs: Filesystem, host: Host, profiles: Sequence[Profile]) -> RuleOutput:
    """Judge which required options are missing or hidden, for all profiles together."""
    missing, hidden = [], []
    for token in dict.fromkeys(w for profile in profiles for w in required_words(profile)):
        demanding = _demanding([token], profiles)
        if not is_in_force(fs, host, token):
            missing.append(token)
        elif _is_hidden(fs, token) and any(profile.shown for profile in demanding):
            hidden.append(token)
        else:
            names = ", ".join(profile.name for profile in demanding)
            yield Citation("required, and in force", token, f"profile {names}")
    if missing:
        remedy = in_force_remedy(fs, host, missing)
        yield _options_finding("missing", missing, _demanding(missing, profiles), remedy)
    if hidden:
        remedy = shown_remedy(fs, host, hidden)
        yield _options_finding("hidden", hidden, _demanding(hidden, profiles), remedy)


def required_words(profile: Profile) -> list[str]:
    """Return the required options of a profile in canonical form."""
    return [canonical(token) for token in profile.options]


def _demanding(words: Sequence[str], profiles: Sequence[Profile]) -> list[Profile]:
    return [profile for profile in profiles if not set(words).isdisjoint(required_words(profile))]


def is_in_force(fs: Filesystem, host: Host, token: str) -> bool:
    """Return whether a token is in force; raises Undetermined if that is unknown."""
    if token in ATIME_OPTIONS:
        remedies.flags.seen_here(fs)
        return all(token in flags_in_force(mount) for mount in _mounts(fs, host, token))
    if option_name(token) == "errors":
        return _errors_in_force(fs) == token
    return need(need(fs.options).token(option_name(token))) == token


def _errors_in_force(fs: Filesystem) -> str:
    """Return the errors= token in force, from the superblock if the mount table omits it."""
    option = need(fs.options).find("errors")
    return option.token if option else f"errors={need(fs.superblock).errors}"


def _is_hidden(fs: Filesystem, token: str) -> bool:
    option = need(fs.options).find(option_name(token))
    return option is not None and option.hidden


HIDDEN = (
    "and in force, but hidden in the superblock: the vendor's check reads the mount table and fails"
)
STATES = {
    "missing": (Severity.MEDIUM, "but not in force"),
    "hidden": (Severity.LOW, HIDDEN),
}
"""The severity of each state of a required option, and the clause on it in the message."""


def _options_finding(
    state: str, words: Sequence[str], demanding: Sequence[Profile], remedy: Remedy
) -> Finding:
    severity, clause = STATES[state]
    products = ", ".join(profile.product for profile in demanding)
    return Finding(
        message=f"{products}: {', '.join(words)} {verb(words)} required {clause}.",
        severity=severity,
        confidence=Confidence.CONFIRMED,
        citations=tuple(statement(profile) for profile in demanding),
        remedies=(remedy,),
        fact=f"{state} {','.join(sorted(words))}",
        summary=f"required option {state}: {', '.join(sorted(words))}",
    )

"""DRF002: An option in fstab is not in force, or this kernel refuses or ignores it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, Unknown, is_surely, need, raise_for
from ext4audit.facts.features_and_bugs import NOT_BY_REMOUNT, REFUSED_BY_REMOUNT
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import SUPERBLOCK_FLAGS, EffectiveOptions, Provenance
from ext4audit.facts.options import (
    canonical,
    spec_named,
)
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.drift import (
    Drift,
    Refusals,
    findings_of,
    listed,
    refusals_of,
    wrong_tokens,
)
from ext4audit.rules.shared import in_brief, pronoun, series, verb
from ext4audit.rules.shared.demands import (
    discouraged,
    kept_text,
    replaced_demands,
    states_of,
    warning_text,
)
from ext4audit.rules.shared.error_state import has_stopped
from ext4audit.rules.shared.mount_config import (
    CMDLINE,
    PROTECTING,
    SHOWN_OTHERWISE,
    MountConfig,
    configs_of,
    configured_flags,
    doubtful_repeats,
    refused_by_remount,
    severity_of,
    tokens_by_name,
)

UNLISTED = {"data_err": "data_err=ignore"}
"""The default states, by name, that no kernel lists (options files of 4.14 to 7.2)."""


@rule(
    "DRF002",
    "fstab-not-active",
    severity=Severity.HIGH,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: ext4_remount()"),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Options and per-mount flags that are set in the fstab entry of a mounted filesystem but are not
    in force; and options in the entry that this kernel's ext4 refuses, alone or in combination, or
    accepts and ignores. SEC002 checks `nosuid`, `nodev` and `noexec`, and DRF004 checks the data
    mode of the root filesystem and what else its remount cannot set. If several entries mount the
    same filesystem, the ext4 options of the later entries have no effect, and the rule reports them
    as well. It also reports a second entry for one mount point, which is never used.

    ## Why it matters

    Administrators read fstab to know how a filesystem is mounted. If it differs from the options
    in force, the next reboot changes the filesystem's behaviour. An option that ext4 refuses
    makes the next mount fail; `findmnt --verify` does not detect it.

    ## Remedy

    Remount with the options of fstab, or correct fstab. The command names both the device and the
    directory, so that mount(8) does not read fstab, and repeats the current flags of the mount, so
    that nothing else changes. The data mode and a few other options only change by unmounting.

    ## When to ignore

    Ignore it if the entry was edited ahead of a planned reboot.
    """
    intents = configs_of(fs, host, with_repeated=True)
    options = need(fs.options)
    gaps = list(doubtful_repeats(fs))
    for intent in intents:
        yield from intent.cite()
        refusals = refusals_of(fs, host, intent, options)
        gaps += refusals.gaps
        yield from findings_of(refusals, intent, planned=host.planned)
        configured = _compare(_judged_here(host, intent, refusals, options), options, gaps)
        flags = sorted(_missing_flags(intent))
        if configured or flags:
            yield _finding(fs, host, configured, flags, intent)
        yield from _of_rootflags(fs, intent, _compare(intent.boot_tokens, options, gaps))
    raise_for(gaps)


def _missing_flags(intent: MountConfig) -> frozenset[str]:
    """Return the flags that an entry sets but that are not in force, except those of SEC002.

    SEC002 only judges the line that is used.
    """
    of_superblock = SUPERBLOCK_FLAGS.intersection(intent.mount.super_options)
    asked = configured_flags(intent.entry.line.options)
    elsewhere = frozenset[str]() if intent.is_repeated else PROTECTING
    return asked - intent.live_flags - of_superblock - elsewhere


def _judged_here(
    host: Host, intent: MountConfig, refusals: Refusals, options: EffectiveOptions
) -> Mapping[str, str]:
    """Return the tokens that an entry sets, except refused or ignored ones and those of DRF004."""
    elsewhere = set(_of_root(host, intent, options)) if intent.is_remount_of_root else set()
    without = {canonical(token) for token in refusals.tokens}
    elsewhere |= {name for name, token in intent.tokens.items() if token in without}
    return {name: token for name, token in intent.tokens.items() if name not in elsewhere}


def _of_root(host: Host, intent: MountConfig, options: EffectiveOptions) -> Iterator[str]:
    """Yield the names of the options of the root's entry that DRF004 judges."""
    boot = tokens_by_name(intent.boot_options)
    for name, token in intent.tokens.items():
        option = options.find(name)
        before = boot.get(name) or (option.baseline if option else None)
        if is_surely(refused_by_remount(host, name, token)) and (name == "data" or before != token):
            yield name


def _compare(
    tokens: Mapping[str, str], options: EffectiveOptions, gaps: list[Unknown]
) -> list[Drift]:
    """Compare configured tokens with those in force; adds unknown states to `gaps`."""
    inactive = []
    for name, token in tokens.items():
        option = options.find(name)
        if name in SHOWN_OTHERWISE or (option is not None and option.token == token):
            continue
        if option is not None:
            if option.set_by is not Provenance.IMPLIED:  # by data=journal, which PRF007 judges
                inactive.append(Drift(name, token, option.token, option.baseline))
        elif options.gap is not None:
            gaps.append(options.gap)
        elif UNLISTED.get(name, token) != token:
            inactive.append(Drift(name, token, UNLISTED[name], UNLISTED[name]))
        elif spec_named(name).off == "" and not spec_named(name).has_value:
            inactive.append(Drift(name, token, f"no {token}"))
    return inactive


def _of_rootflags(fs: Filesystem, intent: MountConfig, inactive: list[Drift]) -> Iterator[Finding]:
    """Yield the drift from rootflags=, without remedies: none edits the boot loader's files."""
    if inactive:
        tokens = [drift.intended for drift in inactive]
        yield Finding(
            message=f"{CMDLINE} sets {', '.join(tokens)}, but {_state(inactive, ())}.",
            severity=severity_of((drift.name for drift in inactive), ()),
            confidence=Confidence.CONFIRMED,
            citations=_cite(fs, inactive, intent),
            remedies=(),
            fact=f"rootflags {', '.join(tokens)}",
            summary=f"{listed(tokens)} in rootflags= {verb(tokens)} not in force",
        )
    if intent.boot_dead:
        yield _dead(intent.boot_dead, intent)


def _cite(fs: Filesystem, inactive: Sequence[Drift], intent: MountConfig) -> tuple[Citation, ...]:
    """Cite what is configured, then what is in force."""
    configured, *rest = intent.cite()
    listing = f"/proc/fs/ext4/{fs.name}/options"
    live = (Citation(drift.name, drift.in_force, listing) for drift in inactive)
    return in_brief((configured, *rest[:-1], *live, rest[-1]))


def _finding(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: MountConfig
) -> Finding:
    tokens = [*(drift.intended for drift in inactive), *flags]
    return Finding(
        message=f"{intent.origin} sets {', '.join(tokens)}, but {_state(inactive, flags)}"
        f"{_reason(intent, inactive, flags)}.",
        severity=severity_of((drift.name for drift in inactive), flags),
        confidence=Confidence.CONFIRMED,
        citations=_cite(fs, inactive, intent),
        remedies=tuple(_remedies(fs, host, inactive, flags, intent)),
        fact=f"{intent.mount.mount_point} {','.join(tokens)}",
        summary=f"{listed(tokens)} in fstab {verb(tokens)} not in force",
    )


def _state(inactive: Sequence[Drift], flags: Sequence[str]) -> str:
    """Return the clause on the tokens in force instead, and on those not in force."""
    missing = [*(each.intended for each in inactive if each.is_missing), *flags]
    live = [each.in_force for each in inactive if not each.is_missing]
    if not missing:
        return f"{', '.join(live)} {verb(live)} in force"
    if not live:
        return f"{'it is' if len(missing) == 1 else 'they are'} not in force"
    return f"{', '.join(live)} {verb(live)} in force, and {', '.join(missing)} {verb(missing)} not"


def _without_effect(
    intent: MountConfig, inactive: Sequence[Drift], flags: Sequence[str]
) -> tuple[str, ...]:
    """Return superblock options in a line that does not mount the filesystem first.

    A line that is never used has no effect at all, so all its options are returned.
    """
    if intent.is_repeated:
        return (*(each.intended for each in inactive), *flags)
    if intent.first:
        return ()
    return (*(each.intended for each in inactive), *(f for f in flags if f in SUPERBLOCK_FLAGS))


def _reason(intent: MountConfig, inactive: Sequence[Drift], flags: Sequence[str]) -> str:
    """Return the clause on why the options of a later line have no effect."""
    if not _without_effect(intent, inactive, flags):
        return ""
    if intent.is_repeated:
        return f": of two lines for one mount point only the first counts, line {intent.used_line}"
    return f": line {intent.first_line} mounts it first, and a later mount changes no ext4 option"


def _dead(tokens: tuple[str, ...], intent: MountConfig) -> Finding:
    kind = "an option" if len(tokens) == 1 else "options"
    return Finding(
        message=f"{CMDLINE} sets {', '.join(tokens)}, which {verb(tokens)} not {kind} that ext4 "
        f"lists: this kernel ignores {pronoun(tokens)}, and another kernel may refuse the mount.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=(),
        fact=f"rootflags {','.join(tokens)}",
        summary=f"rootflags= sets {listed(tokens)}, not {kind} of ext4",
    )


def _remedies(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: MountConfig
) -> Iterator[Remedy]:
    entry = _compare(intent.tokens, need(fs.options), [])
    by_mount = [drift.intended for drift in entry if _by_mount_only(drift, host)]
    later = _without_effect(intent, entry, flags)
    configured = [*(drift.intended for drift in entry), *flags]
    bad = discouraged(configured, fs, host)
    kept = replaced_demands(fs, host, states_of(configured))
    refused = refusals_of(fs, host, intent, need(fs.options)).refused
    if not (by_mount or later or bad or kept or refused or has_stopped(fs)):
        yield from _remount(fs, inactive, flags, intent)
    fix = _correct(intent, wrong_tokens(fs, host, inactive, flags, intent), inactive)
    if fix is not None:
        why = f" {warning_text(bad)}." if bad else ""
        yield fix._replace(summary=f"{fix.summary}{why}{kept_text(kept)}")
    if later:
        yield from () if bad else (_in_the_first_line(intent, later),)
    elif by_mount and fix is None:
        tokens = ", ".join(by_mount)
        yield Remedy(
            f"Unmount it and mount it again: {tokens} cannot be changed back and forth "
            "by a remount.",
            Disruption.UNMOUNT,
        )
    elif kept and fix is None:
        yield Remedy(f"Set {', '.join(kept)} in fstab instead (see CMP007).", Disruption.ONLINE)


def _in_the_first_line(intent: MountConfig, tokens: Sequence[str]) -> Remedy:
    """Return advice instead of commands: only the administrator knows what is wanted."""
    line = intent.used_line if intent.is_repeated else intent.first_line
    return Remedy(
        f"If {series(tokens)} {verb(tokens)} needed, set {pronoun(tokens)} in line {line} of "
        "fstab, which mounts the filesystem first.",
        Disruption.ONLINE,
    )


def _by_mount_only(drift: Drift, host: Host) -> bool:
    """Return whether a remount with the intended state fails, may fail, or cannot be taken back.

    No remount turns off an option without an opposite, such as debug (seen on 6.18).
    """
    if drift.is_missing:
        return True
    if drift.name != "delalloc":
        return drift.name in NOT_BY_REMOUNT
    old = isinstance(host.kernel, Known) and not host.kernel.value.since(
        *REFUSED_BY_REMOUNT["delalloc"]
    )
    return drift.intended == "nodelalloc" and not old


def _remount(
    fs: Filesystem, inactive: list[Drift], flags: list[str], intent: MountConfig
) -> Iterator[Remedy]:
    """Yield the remount that applies the options of fstab, with its verification."""
    changed = [(drift.intended, drift.in_force) for drift in inactive]
    steps = remedies.flags.remount_by_fstab(fs, intent.mount, changed, flags)
    if steps:
        yield Remedy("Remount with the options of fstab.", Disruption.REMOUNT, steps)


def _correct(intent: MountConfig, stale: Sequence[str], inactive: Sequence[Drift]) -> Remedy | None:
    """Return the remedy that makes the fstab entry match what is in force, if that ends the drift.

    Only literal options can be removed: `user` implies nosuid, nodev and noexec. A token in force
    is added to fstab if neither the superblock nor the kernel would set it.
    """
    line = intent.entry.line
    literal = [o for o in line.options if o in stale or canonical(o) in stale]
    kept = [option for option in line.options if option not in literal]
    new = [
        remedies.remount.typed(drift.in_force)
        for drift in inactive
        if intent.first and drift.intended in stale and drift.by_hand
    ]
    steps = remedies.configuration.option_steps(line, literal, new)
    left = configured_flags(kept) - intent.live_flags - PROTECTING
    if not steps or left.intersection(stale):
        return None
    write = f" and add {', '.join(new)}" if new else ""
    return Remedy(
        summary=f"Change fstab to match the options in force: remove {', '.join(literal)}{write}.",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off="Choose this if the options in force are the intended ones.",
    )

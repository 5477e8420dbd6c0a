"""DRF001: An option is in force that the next mount will not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import MOUNT_TABLE, Unknown, need, raise_for
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, EffectiveOption, Provenance, intended_flags
from ext4audit.facts.options import TAKEN
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.drift import handling, listed, refusals_of
from ext4audit.rules.shared import in_brief, pronoun, verb
from ext4audit.rules.shared.demands import discouraged, replaced_demands, states_of, warning_text
from ext4audit.rules.shared.mount_config import NOT_COMPARED, MountConfig, configs_of, severity_of


@rule(
    "DRF001",
    "live-not-in-fstab",
    severity=Severity.MEDIUM,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: _ext4_show_options()"),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Options and per-mount flags in force that are set neither by the fstab entry, nor by
    `rootflags=` for the root filesystem, nor by the superblock. They were set by a remount, and the
    next mount loses them.

    ## Why it matters

    A fix that was applied by remount is lost at the next reboot. So is a test setting, at a time
    that nobody planned.

    ## Remedy

    Add the option to the fstab entry, or remount with the options of fstab.

    ## When to ignore

    Ignore it while a change is being tested. Filesystems without an fstab entry (systemd mount
    units, autofs, container volumes) are not checked.
    """
    intents = configs_of(fs, host)
    options = need(fs.options)
    lost = [option for option in options.options if _is_lost(option, intents)]
    for intent in intents:
        yield from intent.cite()
        flags = sorted(_lost_flags(intent))
        of_superblock = lost if intent.first else []
        if of_superblock or flags:
            yield _finding(fs, host, of_superblock, flags, intent)
    unsure = any(_may_be_lost(option, intents) for option in options.options)
    if unsure and isinstance(fs.superblock, Unknown):
        raise_for((fs.superblock,))


def _may_be_lost(option: EffectiveOption, intents: Sequence[MountConfig]) -> bool:
    """Return whether a listed option may come from the superblock, which was not read."""
    is_listed = any(layer.provenance is Provenance.MOUNT for layer in option.layers)
    is_unsure = option.set_by is Provenance.UNKNOWN and is_listed
    return is_unsure and _is_lost(option._replace(set_by=Provenance.MOUNT), intents)


def _is_lost(option: EffectiveOption, intents: Sequence[MountConfig]) -> bool:
    """Return whether the option is in force only because of a past mount(2) call.

    An option that any entry sets does not count: which of several entries mounts the superblock
    is unknown. If the first entry sets another state, DRF002 reports the option.
    """
    configured = {t for i in intents for t in (*i.tokens.values(), *i.boot_tokens.values())}
    dead = {token for intent in intents for token in (*intent.dead, *intent.boot_dead)}
    return (
        option.set_by is Provenance.MOUNT
        and option.name
        not in NOT_COMPARED | intents[0].tokens.keys() | intents[0].boot_tokens.keys()
        and option.token not in configured | dead
        and option.token != option.baseline
    )


def _lost_flags(intent: MountConfig) -> frozenset[str]:
    """Return the flags that the next mount will not have; DRF002 judges contradictory ones.

    relatime is the default. If the superblock is read-only under a writable mount, the kernel
    made it read-only after an error, not a mount call.
    """
    options = (*intent.boot_options, *intent.entry.line.options)
    has_atime = any(option in ATIME_OPTIONS for option in options)
    atime = frozenset(ATIME_OPTIONS if has_atime else {"relatime"})
    forced = frozenset({"ro"}).difference(intent.mount.mount_options)
    return intent.live_flags - intended_flags(options) - atime - forced


def _finding(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str], intent: MountConfig
) -> Finding:
    tokens = [option.token for option in lost] + flags
    unsure = any(option.baseline is None for option in lost)
    return Finding(
        message=f"{', '.join(tokens)} {verb(tokens)} in force but not set in {intent.origin}: "
        f"the next mount loses {pronoun(tokens)}.",
        severity=severity_of((option.name for option in lost), flags),
        confidence=Confidence.LIKELY if unsure else Confidence.CONFIRMED,
        citations=in_brief(
            (
                *intent.cite()[:1],
                *(Citation("in force", option.token, option.origin) for option in lost),
                *(Citation("in force", flag, MOUNT_TABLE) for flag in flags),
                *intent.cite()[1:],
            )
        ),
        remedies=(*_keep(fs, host, tokens, intent), *_revert(fs, host, lost, flags)),
        fact=f"{intent.mount.mount_point} {','.join(tokens)}",
        summary=f"{listed(tokens)} {verb(tokens)} in force but not in fstab",
    )


def _keep(fs: Filesystem, host: Host, tokens: list[str], intent: MountConfig) -> Iterator[Remedy]:
    bad = discouraged(tokens, fs, host)
    if bad:
        why = warning_text(bad)
        rule_s = "that rule" if len(set(bad.values())) == 1 else "those rules"
        yield Remedy(
            f"Do not add {pronoun(tokens)} to fstab, because {why}. Apply the remedy of {rule_s} "
            "first.",
            Disruption.ONLINE,
        )
        return
    if replaced_demands(fs, host, states_of(tokens)):
        return
    refused = [each for each in _refused_with(fs, host, tokens, intent) if each[0] in tokens]
    if refused:
        yield Remedy(
            f"Do not add {pronoun(tokens)} to fstab, because the kernel refuses "
            f"{', '.join(f'{token} ({why})' for token, why in refused)} there.",
            Disruption.ONLINE,
        )
        return
    steps = remedies.configuration.option_steps(intent.entry.line, (), tokens)
    if not steps:
        return
    yield Remedy(
        summary=f"Keep {pronoun(tokens)}: add {', '.join(tokens)} to fstab.",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off="Choose this if the change is meant to be permanent.",
    )


def _refused_with(
    fs: Filesystem, host: Host, tokens: Sequence[str], intent: MountConfig
) -> tuple[tuple[str, str], ...]:
    """Return what the kernel refuses of the entry once it also has these tokens."""
    line = intent.entry.line
    longer = intent.entry._replace(line=line._replace(options=(*line.options, *tokens)))
    return refusals_of(fs, host, intent._replace(entry=longer), need(fs.options)).refused


def _revert(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str]
) -> Iterator[Remedy]:
    """Yield the remount that reverts the options to what the next mount would set."""
    steps = remedies.remount.revert_steps(fs, lost)
    if flags or not steps:
        return
    after = [remedies.remount.typed(option.baseline) for option in lost if option.baseline]
    if any(handling(token, host.kernel, need(fs.options)) != TAKEN for token in after):
        return
    wanted = {option.name: option.baseline or "" for option in lost}
    if discouraged(after, fs, host) or replaced_demands(fs, host, wanted):
        return
    yield Remedy(
        summary=f"Revert to the options of fstab: remount with {', '.join(after)}.",
        disruption=Disruption.REMOUNT,
        steps=steps,
        trade_off="Choose this if the change was temporary.",
    )

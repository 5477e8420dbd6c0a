"""DRF001: An option is in force that the next mount will not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit import remedies
from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, intended_flags
from ext4audit.facts.options import EffectiveOption, Provenance
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared.demands import against, discouraged, overruled, warning
from ext4audit.rules.shared.intent import NOT_COMPARED, Intent, intents_of, severity_of


@rule(
    "DRF001",
    "live-not-in-fstab",
    severity=Severity.MEDIUM,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: _ext4_show_options()"),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Options and per-mount flags in force that neither the fstab entry, nor rootflags= for the
    root, nor the superblock asks for: somebody remounted, and the next mount forgets it.

    ## Why it matters

    A cure applied by remount is worth nothing when a reboot undoes it; and a test that somebody
    left running ends at a moment that nobody chose.

    ## Remedy

    Write the option into the fstab entry, or remount as fstab says.

    ## When to ignore

    While a change is tried out on purpose. Filesystems without an fstab entry (systemd mount
    units, autofs, container volumes) are not judged.
    """
    intents = intents_of(fs, host)
    options = need(fs.options)
    lost = [option for option in options.options if _is_lost(option, intents)]
    for intent in intents:
        yield from intent.cite()
        flags = sorted(_lost_flags(intent))
        of_superblock = lost if intent.first else []
        if of_superblock or flags:
            yield _finding(fs, host, of_superblock, flags, intent)


def _is_lost(option: EffectiveOption, intents: Sequence[Intent]) -> bool:
    """Whether only a past mount(2) call holds the option in force.

    Not what any entry sets: which of several entries mounts the superblock is unknown. DRF002
    reports another state that the first entry sets.
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


def _lost_flags(intent: Intent) -> frozenset[str]:
    """Return the flags that the next mount will not have; DRF002 judges contradictory ones.

    relatime is the default. A superblock that is read-only under a writable mount was made so by
    the kernel, after an error: no call set it.
    """
    options = (*intent.boot_options, *intent.entry.line.options)
    has_atime = any(option in ATIME_OPTIONS for option in options)
    atime = frozenset(ATIME_OPTIONS if has_atime else {"relatime"})
    forced = frozenset({"ro"}).difference(intent.mount.mount_options)
    return intent.live_flags - intended_flags(options) - atime - forced


def _finding(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str], intent: Intent
) -> Finding:
    tokens = [option.token for option in lost] + flags
    unsure = any(option.baseline is None for option in lost)
    return Finding(
        message=f"{', '.join(tokens)} will be gone after the next mount: "
        f"{intent.origin} does not ask for {'it' if len(tokens) == 1 else 'them'}.",
        severity=severity_of((option.name for option in lost), flags),
        confidence=Confidence.LIKELY if unsure else Confidence.CONFIRMED,
        citations=(
            *(Citation("in force", option.token, option.origin) for option in lost),
            *(Citation("in force", flag, "/proc/self/mountinfo") for flag in flags),
            *intent.cite(),
        ),
        remedies=(*_keep(fs, host, tokens, intent), *_go_back(fs, host, lost, flags, intent)),
        fact=f"{intent.mount.mount_point} {','.join(tokens)}",
    )


def _keep(fs: Filesystem, host: Host, tokens: list[str], intent: Intent) -> Iterator[Remedy]:
    bad = discouraged(tokens, fs, host)
    if bad:
        first = f"{warning(bad)}: follow that rule first."
        yield Remedy(f"Do not write it into fstab: {first}", Disruption.ONLINE)
        return
    if overruled(fs, host, tokens):
        return
    steps = remedies.fstab.option_steps(intent.entry.line, (), tokens)
    if not steps:
        return
    yield Remedy(
        summary=f"Keep what is in force: write {', '.join(tokens)} into fstab.",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off="Right when the option was meant to stay.",
    )


def _go_back(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str], intent: Intent
) -> Iterator[Remedy]:
    """Yield the remount that reverts the options, as the next mount would."""
    steps = remedies.remount.revert_steps(fs, intent.mount, lost)
    if flags or not steps:
        return
    after = [remedies.remount.typed(option.baseline) for option in lost if option.baseline]
    wanted = {option.name: option.baseline or "" for option in lost}
    if discouraged(after, fs, host) or any(against(fs, host, wanted)):
        return
    yield Remedy(
        summary=f"Go back to what fstab says: remount with {', '.join(after)}.",
        disruption=Disruption.REMOUNT,
        steps=steps,
        trade_off="Right when the option was a trial.",
    )

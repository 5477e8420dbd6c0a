"""DRF001: An option is in force that the next mount will not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.options import EffectiveOption, Provenance
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
from ext4audit.remedies.fstab import edit_options, says
from ext4audit.remedies.remount import NOT_BY_REMOUNT, intended_flags, remount_command, typed
from ext4audit.remedies.shell import quote
from ext4audit.rule import Said, rule
from ext4audit.rules.shared.demands import against, condemned, overruled, warning
from ext4audit.rules.shared.intent import NOT_COMPARED, Intent, intents_of, severity_of


@rule(
    "DRF001",
    "live-not-in-fstab",
    severity=Severity.MEDIUM,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: _ext4_show_options()"),
)
def check(fs: Filesystem, host: Host) -> Said:
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

    Not what any entry asks for: which of several mounts the superblock is not known. Another
    state that the first entry asks for is DRF002's to say.
    """
    asked = {t for i in intents for t in (*i.tokens.values(), *i.boot_tokens.values())}
    dead = {word for intent in intents for word in (*intent.dead, *intent.boot_dead)}
    return (
        option.set_by is Provenance.MOUNT
        and option.name
        not in NOT_COMPARED | intents[0].tokens.keys() | intents[0].boot_tokens.keys()
        and option.token not in asked | dead
        and option.token != option.baseline
    )


def _lost_flags(intent: Intent) -> frozenset[str]:
    """Return the flags that the next mount will not have; DRF002 judges a word against another.

    relatime is what every mount has that asks for nothing else. A superblock that is read-only
    under a writable mount was made so by the kernel, after an error: no call asked for it.
    """
    words = (*intent.boot_words, *intent.entry.line.options)
    told = frozenset(
        ATIME_OPTIONS if any(word in ATIME_OPTIONS for word in words) else {"relatime"}
    )
    forced = frozenset({"ro"}).difference(intent.mount.mount_options)
    return intent.live_flags - intended_flags(words) - told - forced


def _finding(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str], intent: Intent
) -> Finding:
    words = [option.token for option in lost] + flags
    unsure = any(option.baseline is None for option in lost)
    return Finding(
        message=f"{', '.join(words)} will be gone after the next mount: "
        f"{intent.origin} does not ask for {'it' if len(words) == 1 else 'them'}.",
        severity=severity_of((option.name for option in lost), flags),
        confidence=Confidence.LIKELY if unsure else Confidence.CONFIRMED,
        citations=(
            *(Citation("in force", option.token, option.origin) for option in lost),
            *(Citation("in force", flag, "/proc/self/mountinfo") for flag in flags),
            *intent.cite(),
        ),
        remedies=(*_keep(fs, host, words, intent), *_go_back(fs, host, lost, flags, intent)),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _keep(fs: Filesystem, host: Host, words: list[str], intent: Intent) -> Iterator[Remedy]:
    bad = condemned(words, fs, host)
    if bad:
        first = f"{warning(bad)}: follow that rule first."
        yield Remedy(f"Do not write it into fstab: {first}", Disruption.ONLINE)
        return
    if overruled(fs, host, words):
        return
    edit = edit_options(intent.entry.line, (), words)
    if edit is None:
        return
    yield Remedy(
        summary=f"Keep what is in force: write {', '.join(words)} into fstab.",
        disruption=Disruption.ONLINE,
        steps=(
            *(Step(Phase.PERSISTENT, command) for command in edit.apply),
            *(Step(Phase.VERIFY, command) for command in says(intent.entry.line, words)),
            *(Step(Phase.ROLLBACK, command) for command in edit.undo),
        ),
        trade_off="Right when the option was meant to stay.",
    )


def _go_back(
    fs: Filesystem, host: Host, lost: list[EffectiveOption], flags: list[str], intent: Intent
) -> Iterator[Remedy]:
    """Yield the remount that gives up the options: what the next mount would do anyway."""
    before = [typed(option.token) for option in lost]
    after = [typed(option.baseline) for option in lost if option.baseline]
    where = quote(intent.mount.mount_point)
    blocked = {option.name for option in lost} & NOT_BY_REMOUNT
    if flags or blocked or len(after) < len(lost) or where is None:
        return
    wanted = {option.name: option.baseline or "" for option in lost}
    if condemned(after, fs, host) or any(against(fs, host, wanted)):
        return
    names = [option.name for option in lost]
    path = quote(f"/proc/fs/ext4/{fs.name}/options")
    yield Remedy(
        summary=f"Go back to what fstab says: remount with {', '.join(after)}.",
        disruption=Disruption.REMOUNT,
        steps=(
            Step(Phase.IMMEDIATE, remount_command(fs, intent.mount, after, names)),
            *(Step(Phase.VERIFY, f"! grep -qx {option.token} {path}") for option in lost),
            Step(Phase.ROLLBACK, remount_command(fs, intent.mount, before, names)),
        ),
        trade_off="Right when the option was a trial.",
    )

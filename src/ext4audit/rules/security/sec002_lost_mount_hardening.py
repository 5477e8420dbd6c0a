"""SEC002: fstab asks for nosuid, nodev or noexec, and the mount does not have it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared.intent import PROTECTING, Intent, configured_flags, intents_of

ALLOWED = {
    "nosuid": "set-user-ID programs",
    "nodev": "device nodes",
    "noexec": "programs",
}
"""What works again on a mount without the flag."""


@rule(
    "SEC002",
    "lost-mount-hardening",
    severity=Severity.MEDIUM,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man8/mount.8.html",
        "https://man7.org/linux/man-pages/man5/fstab.5.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether each mount has nosuid, nodev and noexec where its fstab entry asks for them, by name
    or by implication (`user` means all three).

    ## Why it matters

    They keep a set-user-ID program, a device node or any program on this filesystem from being
    used. They are usually lost by `mount -o remount,OPTION DEVICE DIRECTORY`: with both names,
    mount(8) leaves fstab out of account and drops every flag that the command does not repeat.

    ## Remedy

    Set the flags of this mount again, with `remount,bind`: that touches no ext4 option. A remount
    by device and directory must repeat every flag that is to stay, as the printed one does.

    ## When to ignore

    When the flag was taken off on purpose for an installation, and comes back after it.
    """
    for intent in intents_of(fs, host):
        yield from intent.cite()
        lost = lost_flags(intent)
        if lost:
            yield _finding(lost, intent)


def lost_flags(intent: Intent) -> tuple[str, ...]:
    """Return the protecting flags that fstab sets and that are not in force."""
    configured = configured_flags(intent.entry.line.options) & PROTECTING
    return tuple(flag for flag in ALLOWED if flag in configured - intent.live_flags)


def _finding(lost: tuple[str, ...], intent: Intent) -> Finding:
    works = " and ".join(ALLOWED[flag] for flag in lost)
    return Finding(
        message=f"{intent.mount.mount_point} is mounted without {', '.join(lost)}, which "
        f"{intent.origin} asks for: {works} on it can be used.",
        severity=Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=intent.cite(),
        remedies=tuple(_remedies(lost, intent.mount)),
        fact=f"{intent.mount.mount_point} {','.join(lost)}",
    )


def _remedies(lost: tuple[str, ...], mount: Mount) -> Iterator[Remedy]:
    """Yield the remount of the mount alone, if it can be reached."""
    steps = remedies.flags.restore_flags(mount, lost)
    if steps:
        yield Remedy(
            summary=f"Set {', '.join(lost)} on this mount again.",
            disruption=Disruption.REMOUNT,
            steps=steps,
            trade_off="A program that was started from it goes on; a new one may not start.",
        )

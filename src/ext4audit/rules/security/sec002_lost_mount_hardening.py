"""SEC002: fstab asks for nosuid, nodev or noexec, and the mount does not have it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import SUPERBLOCK_FLAGS, Mount
from ext4audit.finding import (
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.remedies.remount import flags_in_force
from ext4audit.remedies.shell import quote
from ext4audit.rule import Said, rule
from ext4audit.rules.shared.intent import PROTECTING, Intent, asked_flags, intents_of

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
def check(fs: Filesystem, host: Host) -> Said:
    """## What it checks

    Whether each mount has nosuid, nodev and noexec where its fstab entry asks for them, by name
    or by implication (`user` means all three).

    ## Why it matters

    They keep a set-user-ID program, a device node or any program on this filesystem from being
    used. They are usually lost by `mount -o remount,OPTION DEVICE DIRECTORY`: with both names,
    mount(8) leaves fstab out of account and drops every flag that the command does not repeat.

    ## Remedy

    Set the flags of this mount again, with `remount,bind`: that touches no ext4 option. Remount
    by mount point only, never by device and mount point.

    ## When to ignore

    When the flag was taken off on purpose for an installation, and comes back after it.
    """
    for intent in intents_of(fs, host):
        yield from intent.cite()
        lost = lost_flags(intent)
        if lost:
            yield _finding(lost, intent)


def lost_flags(intent: Intent) -> tuple[str, ...]:
    """Return the flags that protect, are asked for and are not in force."""
    asked = asked_flags(intent.entry.line.options) & PROTECTING
    return tuple(flag for flag in ALLOWED if flag in asked - intent.live_flags)


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
    """Yield the remount of the mount alone; where another one hides it, none can reach it."""
    where = quote(mount.mount_point)
    if where is None or mount.overmounted:
        return
    before = _flags_of_the_mount(mount)
    shown = f"findmnt -no OPTIONS {where} | tr , '\\n'"
    yield Remedy(
        summary=f"Set {', '.join(lost)} on this mount again.",
        disruption=Disruption.REMOUNT,
        steps=(
            Step(Phase.IMMEDIATE, _set((*before, *lost), where)),
            *(Step(Phase.VERIFY, f"{shown} | grep -qx {flag}") for flag in lost),
            Step(Phase.ROLLBACK, _set(before, where)),
        ),
        trade_off="A program that was started from it goes on; a new one may not start.",
    )


def _set(flags: tuple[str, ...], where: str) -> str:
    """Return the command that gives a mount exactly these flags, and leaves the superblock."""
    return f"mount --options-source=disable -o remount,bind,{','.join(flags)} {where}"


def _flags_of_the_mount(mount: Mount) -> tuple[str, ...]:
    """Return the flags as mount(8) takes them, without those of the superblock."""
    own = "ro" if "ro" in mount.mount_options else "rw"
    others = (flag for flag in flags_in_force(mount) if flag not in SUPERBLOCK_FLAGS | {"ro", "rw"})
    return own, *others

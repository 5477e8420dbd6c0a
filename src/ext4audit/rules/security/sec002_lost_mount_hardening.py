"""SEC002: fstab sets nosuid, nodev or noexec, but the mount does not have it."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import Mount
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import pronoun, series
from ext4audit.rules.shared.mount_config import (
    PROTECTING,
    MountConfig,
    configs_of,
    configured_flags,
)

ALLOWED = {
    "nosuid": "set-user-ID programs",
    "nodev": "device nodes",
    "noexec": "programs",
}
"""What a mount allows without each flag."""


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

    Whether each mount has `nosuid`, `nodev` and `noexec` where its fstab entry sets them,
    explicitly or implicitly (`user` implies all three).

    ## Why it matters

    These flags disable set-user-ID programs, device nodes and the execution of programs on the
    filesystem. They are usually lost by `mount -o remount,OPTION DEVICE DIRECTORY`: with both
    arguments, mount(8) does not read fstab and drops every flag that the command does not repeat.

    ## Remedy

    Set the flags again with `remount,bind`, which changes no ext4 option. A remount with both
    device and directory must repeat every flag that is to stay, as the printed command does.

    ## When to ignore

    Ignore it if a flag was removed temporarily, for example during an installation.
    """
    for intent in configs_of(fs, host):
        yield from intent.cite()
        lost = lost_flags(intent)
        if lost:
            yield _finding(lost, intent)


def lost_flags(intent: MountConfig) -> tuple[str, ...]:
    """Return nosuid, nodev and noexec as far as fstab sets them but they are not in force."""
    configured = configured_flags(intent.entry.line.options) & PROTECTING
    return tuple(flag for flag in ALLOWED if flag in configured - intent.live_flags)


def _finding(lost: tuple[str, ...], intent: MountConfig) -> Finding:
    works = series([ALLOWED[flag] for flag in lost])
    return Finding(
        message=f"{intent.mount.mount_point} is mounted without {', '.join(lost)}, which "
        f"{intent.origin} sets: {works} on it can be used.",
        severity=Severity.MEDIUM,
        confidence=Confidence.CONFIRMED,
        citations=intent.cite(),
        remedies=tuple(_remedies(lost, intent.mount)),
        fact=f"{intent.mount.mount_point} {','.join(lost)}",
        summary=f"mounted without {', '.join(lost)} although fstab sets {pronoun(lost)}",
    )


def _remedies(lost: tuple[str, ...], mount: Mount) -> Iterator[Remedy]:
    """Yield a remount of only this mount (remount,bind), if it can be reached."""
    steps = remedies.flags.restore_flags(mount, lost)
    if steps:
        yield Remedy(
            summary=f"Set {', '.join(lost)} on this mount again.",
            disruption=Disruption.REMOUNT,
            steps=steps,
            trade_off="Programs that are already running from it continue; new ones may not start.",
        )

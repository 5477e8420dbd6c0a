"""DRF002: fstab asks for an option that is not in force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Known, Undetermined, Unknown, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.option_table import spec_named
from ext4audit.facts.options import EffectiveOptions
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
from ext4audit.rule import Said, rule
from ext4audit.rules._fstab import edit_options, says
from ext4audit.rules._intent import NOT_COMPARED, UNSAFE, Intent, intent_of, severity_of
from ext4audit.rules._persist import typed
from ext4audit.rules._remount import (
    DELALLOC_STAYS_SINCE,
    NOT_BY_REMOUNT,
    flags_in_force,
    intended_flags,
)
from ext4audit.rules._shell import quote


@dataclass(frozen=True, slots=True)
class Drift:
    """An option by name, the token that fstab intends, and the token in force."""

    name: str
    intended: str
    in_force: str


@rule(
    "DRF002",
    "fstab-not-active",
    severity=Severity.MEDIUM,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: ext4_remount()"),
)
def check(fs: Filesystem, host: Host) -> Said:
    """## What it checks

    Options and per-mount flags that the fstab entry of a mounted filesystem asks for and that
    are not in force; and words in it that this kernel's ext4 does not show at all.

    ## Why it matters

    fstab is what people read to know how a filesystem is mounted. When it is not what runs,
    they are wrong now, and the next reboot changes the filesystem's behaviour.

    ## Remedy

    `mount -o remount MOUNTPOINT` reads fstab again. The data mode and a few others can only
    change by unmounting; or correct fstab.

    ## When to ignore

    When the entry was edited ahead of a planned reboot.
    """
    intent = intent_of(fs, host)
    options = need(fs.options)
    yield from intent.cite()
    inactive, holes = _compare(intent, options)
    flags = sorted(intended_flags(intent.entry.line.options) - set(flags_in_force(intent.mount)))
    if inactive or flags:
        yield _finding(fs, host, inactive, flags, intent)
    if intent.dead:
        yield _dead(intent)
    if holes:
        raise Undetermined(tuple(holes))


def _compare(intent: Intent, options: EffectiveOptions) -> tuple[list[Drift], list[Unknown]]:
    """Compare what fstab asks for with what is in force; what is not established is a hole."""
    inactive, holes = [], []
    for name, token in intent.tokens.items():
        option = options.find(name)
        if name in NOT_COMPARED or (option is not None and option.token == token):
            continue
        if option is not None:
            inactive.append(Drift(name, token, option.token))
        elif options.hole is not None:
            holes.append(options.hole)
        elif spec_named(name).off == "" and not spec_named(name).has_value:
            inactive.append(Drift(name, token, f"no {token}"))
    return inactive, list(dict.fromkeys(holes))


def _finding(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: Intent
) -> Finding:
    words = [*(drift.intended for drift in inactive), *flags]
    live = [drift.in_force for drift in inactive] + [f"no {flag}" for flag in flags]
    return Finding(
        message=f"{intent.origin} asks for {', '.join(words)}, but {', '.join(live)} is in force.",
        severity=severity_of((drift.name for drift in inactive), flags),
        confidence=Confidence.CONFIRMED,
        citations=(
            *(
                Citation(drift.name, drift.in_force, f"/proc/fs/ext4/{fs.name}/options")
                for drift in inactive
            ),
            *intent.cite(),
        ),
        remedies=tuple(_remedies(fs, host, inactive, flags, intent)),
    )


def _dead(intent: Intent) -> Finding:
    return Finding(
        message=f"{intent.origin} holds {', '.join(intent.dead)}, which is no option that ext4 "
        "shows: the kernel ignores it, or another kernel would refuse the mount.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=(_correct(intent, intent.dead, ()),) if _can_edit(intent, intent.dead) else (),
    )


def _remedies(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: Intent
) -> Iterator[Remedy]:
    by_mount = any(_by_mount_only(drift, host) for drift in inactive)
    if not by_mount and not UNSAFE.intersection(drift.intended for drift in inactive):
        yield from _remount(fs, inactive, flags, intent)
    stale = [drift.intended for drift in inactive] + flags
    if _can_edit(intent, stale):
        yield _correct(intent, stale, ())


def _by_mount_only(drift: Drift, host: Host) -> bool:
    """Whether a remount that asks for the intended state fails, or may."""
    if drift.name != "delalloc":
        return drift.name in NOT_BY_REMOUNT
    old = isinstance(host.kernel, Known) and not host.kernel.value.since(*DELALLOC_STAYS_SINCE)
    return drift.intended == "nodelalloc" and not old


def _remount(
    fs: Filesystem, inactive: list[Drift], flags: list[str], intent: Intent
) -> Iterator[Remedy]:
    """Yield the remount that reads fstab again, with its check and its way back."""
    where = quote(intent.mount.mount_point)
    if where is None:
        return
    checks = [f"grep -qx {d.intended} /proc/fs/ext4/{fs.name}/options" for d in inactive]
    checks += [f"findmnt -no OPTIONS {where} | grep -qw {flag}" for flag in flags]
    before = ",".join((*flags_in_force(intent.mount), *(typed(d.in_force) for d in inactive)))
    yield Remedy(
        summary="Make fstab true: remount, which reads it again.",
        disruption=Disruption.REMOUNT,
        steps=(
            Step(Phase.IMMEDIATE, f"mount -o remount {where}"),
            *(Step(Phase.VERIFY, command) for command in checks),
            Step(Phase.ROLLBACK, f"mount --options-source=disable -o remount,{before} {where}"),
        ),
        trade_off="Every option of the entry takes effect, not only these.",
    )


def _can_edit(intent: Intent, stale: Sequence[str]) -> bool:
    return edit_options(intent.entry.line, stale, ()) is not None


def _correct(intent: Intent, stale: Sequence[str], add: Sequence[str]) -> Remedy:
    """Return the remedy that takes words out of the fstab entry."""
    edit = edit_options(intent.entry.line, stale, add)
    return Remedy(
        summary=f"Make fstab say what runs: take {', '.join(stale)} out of it.",
        disruption=Disruption.ONLINE,
        steps=(
            *(Step(Phase.PERSISTENT, command) for command in (edit.apply if edit else ())),
            *(Step(Phase.VERIFY, f"! {c}") for c in says(intent.entry.line, stale)),
            *(Step(Phase.ROLLBACK, command) for command in (edit.undo if edit else ())),
        ),
        trade_off="Right when what runs is what is wanted.",
    )

"""DRF002: fstab asks for an option that is not in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ext4audit.evidence import Known, Undetermined, Unknown, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import ATIME_OPTIONS, SUPERBLOCK_FLAGS
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.facts.options import EffectiveOptions, Provenance
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
from ext4audit.remedies.remount import (
    DELALLOC_STAYS_SINCE,
    NOT_BY_REMOUNT,
    flags_in_force,
    intended_flags,
    typed,
)
from ext4audit.remedies.shell import quote
from ext4audit.rule import Said, rule
from ext4audit.rules.drift.refused_options import (
    Drift,
    Refusals,
    findings_of,
    only_running,
    refusals_of,
    wrong_words,
)
from ext4audit.rules.shared.demands import condemned, overruled, stays, warning
from ext4audit.rules.shared.error_state import has_stopped
from ext4audit.rules.shared.intent import (
    CMDLINE,
    PROTECTING,
    SHOWN_OTHERWISE,
    Intent,
    asked_flags,
    intents_of,
    severity_of,
)


@rule(
    "DRF002",
    "fstab-not-active",
    severity=Severity.HIGH,
    since="0.1",
    references=("fstab(5)", "mount(8)", "fs/ext4/super.c: ext4_remount()"),
)
def check(fs: Filesystem, host: Host) -> Said:
    """## What it checks

    Options and per-mount flags that the fstab entry of a mounted filesystem asks for and that
    are not in force; and words in it that this kernel's ext4 refuses, alone or beside another,
    or takes and ignores. SEC002 judges nosuid, nodev and noexec, and DRF004 the data mode of the
    root.

    ## Why it matters

    fstab is what people read to know how a filesystem is mounted. When it is not what runs,
    they are wrong now, and the next reboot changes the filesystem's behaviour. A word that ext4
    refuses lets the next mount fail; `findmnt --verify` does not find it.

    ## Remedy

    `mount -o remount MOUNTPOINT` reads fstab again, but keeps access times as they are unless
    the command names them. The data mode and a few others can only
    change by unmounting; or correct fstab.

    ## When to ignore

    When the entry was edited ahead of a planned reboot.
    """
    intents = intents_of(fs, host)
    options = need(fs.options)
    holes: list[Unknown] = []
    for intent in intents:
        yield from intent.cite()
        refusals = refusals_of(fs, host, intent, options)
        holes += refusals.holes
        yield from findings_of(refusals, intent, planned=host.planned)
        asked = _compare(_judged_here(intent, refusals), options, holes) if intent.first else []
        flags = sorted(asked_flags(intent.entry.line.options) - intent.live_flags - PROTECTING)
        if not intent.first:
            flags = [flag for flag in flags if flag not in SUPERBLOCK_FLAGS]
        if asked or flags:
            yield _finding(fs, host, asked, flags, intent)
        yield from _of_rootflags(fs, intent, _compare(intent.boot_tokens, options, holes))
    if holes:
        raise Undetermined(tuple(dict.fromkeys(holes)))


def _judged_here(intent: Intent, refusals: Refusals) -> Mapping[str, str]:
    """Return what an entry asks for, without what DRF004 judges, and what no mount takes."""
    elsewhere = {"data"} if intent.mount.mount_point == "/" else set()
    without = {_meaning(word) for word in refusals.words}
    elsewhere |= {name for name, token in intent.tokens.items() if token in without}
    return {name: token for name, token in intent.tokens.items() if name not in elsewhere}


def _compare(
    tokens: Mapping[str, str], options: EffectiveOptions, holes: list[Unknown]
) -> list[Drift]:
    """Compare what is asked for with what is in force; what is not established is a hole."""
    inactive = []
    for name, token in tokens.items():
        option = options.find(name)
        if name in SHOWN_OTHERWISE or (option is not None and option.token == token):
            continue
        if option is not None:
            if option.set_by is not Provenance.IMPLIED:  # by data=journal, which PRF007 judges
                inactive.append(Drift(name, token, option.token, option.baseline))
        elif options.gap is not None:
            holes.append(options.gap)
        elif spec_named(name).off == "" and not spec_named(name).has_value:
            inactive.append(Drift(name, token, f"no {token}"))
    return inactive


def _of_rootflags(fs: Filesystem, intent: Intent, inactive: list[Drift]) -> Iterator[Finding]:
    """Yield the drift from the kernel command line; the boot loader's file is not ours to edit."""
    if inactive:
        words = ", ".join(drift.intended for drift in inactive)
        live = ", ".join(drift.in_force for drift in inactive)
        yield Finding(
            message=f"{CMDLINE} asks for {words}, but {live} is in force.",
            severity=severity_of((drift.name for drift in inactive), ()),
            confidence=Confidence.CONFIRMED,
            citations=(*_cite(fs, inactive), *intent.cite()),
            remedies=(),
            fact=f"rootflags {words}",
        )
    if intent.boot_dead:
        yield _dead(intent.boot_dead, intent)


def _cite(fs: Filesystem, inactive: Sequence[Drift]) -> Iterator[Citation]:
    for drift in inactive:
        yield Citation(drift.name, drift.in_force, f"/proc/fs/ext4/{fs.name}/options")


def _finding(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: Intent
) -> Finding:
    words = [*(drift.intended for drift in inactive), *flags]
    live = [drift.in_force for drift in inactive] + [f"no {flag}" for flag in flags]
    return Finding(
        message=f"{intent.origin} asks for {', '.join(words)}, but {', '.join(live)} is in force.",
        severity=severity_of((drift.name for drift in inactive), flags),
        confidence=Confidence.CONFIRMED,
        citations=(*_cite(fs, inactive), *intent.cite()),
        remedies=tuple(_remedies(fs, host, inactive, flags, intent)),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _dead(words: tuple[str, ...], intent: Intent) -> Finding:
    return Finding(
        message=f"{CMDLINE} holds {', '.join(words)}, which is no option that ext4 "
        "shows: the kernel ignores it, or another kernel would refuse the mount.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=(),
        fact=f"rootflags {','.join(words)}",
    )


def _remedies(
    fs: Filesystem, host: Host, inactive: list[Drift], flags: list[str], intent: Intent
) -> Iterator[Remedy]:
    # All of the entry takes effect by a remount, also what only the first entry is judged for.
    entry = _compare(intent.tokens, need(fs.options), [])
    by_mount = [drift.intended for drift in entry if _by_mount_only(drift, host)]
    asked = [*(drift.intended for drift in entry), *flags]
    bad = condemned(asked, fs, host)
    kept = overruled(fs, host, asked)
    refused = refusals_of(fs, host, intent, need(fs.options)).refused
    if not (by_mount or bad or kept or refused or has_stopped(fs)):
        yield from _remount(fs, inactive, flags, intent)
    fix = _correct(intent, wrong_words(fs, host, inactive, flags, intent), inactive)
    if fix is not None:
        why = f" {warning(bad)}." if bad else ""
        yield replace(fix, summary=f"{fix.summary}{why}{stays(kept)}")
    elif by_mount:
        words = ", ".join(by_mount)
        yield Remedy(
            f"Unmount it and mount it again: no remount can put {words} in force.",
            Disruption.UNMOUNT,
        )
    elif kept:
        yield Remedy(
            f"Let fstab ask for {', '.join(kept)} instead, as CMP007 says.", Disruption.ONLINE
        )


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
    checks += [_shows(where, flag) for flag in flags]
    # Without a word of atime a remount keeps the one in force, and "atime" is no such word.
    atime = [flag for flag in flags if flag in ATIME_OPTIONS]
    stay = sorted(only_running(intent, frozenset(intended_flags(intent.entry.line.options))))
    before = ",".join((*flags_in_force(intent.mount), *(typed(d.in_force) for d in inactive)))
    yield Remedy(
        summary="Make fstab true: remount, which reads it again.",
        disruption=Disruption.REMOUNT,
        steps=(
            Step(Phase.IMMEDIATE, f"mount -o {','.join(('remount', *atime, *stay))} {where}"),
            *(Step(Phase.VERIFY, command) for command in checks),
            Step(Phase.ROLLBACK, f"mount --options-source=disable -o remount,{before} {where}"),
        ),
        trade_off="Every option of the entry takes effect, not only these.",
    )


def _shows(where: str, flag: str) -> str:
    """Return the check of a flag; the mount table shows strictatime by neither of the others."""
    words = f"findmnt -no OPTIONS {where} | tr , '\\n'"
    if flag == "strictatime":
        return f"findmnt -n {where} && ! {words} | grep -qxE 'relatime|noatime'"
    return f"{words} | grep -qx {flag}"


def _correct(intent: Intent, stale: Sequence[str], inactive: Sequence[Drift]) -> Remedy | None:
    """Return the remedy that makes the fstab entry say what runs, if that ends the drift.

    Only what stands there can be taken out: `user` implies nosuid, nodev and noexec. What runs
    is written down where neither the superblock nor the kernel would bring it.
    """
    line = intent.entry.line
    literal = [w for w in line.options if w in stale or _meaning(w) in stale]
    kept = [word for word in line.options if word not in literal]
    new = [typed(d.in_force) for d in inactive if d.intended in stale and d.by_hand]
    edit = edit_options(line, literal, new)
    left = asked_flags(kept) - intent.live_flags - PROTECTING
    if edit is None or left.intersection(stale):
        return None
    write = f", and write {', '.join(new)} there" if new else ""
    return Remedy(
        summary=f"Make fstab say what runs: take {', '.join(literal)} out of it{write}.",
        disruption=Disruption.ONLINE,
        steps=(
            *(Step(Phase.PERSISTENT, command) for command in edit.apply),
            *(Step(Phase.VERIFY, f"! {c}") for c in says(line, literal)),
            *(Step(Phase.VERIFY, c) for c in says(line, new)),
            *(Step(Phase.ROLLBACK, command) for command in edit.undo),
        ),
        trade_off="Right when what runs is what is wanted.",
    )


def _meaning(word: str) -> str:
    """Return the canonical option or flag of atime that a word of fstab asks for."""
    known = recognize(word)
    return known[1] if known else ATIME_OPTIONS.get(word, word)

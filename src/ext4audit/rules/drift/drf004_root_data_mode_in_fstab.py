"""DRF004: fstab gives the root a data mode that no remount brings: a boot leaves it read-only."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.option_table import recognize, spec_named
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Remedy,
    Severity,
)
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import discouraged, warning
from ext4audit.rules.shared.intent import CMDLINE, Intent, intents_of


@rule(
    "DRF004",
    "root-data-mode-in-fstab",
    severity=Severity.CRITICAL,
    since="0.2",
    in_plans=False,
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://www.freedesktop.org/software/systemd/man/latest/systemd-remount-fs.service.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the fstab entry of the root names a data mode that is not in force, and that neither
    rootflags= nor the superblock gives it before fstab is read.

    ## Why it matters

    The kernel or the initramfs mounts the root, read-only as a rule, and the boot remounts it as
    fstab says. ext4 refuses to change the data mode then, and with it the whole remount: the
    root stays read-only and services fail.

    ## Remedy

    Take `data=` out of the entry. Who needs the mode gives it to the superblock, or to
    rootflags= on the kernel's command line; DUR003 and PRF007 say what writeback and journal
    cost.

    ## When to ignore

    Where the initramfs mounts the root with the options of fstab (dracut can), and the entry was
    edited since the last boot. Where it is in force, nothing is reported.
    """
    intent = _of_the_root(fs, host)
    wanted = intent.tokens.get("data")
    if wanted is None:
        raise NotApplicable("fstab names no data mode for the root")
    if isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal:
        raise NotApplicable("it has no journal")
    in_force = need(need(fs.options).token("data"))
    yield from _cite(fs, intent)
    if wanted == in_force:
        return
    arguments = need(host.kernel_arguments)
    before = _boot_mode(intent) or _stored_mode(need(fs.superblock))
    if wanted != before:
        yield _finding(fs, host, intent, wanted, writable=_starts_writable(arguments))


def _of_the_root(fs: Filesystem, host: Host) -> Intent:
    need(fs.mounted_here)
    if "/" not in fs.mount_points:
        raise NotApplicable("it is not the root")
    found = (each for each in intents_of(fs, host) if each.mount.mount_point == "/")
    intent = next(found, None)
    if intent is None:
        raise NotApplicable("no fstab entry for the root")
    return intent


def _cite(fs: Filesystem, intent: Intent) -> Iterator[Citation]:
    option = option_of(fs, "data")
    if option is not None:
        yield Citation("in force", option.token, option.origin)
    yield from intent.cite()


def _boot_mode(intent: Intent) -> str | None:
    """Return the data mode that rootflags= sets."""
    return next(_data_modes(intent.boot_options), None)


def _stored_mode(superblock: Superblock) -> str:
    """Return the data mode of a mount without options: of the string, the bits, or ordered."""
    string = next(_data_modes(superblock.mount_option_string.split(",")), None)
    bits = spec_named("data").superblock_bits
    modes = (bits[bit] for bit in superblock.default_mount_options if bit in bits)
    return string or next(modes, "data=ordered")


def _data_modes(tokens: tuple[str, ...] | list[str]) -> Iterator[str]:
    """Yield the data modes among tokens, the last, which wins, first."""
    for spec, token in filter(None, map(recognize, reversed(tokens))):
        if spec.name == "data":
            yield token


def _starts_writable(arguments: tuple[str, ...]) -> bool:
    """Whether the kernel mounts the root read-write; without an argument it is read-only."""
    modes = [argument for argument in arguments if argument in {"ro", "rw"}]
    return modes[-1:] == ["rw"]


def _finding(fs: Filesystem, host: Host, intent: Intent, wanted: str, *, writable: bool) -> Finding:
    stays = "nothing of the entry takes effect" if writable else "the root stays read-only"
    happened = isinstance(fs.read_only, Known) and fs.read_only.value
    return Finding(
        message=f"{intent.origin} gives the root {wanted}, which neither {CMDLINE} nor the "
        f"superblock does: the next boot's remount fails, and {stays}.",
        severity=Severity.MEDIUM if writable else Severity.CRITICAL,
        confidence=Confidence.CONFIRMED if happened else Confidence.LIKELY,
        citations=tuple(_cite(fs, intent)),
        remedies=(*_forget(fs, host, intent, wanted), *_store(fs, host, wanted)),
    )


def _forget(fs: Filesystem, host: Host, intent: Intent, wanted: str) -> Iterator[Remedy]:
    """Yield the edit that takes the data mode out of fstab."""
    line = intent.entry.line
    literal = [token for token in line.options if next(_data_modes([token]), None)]
    steps = remedies.fstab.option_steps(line, literal, ())
    if not steps:
        return
    bad = warning(discouraged([wanted], fs, host))
    yield Remedy(
        summary=f"Take {wanted} out of fstab.{f' {bad}.' if bad else ''}",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off="The root keeps the data mode that it has.",
    )


def _store(fs: Filesystem, host: Host, wanted: str) -> Iterator[Remedy]:
    """Yield the remedy that stores the mode in the superblock, if no rule warns of it."""
    steps = (
        ()
        if discouraged([wanted], fs, host)
        else remedies.default_options.store_default(fs, "data", wanted)
    )
    if not steps:
        return
    yield Remedy(
        summary=f"Store {wanted} in the superblock: the kernel then mounts the root with it.",
        disruption=Disruption.REBOOT,
        steps=steps,
        trade_off="Every mount of it has the mode from then on, and the mount table hides it.",
    )

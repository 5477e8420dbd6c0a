"""DRF004: fstab sets a data mode for the root: the boot's remount fails, and it stays read-only."""

from __future__ import annotations

from collections.abc import Iterator

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.options import recognize, spec_named
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.shared.demands import discouraged, warning_text
from ext4audit.rules.shared.mount_config import CMDLINE, MountConfig, configs_of


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

    Whether the fstab entry of the root filesystem sets a data mode that is not in force and that
    neither `rootflags=` nor the superblock sets before fstab is read.

    ## Why it matters

    The kernel or the initramfs mounts the root filesystem, usually read-only, and the boot then
    remounts it with the options of fstab. ext4 refuses a remount that changes the data mode, so
    the root filesystem stays read-only and services fail.

    ## Remedy

    Remove `data=` from the entry. To use the mode, set it in the superblock, or in `rootflags=` on
    the kernel command line. DUR003 and PRF007 describe the cost of writeback and journal.

    ## When to ignore

    Ignore it if the initramfs mounts the root filesystem with the options of fstab (dracut can do
    this) and the entry was edited after the last boot. A mode that is in force is not reported.
    """
    intent = _root_config(fs, host)
    wanted = intent.tokens.get("data")
    if wanted is None:
        raise NotApplicable("fstab sets no data mode for the root filesystem")
    if isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal:
        raise NotApplicable("it has no journal")
    in_force = need(need(fs.options).token("data"))
    yield from _cite(fs, intent)
    if wanted == in_force:
        return
    arguments = need(host.kernel_arguments)
    before = next(_data_modes(intent.boot_options), None) or _stored_mode(need(fs.superblock))
    if wanted != before:
        # Without an argument the kernel mounts the root read-only.
        modes = [argument for argument in arguments if argument in {"ro", "rw"}]
        yield _finding(fs, host, intent, wanted, writable=modes[-1:] == ["rw"])


def _root_config(fs: Filesystem, host: Host) -> MountConfig:
    need(fs.mounted_here)
    if "/" not in fs.mount_points:
        raise NotApplicable("it is not the root filesystem")
    found = (each for each in configs_of(fs, host) if each.mount.mount_point == "/")
    intent = next(found, None)
    if intent is None:
        raise NotApplicable("fstab has no entry for the root filesystem")
    return intent


def _cite(fs: Filesystem, intent: MountConfig) -> Iterator[Citation]:
    option = option_of(fs, "data")
    if option is not None:
        yield Citation("in force", option.token, option.origin)
    yield from intent.cite()


def _stored_mode(superblock: Superblock) -> str:
    """Return the data mode of a mount without options: from the string, the bits, or ordered."""
    string = next(_data_modes(superblock.mount_option_string.split(",")), None)
    bits = spec_named("data").superblock_bits
    modes = (bits[bit] for bit in superblock.default_mount_options if bit in bits)
    return string or next(modes, "data=ordered")


def _data_modes(tokens: tuple[str, ...] | list[str]) -> Iterator[str]:
    """Yield the data modes among the tokens in reverse order: the last token wins."""
    for spec, token in filter(None, map(recognize, reversed(tokens))):
        if spec.name == "data":
            yield token


def _finding(
    fs: Filesystem, host: Host, intent: MountConfig, wanted: str, *, writable: bool
) -> Finding:
    stays = "no option of the entry takes effect" if writable else "the root stays read-only"
    happened = isinstance(fs.read_only, Known) and fs.read_only.value
    return Finding(
        message=f"{intent.origin} sets {wanted} for the root, but neither {CMDLINE} nor the "
        f"superblock sets it: the next boot's remount fails, and {stays}.",
        severity=Severity.MEDIUM if writable else Severity.CRITICAL,
        confidence=Confidence.CONFIRMED if happened else Confidence.LIKELY,
        citations=tuple(_cite(fs, intent)),
        remedies=(*_remove(fs, host, intent, wanted), *_store(fs, host, wanted)),
        summary=f"fstab sets {wanted} for the root: the next boot's remount fails",
    )


def _remove(fs: Filesystem, host: Host, intent: MountConfig, wanted: str) -> Iterator[Remedy]:
    """Yield the edit that removes the data mode from fstab."""
    line = intent.entry.line
    literal = [token for token in line.options if next(_data_modes([token]), None)]
    steps = remedies.configuration.option_steps(line, literal, ())
    if not steps:
        return
    bad = warning_text(discouraged([wanted], fs, host))
    yield Remedy(
        summary=f"Remove {wanted} from fstab.{f' {bad}.' if bad else ''}",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off="The root filesystem keeps its current data mode.",
    )


def _store(fs: Filesystem, host: Host, wanted: str) -> Iterator[Remedy]:
    """Yield the remedy that stores the mode in the superblock, unless a rule reports the mode."""
    steps = (
        ()
        if discouraged([wanted], fs, host)
        else remedies.options.store_default(fs, "data", wanted)
    )
    if not steps:
        return
    yield Remedy(
        summary=f"Store {wanted} in the superblock: every mount of the root then uses it.",
        disruption=Disruption.REBOOT,
        steps=steps,
        trade_off="The mount table does not show options that the superblock sets.",
    )

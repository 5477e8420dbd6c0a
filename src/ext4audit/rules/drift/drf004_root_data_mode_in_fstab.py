"""DRF004: fstab sets a data mode for the root: the boot's remount fails, and it stays read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ext4audit import remedies
from ext4audit.evidence import Known, need
from ext4audit.facts.features_and_bugs import REFUSED_BY_REMOUNT
from ext4audit.facts.host import Filesystem, Host, option_of
from ext4audit.facts.mount import EffectiveOptions
from ext4audit.facts.options import recognize, spec_named
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.rule import NotApplicable, RuleOutput, rule
from ext4audit.rules.drift import stored_token
from ext4audit.rules.shared import stored_words
from ext4audit.rules.shared.demands import demanded, discouraged, required_by, warning_text
from ext4audit.rules.shared.mount_config import (
    CMDLINE,
    MountConfig,
    configs_of,
    refused_by_remount,
)

DEFAULTS = {"data": "data=ordered", "delalloc": "delalloc"}


@rule(
    "DRF004",
    "root-data-mode-in-fstab",
    severity=Severity.CRITICAL,
    since="0.2",
    references=(
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://www.freedesktop.org/software/systemd/man/latest/systemd-remount-fs.service.html",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Whether the fstab entry of the root filesystem sets a data mode that is not in force and that
    neither `rootflags=` nor the superblock sets before fstab is read. The same goes for other
    options that a remount cannot set: `nombcache`, `dax=`, and `nodelalloc` since Linux 6.13.

    ## Why it matters

    The kernel or the initramfs mounts the root filesystem, usually read-only, and the boot then
    remounts it with the options of fstab. ext4 refuses a remount that changes the data mode or
    sets such an option, so the root filesystem stays read-only and services fail.

    ## Remedy

    Remove the option from the entry. To use it, set it in the superblock, or in `rootflags=` on
    the kernel command line. DUR003 and PRF007 describe the cost of writeback and journal.

    ## When to ignore

    Ignore it if the initramfs mounts the root filesystem with the options of fstab (dracut can do
    this) and the entry was edited after the last boot. The rule does not apply to an fstab of
    NixOS, whose initramfs always does so. A mode that is in force is not reported. In a plan,
    ignore it if `rootflags=` will set the option.
    """
    intent = _root_config(fs, host)
    judged = _judged(fs, intent)
    missing = judged if host.planned else dict(_not_in_force(need(fs.options), judged))
    yield from () if host.planned else _cite(fs, intent, judged)
    refused = {n: w for n, w in missing.items() if need(refused_by_remount(host, n, w))}
    if not refused:
        return
    arguments = need(host.kernel_arguments)
    # Without an argument the kernel mounts the root read-only.
    writable = [word for word in arguments if word in {"ro", "rw"}][-1:] == ["rw"]
    for name, wanted in refused.items():
        before = next(_states(intent.boot_options, name), None)
        if wanted != (before or _stored(fs, host, name)):
            yield _finding(fs, host, intent, (name, wanted), writable=writable)


def _judged(fs: Filesystem, intent: MountConfig) -> dict[str, str]:
    """Return the tokens of fstab that a remount may refuse, by name, at least one."""
    judged = {name: word for name, word in intent.tokens.items() if name in REFUSED_BY_REMOUNT}
    if not judged:
        raise NotApplicable("fstab sets no data mode for the root filesystem")
    if isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal:
        judged.pop("data", None)
    if not judged:
        raise NotApplicable("it has no journal")
    return judged


def _not_in_force(
    options: EffectiveOptions, judged: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the names and tokens that are not in force; raises Undetermined."""
    for name, token in judged.items():
        if options.lacks(name) or need(options.token(name)) != token:
            yield name, token


def _root_config(fs: Filesystem, host: Host) -> MountConfig:
    need(fs.mounted_here)
    if "/" not in fs.mount_points:
        raise NotApplicable("it is not the root filesystem")
    found = (each for each in configs_of(fs, host) if each.mount.mount_point == "/")
    intent = next(found, None)
    if intent is None:
        raise NotApplicable("fstab has no entry for the root filesystem")
    if not intent.is_remount_of_root:
        raise NotApplicable("the initramfs mounts the root with the options of fstab (NixOS)")
    return intent


def _cite(fs: Filesystem, intent: MountConfig, names: Iterable[str]) -> Iterator[Citation]:
    for option in filter(None, (option_of(fs, name) for name in names)):
        yield Citation("in force", option.token, option.origin)
    yield from intent.cite()


def _stored(fs: Filesystem, host: Host, name: str) -> str:
    """Return the token of a mount without options: from the superblock, or the default."""
    words = stored_words(fs, host).applied
    if any(_states(words, name)):
        need(host.kernel)  # which may refuse the string
    stored = stored_token(need(fs.superblock), words, name)
    return stored or DEFAULTS.get(name, "")


def _states(tokens: Sequence[str], name: str) -> Iterator[str]:
    """Yield the states of an option among the tokens in reverse order: the last token wins."""
    for spec, token in filter(None, map(recognize, reversed(tokens))):
        if spec.name == name:
            yield token


def _finding(
    fs: Filesystem, host: Host, intent: MountConfig, option: tuple[str, str], *, writable: bool
) -> Finding:
    """Return the finding on an option, given as its name and the token that fstab sets."""
    name, wanted = option
    stays = "no option of the entry takes effect" if writable else "the root stays read-only"
    happened = isinstance(fs.read_only, Known) and fs.read_only.value
    why, boot = f"but neither {CMDLINE} nor the superblock sets it", "next boot"
    if host.planned:
        why, boot = "which only rootflags= of the boot loader or the superblock can set", "boot"
    return Finding(
        message=f"{intent.origin} sets {wanted} for the root, {why}: the {boot}'s remount fails, "
        f"and {stays}.",
        severity=Severity.MEDIUM if writable else Severity.CRITICAL,
        confidence=Confidence.CONFIRMED if happened else Confidence.LIKELY,
        citations=intent.cite() if host.planned else tuple(_cite(fs, intent, [name])),
        remedies=tuple(_remedies(fs, host, intent, option)),
        fact="" if name == "data" else wanted,
        summary=f"fstab sets {wanted} for the root: the {boot}'s remount fails",
    )


def _remedies(
    fs: Filesystem, host: Host, intent: MountConfig, option: tuple[str, str]
) -> Iterator[Remedy]:
    """Yield the two remedies, or advice if a profile requires the option or for a plan."""
    _, wanted = option
    profile = demanded(fs, host).get(wanted)
    if profile is None and host.planned:
        yield Remedy(f"Leave {wanted} out of the mount options.", Disruption.ONLINE)
        return
    if profile is None:
        yield from _remove(fs, host, intent, option)
        yield from _store(fs, host, option)
        return
    yield Remedy(
        f"Set {wanted} in rootflags= of the boot loader's configuration as well: "
        f"{required_by(profile)}.",
        Disruption.REBOOT,
    )


def _remove(
    fs: Filesystem, host: Host, intent: MountConfig, option: tuple[str, str]
) -> Iterator[Remedy]:
    """Yield the edit that removes the option from fstab."""
    name, wanted = option
    line = intent.entry.line
    literal = [token for token in line.options if next(_states([token], name), None)]
    steps = remedies.configuration.option_steps(line, literal, ())
    if not steps:
        return
    bad = warning_text(discouraged([wanted], fs, host))
    what = "its current data mode" if name == "data" else "its current options"
    yield Remedy(
        summary=f"Remove {wanted} from fstab.{f' {bad}.' if bad else ''}",
        disruption=Disruption.ONLINE,
        steps=steps,
        trade_off=f"The root filesystem keeps {what}.",
    )


def _store(fs: Filesystem, host: Host, option: tuple[str, str]) -> Iterator[Remedy]:
    """Yield the remedy that stores the state in the superblock, unless a rule reports it."""
    name, wanted = option
    is_storable = wanted in spec_named(name).superblock_bits.values()
    if not is_storable or discouraged([wanted], fs, host):
        return
    steps = remedies.options.store_default(fs, name, wanted)
    if not steps:
        return
    yield Remedy(
        summary=f"Store {wanted} in the superblock: every mount of the root then uses it.",
        disruption=Disruption.REBOOT,
        steps=steps,
        trade_off="The mount table does not show options that the superblock sets.",
    )

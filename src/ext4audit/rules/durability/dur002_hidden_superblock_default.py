"""DUR002: The superblock sets risky mount options that no mount table shows."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Known, Unknown, need, origin_of, raise_for
from ext4audit.facts.host import Filesystem, Host, fstab_lines
from ext4audit.facts.mount import EffectiveOption, EffectiveOptions, Provenance
from ext4audit.facts.options import StringWords, all_options, recognize
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Confidence, Disruption, Finding, Remedy, Severity, listed
from ext4audit.rule import RuleOutput, rule
from ext4audit.rules.shared import (
    PLACES,
    cite_fstab,
    cite_mount_table,
    pronoun,
    series,
    stored_words,
    verb,
)
from ext4audit.rules.shared.demands import beside_ordered, kept_text, replaced_demands
from ext4audit.rules.shared.mount_config import refused_at_boot

JUDGED_WHEN_MOUNTED = frozenset({"nobarrier", "data=writeback"})
"""On a mount, DUR001 and DUR003 grade these; this rule only reports that they are hidden."""
DANGEROUS = {
    "nobarrier": "barrier",
    "data=writeback": "data=ordered",
    "data=journal": "data=ordered",
    "nodelalloc": "delalloc",
    "discard": "nodiscard",
    "noblock_validity": "block_validity",
    "noauto_da_alloc": "auto_da_alloc",
    "nodioread_nolock": "dioread_nolock",
}
"""The reported tokens, each with the default of its option on the kernels that can hide it.
Others (acl, errors=remount-ro) are good superblock defaults."""

NAMED = 2
BEFORE_THE_MOUNT = "Reset the superblock to the kernel's defaults before it is mounted."
TO_DEFAULTS = "Reset the superblock to the kernel's defaults."
IN_FORCE = "Remount with the kernel's defaults; the superblock no longer overrides them."
TRADE_OFF = "The options may have been set on purpose: check what the host is used for."
IN_FSTAB = Remedy(
    "If the options are wanted: set them in fstab, where they are visible, and clear the "
    "superblock (tune2fs -o ^OPTION, tune2fs -E mount_opts=).",
    Disruption.ONLINE,
)
IN_ROOTFLAGS = Remedy(
    "If the options are wanted: set them in rootflags= of the boot loader's configuration, where "
    "they are visible, and clear the superblock (tune2fs -o ^OPTION, tune2fs -E mount_opts=). In "
    "fstab alone they would make the boot's remount of the root fail (DRF004).",
    Disruption.ONLINE,
)


@rule(
    "DUR002",
    "hidden-superblock-default",
    severity=Severity.MEDIUM,
    since="0.1",
    references=(
        "https://man7.org/linux/man-pages/man8/tune2fs.8.html",
        "https://man7.org/linux/man-pages/man5/ext4.5.html",
        "fs/ext4/super.c: _ext4_show_options()",
    ),
)
def check(fs: Filesystem, host: Host) -> RuleOutput:
    """## What it checks

    Options in force that the superblock sets, by its bits (`tune2fs -o`) or by its string
    (`tune2fs -E mount_opts=`), that differ from the default of the kernel, and that are risky or
    costly: `nobarrier`, `data=writeback`, `data=journal`, `nodelalloc`, `discard`,
    `noblock_validity`, `noauto_da_alloc`, `nodioread_nolock`. All such options of a superblock are
    one finding. If the string is set, the rule reports it even if it has none of these options. For
    a filesystem that is not mounted, and for an image file, the rule checks the options that the
    next mount puts in force; `nobarrier` and `data=writeback` have severity medium there.

    ## Why it matters

    /proc/mounts, mount and findmnt show an option only if it differs from the superblock's own
    defaults. After `tune2fs -o nobarrier,nodelalloc,journal_data_writeback` they print
    `rw,relatime` and fstab shows nothing, although all three are in force. The cause of lost data
    or slow writes is then hard to find. The options file in /proc/fs/ext4, which any user can read,
    shows them.

    ## Remedy

    Remove the options from the superblock, or set them in fstab, where they are visible. tune2fs
    can do this while the filesystem is mounted; a remount then applies all changes except the data
    mode. For the root, set a data mode in `rootflags=`, and since Linux 6.13 `nodelalloc`, because
    the boot's remount cannot set them (DRF004).

    ## When to ignore

    Ignore it on appliances and disk images that set the options on purpose. Hidden options of a
    mounted filesystem have severity low, because DUR001, DUR003 and DUR008 grade `nobarrier`,
    `data=writeback` and `noauto_da_alloc` by their effect and cite the superblock as the cause.
    """
    if not fs.alive:
        yield from _at_the_next_mount(fs, host, need(fs.superblock))
        return
    options = need(fs.options)
    if isinstance(fs.superblock, Unknown) and not (options.complete and options.mount_table):
        need(fs.superblock)
    yield cite_mount_table(options)
    hidden = [
        o for o in options.hidden if o.token in DANGEROUS and o.set_by is not Provenance.IMPLIED
    ]
    string = _string(fs)
    if hidden or string:
        yield _finding(fs, host, options, hidden, string)
    if any(_may_be_hidden(option) for option in options.options):
        need(host.kernel)
    if isinstance(fs.superblock, Known):  # else the listing is complete
        raise_for(_not_known_to_be_off(_stored(fs, host), options))


def _not_known_to_be_off(
    stored: Sequence["OnDiskDefault"], options: EffectiveOptions
) -> Iterator[Unknown]:
    """Yield the unknowns that leave open whether a mount turned off what the superblock sets."""
    for token in (options.token(each.name) for each in stored):
        if options.gap is not None and isinstance(token, Unknown):
            yield token


def _may_be_hidden(option: EffectiveOption) -> bool:
    """Return whether the option is hidden, unless it is the kernel's default."""
    is_listed = any(layer.provenance is Provenance.MOUNT for layer in option.layers)
    return (
        option.token in DANGEROUS
        and not option.hidden
        and not is_listed
        and option.set_by is not Provenance.IMPLIED
    )


class OnDiskDefault(NamedTuple):
    """An option that a superblock sets: its name, its token, and whether bits or string set it."""

    name: str
    token: str
    set_by: Provenance


def on_disk_defaults(superblock: Superblock, words: Sequence[str]) -> tuple[OnDiskDefault, ...]:
    """Return the options that a mount without options takes from the superblock.

    `words` are those of its string that the kernel applies.

    The string is applied after the bits and wins (ext4_fill_super(), Linux 6.12). Without a
    journal there is no data mode.
    """
    found = {}
    for spec in all_options():
        for bit, token in spec.superblock_bits.items():
            if bit in superblock.default_mount_options:
                found[spec.name] = OnDiskDefault(spec.name, token, Provenance.SUPERBLOCK_BITS)
    for spec, token in filter(None, map(recognize, words)):
        found[spec.name] = OnDiskDefault(spec.name, token, Provenance.SUPERBLOCK_STRING)
    if not superblock.has_journal:
        found.pop("data", None)
    return tuple(found.values())


def _stored(fs: Filesystem, host: Host) -> list[OnDiskDefault]:
    """Return the reported options that the superblock sets."""
    stored = on_disk_defaults(need(fs.superblock), stored_words(fs, host).applied)
    return [option for option in stored if option.token in DANGEROUS]


def _at_the_next_mount(fs: Filesystem, host: Host, superblock: Superblock) -> RuleOutput:
    """Judge an unmounted filesystem by its superblock."""
    origin = origin_of(fs.superblock)
    bits = ", ".join(superblock.default_mount_options) or "none"
    yield Citation("superblock, default mount options", bits, origin)
    stored, string = _stored(fs, host), _string(fs)
    if stored or string:
        words = [option.token for option in stored]
        yield Finding(
            message=_next_message(fs, stored) if stored else _message(fs, host, [], string),
            severity=Severity.LOW if JUDGED_WHEN_MOUNTED.isdisjoint(words) else Severity.MEDIUM,
            confidence=Confidence.CONFIRMED,
            citations=tuple(_cite(fs, stored, string)),
            remedies=tuple(_remedies(fs, host, stored, BEFORE_THE_MOUNT)),
            fact=",".join(sorted(words)),
            summary=_summary(words),
        )


def _next_message(fs: Filesystem, stored: list[OnDiskDefault]) -> str:
    words = ", ".join(option.token for option in stored)
    return (
        f"The superblock sets {words}, which no mount table shows{_also(fs, stored)}; in force "
        "from the next mount on."
    )


def _string(fs: Filesystem) -> Citation | None:
    """Cite the mount options string of the superblock; None if it is empty or unknown."""
    if not isinstance(fs.superblock, Known) or not fs.superblock.value.mount_option_string:
        return None
    text = fs.superblock.value.mount_option_string
    return Citation("superblock, mount options string", text, fs.superblock.origin)


def _finding(
    fs: Filesystem,
    host: Host,
    options: EffectiveOptions,
    hidden: list[EffectiveOption],
    string: Citation | None,
) -> Finding:
    unsure = any(option.set_by in (Provenance.UNKNOWN, Provenance.SUPERBLOCK) for option in hidden)
    aim = TO_DEFAULTS if _any_stored(fs, hidden) else IN_FORCE
    return Finding(
        message=_message(fs, host, hidden, string),
        severity=Severity.LOW,
        confidence=Confidence.LIKELY if unsure else Confidence.CONFIRMED,
        citations=(*_cite(fs, hidden, string), cite_mount_table(options)),
        remedies=tuple(_remedies(fs, host, hidden, aim)),
        fact=",".join(sorted(option.token for option in hidden)),
        summary=_summary_of(fs, hidden),
    )


def _left_over(fs: Filesystem, option: EffectiveOption) -> bool:
    """Return whether the superblock set the option at mount time but no longer does.

    tune2fs can change the superblock of a mounted filesystem, which keeps its mount options.
    """
    return isinstance(fs.superblock, Known) and option.set_by is Provenance.UNKNOWN


def _any_stored(fs: Filesystem, hidden: Sequence[EffectiveOption]) -> bool:
    return not all(_left_over(fs, option) for option in hidden)


def _summary_of(fs: Filesystem, hidden: Sequence[EffectiveOption]) -> str:
    """Return the summary for the hidden options of a mount."""
    words = [option.token for option in hidden]
    if not words or _any_stored(fs, hidden):
        return _summary(words)
    names = listed(sorted(words), NAMED)
    return f"in force, although the superblock no longer sets {pronoun(words)}: {names}"


def _summary(tokens: Sequence[str]) -> str:
    """Return the summary for all superblocks with these options, which names the first few."""
    if not tokens:
        return "the superblock has a string of mount options"
    return f"the superblock sets hidden options: {listed(sorted(tokens), NAMED)}"


def _message(
    fs: Filesystem, host: Host, hidden: list[EffectiveOption], string: Citation | None
) -> str:
    if not hidden:
        value = string.value if string else ""
        what = _what_mounts_do(stored_words(fs, host))
        return f"The superblock has a string of mount options, {what}: {value}."
    stored = [option for option in hidden if not _left_over(fs, option)]
    left = [option for option in hidden if _left_over(fs, option)]
    words = ", ".join(option.token for option in stored)
    sets = f"The superblock sets {words}, which no mount table shows{_also(fs, stored)}."
    texts = ([sets] if stored else []) + ([_left_over_text(fs, left)] if left else [])
    return " ".join(texts)


def _what_mounts_do(words: StringWords) -> str:
    """Return the clause on how a mount handles the string."""
    if not words.refused:
        return "which every mount applies"
    least = f"only {', '.join(words.applied)}" if words.applied else "nothing"
    return f"of which this kernel applies {least}, because it refuses {words.refused}"


def _left_over_text(fs: Filesystem, left: Sequence[EffectiveOption]) -> str:
    words = [option.token for option in left]
    it = pronoun(words)
    return (
        f"{series(words)} {verb(words)} in force, although neither the mount table nor the "
        f"superblock shows {it}{_also(fs, left)}: the superblock set {it} when it was mounted, and "
        "no longer does."
    )


def _also(fs: Filesystem, options: Sequence[EffectiveOption | OnDiskDefault]) -> str:
    """Return the clause on options that fstab also sets."""
    shown = [option.token for option in options if fstab_lines(fs, option.name)]
    return f" (fstab also sets {', '.join(shown)})" if shown else ""


def _cite(
    fs: Filesystem, hidden: Sequence[EffectiveOption | OnDiskDefault], string: Citation | None
) -> Iterator[Citation]:
    for each in hidden:
        origin = each.origin if isinstance(each, EffectiveOption) else origin_of(fs.superblock)
        value = f"{each.token}, set by: {PLACES[each.set_by]}"
        yield Citation(f"hidden {each.name}", value, origin)
        for line in fstab_lines(fs, each.name):
            yield cite_fstab(line, line.raw_options)
    if string:
        yield string


def _remedies(
    fs: Filesystem, host: Host, hidden: Sequence[EffectiveOption | OnDiskDefault], aim: str
) -> Iterator[Remedy]:
    """Yield the reset to those defaults that profiles allow, and the advice to use fstab."""
    wanted = {each.name: DANGEROUS[each.token] for each in hidden}
    kept = replaced_demands(fs, host, wanted)
    changed = {each.name: wanted[each.name] for each in hidden if each.token not in kept}
    if changed:
        yield _reset(fs, host, changed, aim, kept_text(kept))
    at_boot = any(refused_at_boot(fs, host, each.name, each.token) for each in hidden)
    yield IN_ROOTFLAGS if at_boot else IN_FSTAB


def _reset(fs: Filesystem, host: Host, tokens: dict[str, str], aim: str, kept: str) -> Remedy:
    if not fs.alive:
        steps = remedies.options.clear_defaults(fs, tokens)
        return Remedy(f"{aim}{kept}", Disruption.ONLINE, steps, trade_off=TRADE_OFF)
    if "data" not in tokens:
        steps = remedies.options.change_options(fs, tokens)
        what = remedies.options.disruption(steps)
        return Remedy(f"{aim}{kept}", what, steps, trade_off=TRADE_OFF)
    others, why = beside_ordered(fs, host)
    wanted = {**tokens, **others}
    by_hand = remedies.mounting.left_by_hand(fs)
    return Remedy(
        f"{aim} A remount cannot change data=.{why}{by_hand}{kept}",
        remedies.mounting.disruption_of_new_mount(fs),
        remedies.mounting.change_by_new_mount(fs, wanted, explicit="delalloc" in others),
        trade_off=TRADE_OFF,
    )

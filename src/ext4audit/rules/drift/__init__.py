"""Configuration drift rules; helpers to find fstab options that a mount refuses or ignores."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ext4audit import remedies
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Filesystem, Host, Kernel
from ext4audit.facts.mount import ATIME_OPTIONS, EffectiveOptions
from ext4audit.facts.options import (
    NOT_EXT4_OPTIONS,
    TAKEN,
    Handling,
    OptionHandling,
    ext4_options,
    feature_needed_by,
    handling_of,
    is_refused_for,
    needs_journal,
    number_of,
    recognize,
    spec_named,
)
from ext4audit.facts.superblock import Sizes, Superblock
from ext4audit.finding import Confidence, Disruption, Finding, Remedy, Severity
from ext4audit.layout import SUPERBLOCK_OFFSET_BYTES, has_superblock
from ext4audit.rules.shared import stored_words, superblock_field
from ext4audit.rules.shared.demands import demanded, discouraged, replaced_demands, states_of
from ext4audit.rules.shared.mount_config import MountConfig, is_for_others

OLDEST, NEWEST = (3, 10), (99,)
"""The ends of the version range: if both handle a token alike, the version is not needed."""
ASYNC_NEEDS_OTHER_DATA_SINCE = (4, 4)
NOT_WITH_DATA_JOURNAL = frozenset({"delalloc", "dax", "dax=always"})
NOLOCK, NOLOCK_TAKEN_SINCE = "dioread_nolock", (5, 6)
"""Since then data=journal silently drops dioread_nolock; before, the kernel refuses the pair."""
ONE_DRIVER_SINCE = (4, 3)
"""Until 4.2, ext3 had a separate driver with its own option grammar."""
QUOTA_FILES = ("usrjquota=", "grpjquota=")
WITHOUT_THE_JOURNAL = frozenset({"norecovery", "noload"})
"""Options with which ext4 does not load the journal and refuses all journal options."""
JOURNAL_DEVICES, NO_DEVICE = ("journal_dev=", "journal_path="), "journal_dev=0"
SUPERBLOCK, EXTRA_BYTES = "sb=", "debug_want_extra_isize="
SIZES_CHECKED_SINCE = (6, 1)
"""Seen on 6.18. Before 5.17, sb= counts only as the first option, and large inodes are clamped."""
SUPERBLOCK_UNIT_BYTES = 1024
SMALLEST_INODE_BYTES, LEAST_EXTRA_BYTES = 128, 4
DEFAULT_COMMIT = frozenset({"commit=5", "commit=0"})


class Refusals(NamedTuple):
    """The refused tokens of an entry with their reasons, the ignored tokens, and the gaps."""

    refused: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    gaps: tuple[Unknown, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens that will not take effect."""
        return (*(token for token, _ in self.refused), *self.ignored)


def refusals_of(
    fs: Filesystem, host: Host, intent: MountConfig, options: EffectiveOptions
) -> Refusals:
    """Return the options of an fstab entry that this kernel refuses or ignores.

    A token that the mount table shows was accepted, regardless of the kernel version: vendors add
    options and backport others to older kernels.
    """
    shown = () if host.planned else (*intent.mount.super_options, *intent.mount.mount_options)
    tokens = [w for w in intent.entry.line.options if not is_for_others(w) and w not in shown]
    found = {token: handling(token, host.kernel, options) for token in tokens}
    handled = {
        token: answer for token, answer in found.items() if isinstance(answer, OptionHandling)
    }
    gaps = [answer for answer in found.values() if isinstance(answer, Unknown)]
    refused = {
        token: answer.why
        for token, answer in handled.items()
        if answer.handling is Handling.REFUSED
    }
    together = _conflicts(fs, host, intent, options, gaps) if intent.first else ()
    for token, why in together:
        if token in tokens:
            refused.setdefault(token, why)
    ignored = (token for token, answer in handled.items() if answer.handling is Handling.IGNORED)
    return Refusals(
        tuple(refused.items()),
        tuple(token for token in ignored if token not in refused),
        tuple(dict.fromkeys(gaps)),
    )


def handling(
    token: str, kernel: Evidence[Kernel], options: EffectiveOptions
) -> OptionHandling | Unknown:
    """Return how a mount handles a token, or why that is unknown."""
    key = token.partition("=")[0]
    # A vendor's option that the option listing shows was accepted.
    if key not in ext4_options() and any(token == each.token for each in options.options):
        return TAKEN
    if key in NOT_EXT4_OPTIONS:
        return OptionHandling(Handling.REFUSED, "takes no value")
    if isinstance(kernel, Unknown):
        ends = {handling_of(token, OLDEST).handling, handling_of(token, NEWEST).handling}
        return handling_of(token, NEWEST) if len(ends) == 1 else kernel
    answer = handling_of(token, kernel.value.upstream)
    if answer.handling is not Handling.NOT_KNOWN:
        return answer
    series = ".".join(map(str, kernel.value.upstream[:2]))
    detail = f"no kernel near {series} was tested"
    return Unknown(
        f"whether Linux {series} accepts {token}", Why.UNSUPPORTED, detail, "test the mount"
    )


def _conflicts(
    fs: Filesystem, host: Host, intent: MountConfig, options: EffectiveOptions, gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield the tokens that conflict with other tokens, the type, or a missing journal."""
    tokens = intent.entry.line.options
    yield from _by_type(tokens, intent.entry.line.fstype, host.kernel, gaps)
    stored = _mode_without(fs, host, options)
    if stored is None and isinstance(fs.superblock, Unknown) and _needs_mode(tokens):
        gaps.append(fs.superblock)
    yield from _by_data_mode(tokens, host.kernel, stored, gaps)
    yield from _by_quota(fs, tokens, gaps)
    yield from _by_journal_device(fs, tokens, gaps)
    yield from _by_size(fs, tokens, host.kernel, gaps)
    commits = [w for w in tokens if w.startswith("commit=") and w not in DEFAULT_COMMIT]
    judged = [w for w in tokens if needs_journal(w) or w in commits]
    skipped = next((token for token in tokens if token in WITHOUT_THE_JOURNAL), None)
    if judged and skipped:
        yield from ((token, f"{skipped} mounts it without the journal") for token in judged)
    elif judged and not _has_journal(fs, host, options, gaps):
        yield from ((token, "the filesystem has no journal") for token in judged)


def _has_journal(
    fs: Filesystem, host: Host, options: EffectiveOptions, gaps: list[Unknown]
) -> bool:
    """Return whether there is a journal: only then do the options in force have a data mode.

    The options of a plan prove nothing, because no kernel has accepted them.
    """
    if not host.planned and options.find("data") is not None:
        return True
    if isinstance(fs.superblock, Known):
        return fs.superblock.value.has_journal
    gaps.append(fs.superblock)
    return True


def _by_journal_device(
    fs: Filesystem, tokens: Sequence[str], gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield journal device options if the journal is internal (ext4_load_journal())."""
    named = [w for w in tokens if w.startswith(JOURNAL_DEVICES) and w != NO_DEVICE]
    if not named or WITHOUT_THE_JOURNAL.intersection(tokens):
        return
    if isinstance(fs.superblock, Unknown):
        gaps.append(fs.superblock)
    elif fs.superblock.value.inode_of_journal:
        yield from ((token, "the journal is inside the filesystem") for token in named)


def _by_size(
    fs: Filesystem, tokens: Sequence[str], kernel: Evidence[Kernel], gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield sb= if no superblock is there, and extra inode space that the inodes do not have."""
    named = {w: number_of(w) or 0 for w in tokens if w.startswith((SUPERBLOCK, EXTRA_BYTES))}
    if not named or not _since(kernel, SIZES_CHECKED_SINCE, gaps):
        return
    sizes = superblock_field(fs, "sizes", lambda superblock: superblock.sizes)
    inode = superblock_field(fs, "inode size", lambda superblock: superblock.inode_bytes)
    for token, number in named.items():
        if token.startswith(SUPERBLOCK):
            if isinstance(sizes, Unknown):
                gaps.append(sizes)
            elif not _has_copy(sizes.value, number * SUPERBLOCK_UNIT_BYTES):
                yield token, "the filesystem has no superblock there"
        elif isinstance(inode, Unknown):
            gaps.append(inode)
        elif not _fits(number, inode.value):
            yield token, f"the value must be even and fit into an inode of {inode.value} bytes"


def _has_copy(sizes: Sizes, byte: int) -> bool:
    """Return whether the superblock, or a group with a backup of it, begins at this byte."""
    first_byte = sizes.first_block * sizes.block_bytes
    group, inside = divmod(byte - first_byte, sizes.blocks_per_group * sizes.block_bytes)
    is_backup = not inside and 0 < group < sizes.groups and has_superblock(sizes, group)
    return is_backup or byte == SUPERBLOCK_OFFSET_BYTES


def _fits(number: int, inode_bytes: int) -> bool:
    """Return whether inodes have room for `number` extra bytes: an even number of at least 4."""
    most = inode_bytes - SMALLEST_INODE_BYTES
    return number % 2 == 0 and LEAST_EXTRA_BYTES <= number <= most


def _by_quota(
    fs: Filesystem, tokens: Sequence[str], gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield quota files that no mount accepts, and options whose feature it lacks.

    With the feature quota, the file options are not used.
    """
    has_format = any(token.startswith("jqfmt=") for token in tokens)
    files = {w: _wrong_file(w, has_format=has_format) for w in tokens if w.startswith(QUOTA_FILES)}
    wrong = [(token, "quota", why) for token, why in files.items() if why]
    needed = {token: feature_needed_by(token) for token in tokens}
    wrong += [(token, name, f"needs the feature {name}") for token, name in needed.items() if name]
    if wrong and isinstance(fs.superblock, Unknown):
        gaps.append(fs.superblock)
    elif isinstance(fs.superblock, Known):
        features = fs.superblock.value.features
        yield from ((token, why) for token, feature, why in wrong if feature not in features)


def _wrong_file(token: str, *, has_format: bool) -> str:
    name = token.partition("=")[2]
    if "/" in name:
        return "must name a file in the filesystem's root directory"
    return "" if has_format or not name else "requires jqfmt="


def _by_type(
    tokens: Sequence[str], fstype: str, kernel: Evidence[Kernel], gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    concerned = [token for token in tokens if fstype != "ext4" and is_refused_for(token, fstype)]
    if concerned and _since(kernel, ONE_DRIVER_SINCE, gaps):
        yield from ((token, f"not available for type {fstype}") for token in concerned)


def _mode_without(fs: Filesystem, host: Host, options: EffectiveOptions) -> str | None:
    """Return the data mode of a mount without options, None if it is unknown.

    The kernel judges conflicts with the mode of the superblock even without a journal (6.18).
    """
    option = options.find("data")
    if isinstance(fs.superblock, Known) and not fs.superblock.value.has_journal:
        return stored_token(fs.superblock.value, stored_words(fs, host).applied, "data")
    return option.baseline if option else None


def _needs_mode(tokens: Sequence[str]) -> bool:
    """Return whether a data mode of the superblock decides about one of the tokens."""
    return bool(NOT_WITH_DATA_JOURNAL.intersection(tokens)) and not any(
        token.startswith("data=") for token in tokens
    )


def stored_token(superblock: Superblock, words: Sequence[str], name: str) -> str | None:
    """Return the token of an option that the bits or `words`, those of the string, set."""
    bits = spec_named(name).superblock_bits
    states = [bits[bit] for bit in superblock.default_mount_options if bit in bits]
    states += [token for spec, token in filter(None, map(recognize, words)) if spec.name == name]
    return states[-1] if states else None


def _by_data_mode(
    tokens: Sequence[str], kernel: Evidence[Kernel], default: str | None, gaps: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield the tokens that conflict with the data mode, which is the default if not set."""
    mode = next((token for token in reversed(tokens) if token.startswith("data=")), None)
    coming = mode or default
    ordered = coming == "data=ordered" and "journal_async_commit" in tokens
    if ordered and _since(kernel, ASYNC_NEEDS_OTHER_DATA_SINCE, gaps):
        yield "journal_async_commit", "conflicts with data=ordered"
    if coming != "data=journal":
        return
    why = f"conflicts with data=journal{'' if mode else ' of the superblock'}"
    for token in tokens:
        if token in NOT_WITH_DATA_JOURNAL:
            yield token, why
        elif token == NOLOCK and not _since(kernel, NOLOCK_TAKEN_SINCE, gaps):
            yield from () if isinstance(kernel, Unknown) else ((token, why),)


def _since(kernel: Evidence[Kernel], first: tuple[int, ...], gaps: list[Unknown]) -> bool:
    """Return whether the kernel is at least this version; adds an unknown kernel to `gaps`."""
    if isinstance(kernel, Unknown):
        gaps.append(kernel)
        return False
    return kernel.value.since(*first)


NOT_WAITED_FOR = frozenset({"noauto", "nofail", "x-systemd.automount"})
"""Options of entries that the boot does not wait for."""
LONGEST_LIST = 32
"""The maximum length of a list of options in a summary, in characters."""


def listed(tokens: Sequence[str]) -> str:
    """Return options for a summary: their names, or only their number if the names are long."""
    names = ", ".join(tokens)
    if len(names) <= LONGEST_LIST and names.isprintable():
        return names
    return f"{len(tokens)} options" if len(tokens) > 1 else "an option"


def findings_of(refusals: Refusals, intent: MountConfig, *, planned: bool) -> Iterator[Finding]:
    """Yield findings on refused options, and on options that are accepted without effect."""
    where = "The plan" if planned else intent.origin
    if refusals.refused:
        yield _refused(refusals, intent, where)
    if refusals.ignored:
        yield _ignored(refusals.ignored, intent, where)


def _refused(refusals: Refusals, intent: MountConfig, where: str) -> Finding:
    tokens = [token for token, _ in refusals.refused]
    refused = ", ".join(f"{token} ({why})" for token, why in refusals.refused)
    waits = not NOT_WAITED_FOR.intersection(intent.entry.line.options)
    end = "the next mount and the next boot fail" if waits else "the next mount fails"
    return Finding(
        message=f"{where} sets {refused}, which this kernel's ext4 refuses: {end}.",
        severity=Severity.HIGH if waits else Severity.MEDIUM,
        # A vendor may have backported the option to an older kernel, or added its own.
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_remove_from_fstab(intent, tokens),
        fact=f"{intent.mount.mount_point} {','.join(tokens)}",
        summary=f"the kernel refuses {listed(tokens)}: {end}",
    )


def _ignored(tokens: Sequence[str], intent: MountConfig, where: str) -> Finding:
    return Finding(
        message=f"{where} sets {', '.join(tokens)}, which this kernel's ext4 accepts and ignores.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_remove_from_fstab(intent, tokens),
        fact=f"{intent.mount.mount_point} {','.join(tokens)}",
        summary=f"the kernel ignores {listed(tokens)}",
    )


def _remove_from_fstab(intent: MountConfig, tokens: Sequence[str]) -> tuple[Remedy, ...]:
    """Return the remedy that removes the options from fstab; the mount is not changed."""
    steps = remedies.configuration.option_steps(intent.entry.line, tokens, ())
    summary = f"Remove {', '.join(tokens)} from fstab."
    return (Remedy(summary, Disruption.ONLINE, steps),) if steps else ()


class Drift(NamedTuple):
    """An option whose token in fstab differs from the token in force.

    `baseline` is the token that would be in force without the option in fstab, None if unknown.
    """

    name: str
    intended: str
    in_force: str
    baseline: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the option is a flag without an opposite token and is not in force."""
        return self.in_force == f"no {self.intended}"

    @property
    def by_hand(self) -> bool:
        """Whether the token in force was set manually: it is neither fstab's nor the baseline."""
        return self.baseline not in {None, self.in_force}


def wrong_tokens(
    fs: Filesystem, host: Host, inactive: Sequence[Drift], flags: Sequence[str], intent: MountConfig
) -> list[str]:
    """Return the tokens to drop from fstab: not required, nor better than what is in force."""
    wanted = demanded(fs, host)
    runs = {*(drift.in_force for drift in inactive), *intent.live_flags}
    worse = discouraged(runs, fs, host)
    atime = ATIME_OPTIONS.keys() if "strictatime" in worse else frozenset()
    tokens = [drift.intended for drift in inactive if drift.in_force not in worse]
    tokens += [flag for flag in flags if flag not in atime]
    replaced = {token: replaced_demands(fs, host, states_of([token])) for token in tokens}
    missing = {w for demands in replaced.values() for w in demands if w not in runs}
    return [w for w in tokens if w not in wanted and missing.isdisjoint(replaced[w])]

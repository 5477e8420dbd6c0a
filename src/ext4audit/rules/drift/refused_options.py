"""Options of fstab that the next mount refuses or ignores, and which are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import Filesystem, Host, Kernel
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.option_grammar import (
    TAKEN,
    Handling,
    OptionHandling,
    ext4_options,
    handling_of,
    is_refused_for,
    needs_journal,
)
from ext4audit.facts.option_table import NOT_EXT4_OPTIONS
from ext4audit.facts.options import EffectiveOptions
from ext4audit.finding import Confidence, Disruption, Finding, Phase, Remedy, Severity, Step
from ext4audit.remedies.fstab import edit_options, says
from ext4audit.rules.shared.demands import condemned, demanded, overruled
from ext4audit.rules.shared.intent import Intent, is_for_others

OLDEST, NEWEST = (3, 10), (99,)
"""Kernels at both ends: what they agree on needs no version."""
ASYNC_NEEDS_OTHER_DATA_SINCE = (4, 4)
NOLOCK_TAKEN_SINCE = (5, 6)
"""data=journal drops dioread_nolock silently from here on; before, it refuses both together."""
ONE_DRIVER_SINCE = (4, 3)
"""ext3 had a driver with a grammar of its own until 4.2."""
QUOTA_FILES, PROJECTS = ("usrjquota=", "grpjquota="), "prjquota"
DEFAULT_COMMIT = frozenset({"commit=5", "commit=0"})


@dataclass(frozen=True, slots=True)
class Refusals:
    """The words of an entry that are refused or ignored, each with the reason; and the holes."""

    refused: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    holes: tuple[Unknown, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """All words that will not take effect."""
        return (*(word for word, _ in self.refused), *self.ignored)


def refusals_of(fs: Filesystem, host: Host, intent: Intent, options: EffectiveOptions) -> Refusals:
    """Return what this kernel will not take of an fstab entry.

    A word that the mount table shows was taken, whatever is known of the version: vendors add
    words, and take others back into older kernels.
    """
    shown = () if host.planned else (*intent.mount.super_options, *intent.mount.mount_options)
    words = [w for w in intent.entry.line.options if not is_for_others(w) and w not in shown]
    found = {word: _answer(word, host.kernel, options) for word in words}
    answers = {word: said for word, said in found.items() if isinstance(said, OptionHandling)}
    holes = [said for said in found.values() if isinstance(said, Unknown)]
    refused = {
        word: said.why for word, said in answers.items() if said.handling is Handling.REFUSED
    }
    together = _together(fs, host, intent, options, holes) if intent.first else ()
    for word, why in together:
        if word in words:
            refused.setdefault(word, why)
    ignored = (word for word, said in answers.items() if said.handling is Handling.IGNORED)
    return Refusals(
        tuple(refused.items()),
        tuple(word for word in ignored if word not in refused),
        tuple(dict.fromkeys(holes)),
    )


def _answer(
    word: str, kernel: Evidence[Kernel], options: EffectiveOptions
) -> OptionHandling | Unknown:
    """Return the fate of a word, or why it is not known."""
    key = word.partition("=")[0]
    if key not in ext4_options() and word in _in_force(options):
        return TAKEN
    if key in NOT_EXT4_OPTIONS:
        return OptionHandling(Handling.REFUSED, "it takes no value")
    if isinstance(kernel, Unknown):
        ends = {handling_of(word, OLDEST).handling, handling_of(word, NEWEST).handling}
        return handling_of(word, NEWEST) if len(ends) == 1 else kernel
    answer = handling_of(word, kernel.value.upstream)
    if answer.handling is not Handling.NOT_KNOWN:
        return answer
    series = ".".join(map(str, kernel.value.upstream[:2]))
    detail = f"no kernel near {series} was looked at"
    return Unknown(f"whether Linux {series} takes {word}", Why.UNSUPPORTED, detail, "try a mount")


def _in_force(options: EffectiveOptions) -> frozenset[str]:
    """Return what the options file shows: a vendor's word that is there was taken."""
    return frozenset(option.token for option in options.options)


def _together(
    fs: Filesystem,
    host: Host,
    intent: Intent,
    options: EffectiveOptions,
    holes: list[Unknown],
) -> Iterator[tuple[str, str]]:
    """Yield the words that collide with others, the type, or the lack of a journal."""
    words = intent.entry.line.options
    yield from _by_type(words, intent.entry.line.fstype, host.kernel, holes)
    yield from _by_data_mode(words, host.kernel, options, holes)
    yield from _by_quota(fs, words, holes)
    judged = [w for w in words if needs_journal(w) or _is_other_commit(w)]
    if judged and not _has_journal(fs, options, holes):
        yield from ((word, "there is no journal") for word in judged)


def _is_other_commit(word: str) -> bool:
    return word.startswith("commit=") and word not in DEFAULT_COMMIT


def _has_journal(fs: Filesystem, options: EffectiveOptions, holes: list[Unknown]) -> bool:
    """Whether there is a journal: the options in force have a data mode only then."""
    if options.find("data") is not None:
        return True
    if isinstance(fs.superblock, Known):
        return fs.superblock.value.has_journal
    holes.append(fs.superblock)
    return True


def _by_quota(
    fs: Filesystem, words: Sequence[str], holes: list[Unknown]
) -> Iterator[tuple[str, str]]:
    """Yield quota files that no mount takes, and limits for projects that the features lack.

    With the feature quota, the files are left aside.
    """
    has_format = any(word.startswith("jqfmt=") for word in words)
    files = {w: _wrong_file(w, has_format=has_format) for w in words if w.startswith(QUOTA_FILES)}
    wrong = [(word, "quota", why) for word, why in files.items() if why]
    if PROJECTS in words:
        wrong.append((PROJECTS, "project", "the filesystem lacks the feature project"))
    if wrong and isinstance(fs.superblock, Unknown):
        holes.append(fs.superblock)
    elif isinstance(fs.superblock, Known):
        features = fs.superblock.value.features
        yield from ((word, why) for word, feature, why in wrong if feature not in features)


def _wrong_file(word: str, *, has_format: bool) -> str:
    name = word.partition("=")[2]
    if "/" in name:
        return "it takes the name of a file in the filesystem's root directory"
    return "" if has_format or not name else "it needs jqfmt= beside it"


def _by_type(
    words: Sequence[str], fstype: str, kernel: Evidence[Kernel], holes: list[Unknown]
) -> Iterator[tuple[str, str]]:
    concerned = [word for word in words if fstype != "ext4" and is_refused_for(word, fstype)]
    if concerned and _since(kernel, ONE_DRIVER_SINCE, holes):
        yield from ((word, f"{fstype} does not have it") for word in concerned)


def _by_data_mode(
    words: Sequence[str],
    kernel: Evidence[Kernel],
    options: EffectiveOptions,
    holes: list[Unknown],
) -> Iterator[tuple[str, str]]:
    """Yield the words that the data mode excludes; without one, the mode is the default."""
    mode = next((word for word in reversed(words) if word.startswith("data=")), None)
    default = options.find("data")
    coming = mode or (default.baseline if default else None)
    ordered = coming == "data=ordered" and "journal_async_commit" in words
    if ordered and _since(kernel, ASYNC_NEEDS_OTHER_DATA_SINCE, holes):
        yield "journal_async_commit", "data=ordered excludes it"
    if mode != "data=journal":
        return
    for word in words:
        if word in {"delalloc", "dax", "dax=always"}:
            yield word, "data=journal excludes it"
        elif word == "dioread_nolock" and not _since(kernel, NOLOCK_TAKEN_SINCE, holes):
            yield from () if isinstance(kernel, Unknown) else ((word, "data=journal excludes it"),)


def _since(kernel: Evidence[Kernel], first: tuple[int, ...], holes: list[Unknown]) -> bool:
    """Whether the kernel is at least this one; a kernel that is not known is a hole."""
    if isinstance(kernel, Unknown):
        holes.append(kernel)
        return False
    return kernel.value.since(*first)


WAITED_FOR_NOT = frozenset({"noauto", "nofail", "x-systemd.automount"})
"""Words of an entry that no boot waits for."""


def findings_of(refusals: Refusals, intent: Intent, *, planned: bool) -> Iterator[Finding]:
    """Yield what is refused, and what is taken without effect."""
    where = "The plan" if planned else intent.origin
    if refusals.refused:
        yield _refused(refusals, intent, where)
    if refusals.ignored:
        yield _ignored(refusals.ignored, intent, where)


def _refused(refusals: Refusals, intent: Intent, where: str) -> Finding:
    words = [word for word, _ in refusals.refused]
    said = ", ".join(f"{word} ({why})" for word, why in refusals.refused)
    waits = not WAITED_FOR_NOT.intersection(intent.entry.line.options)
    end = "the next mount fails, and the boot with it" if waits else "the next mount fails"
    return Finding(
        message=f"{where} holds {said}, which this kernel's ext4 refuses: {end}.",
        severity=Severity.HIGH if waits else Severity.MEDIUM,
        # A vendor may have taken the word into an older kernel, or one of its own.
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_taken_out(intent, words),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _ignored(words: Sequence[str], intent: Intent, where: str) -> Finding:
    return Finding(
        message=f"{where} holds {', '.join(words)}, which this kernel's ext4 takes and "
        "ignores: it changes nothing.",
        severity=Severity.INFO,
        confidence=Confidence.LIKELY,
        citations=intent.cite(),
        remedies=_taken_out(intent, words),
        fact=f"{intent.mount.mount_point} {','.join(words)}",
    )


def _taken_out(intent: Intent, words: Sequence[str]) -> tuple[Remedy, ...]:
    """Return the remedy that takes the words out of the entry; the mount stays as it is."""
    line = intent.entry.line
    edit = edit_options(line, words, ())
    if edit is None:
        return ()
    remedy = Remedy(
        summary=f"Take {', '.join(words)} out of fstab.",
        disruption=Disruption.ONLINE,
        steps=(
            *(Step(Phase.PERSISTENT, command) for command in edit.apply),
            *(Step(Phase.VERIFY, f"! {command}") for command in says(line, words)),
            *(Step(Phase.ROLLBACK, command) for command in edit.undo),
        ),
    )
    return (remedy,)


@dataclass(frozen=True, slots=True)
class Drift:
    """An option by name, the token that fstab intends, and the token in force.

    `baseline` is what would be in force without the word in fstab, None where that is not known.
    """

    name: str
    intended: str
    in_force: str
    baseline: str | None = None

    @property
    def by_hand(self) -> bool:
        """Whether what is in force is neither fstab's nor what fstab's silence would give."""
        return self.baseline not in {None, self.in_force}


def wrong_words(
    fs: Filesystem, host: Host, inactive: Sequence[Drift], flags: Sequence[str], intent: Intent
) -> list[str]:
    """Return the words that fstab may lose: not what is demanded, nor better than what runs."""
    wanted = demanded(fs, host)
    runs = {*(drift.in_force for drift in inactive), *intent.live_flags}
    worse = condemned(runs, fs, host)
    atime = ATIME_OPTIONS.keys() if "strictatime" in worse else frozenset()
    words = [drift.intended for drift in inactive if drift.in_force not in worse]
    words += [flag for flag in flags if flag not in atime]
    missing = {w for word in words for w in overruled(fs, host, [word]) if w not in runs}
    return [w for w in words if w not in wanted and missing.isdisjoint(overruled(fs, host, [w]))]


def only_running(intent: Intent, words: frozenset[str]) -> frozenset[str]:
    """Return the flags in force that a remount by fstab, whose flags are `words`, would end.

    An ro under a mount that is rw came from the kernel, after an error: nobody asked for it.
    """
    stopped = {"ro"}.intersection(intent.mount.super_options)
    forced = stopped.difference(intent.mount.mount_options)
    return intent.live_flags - words - ATIME_OPTIONS.keys() - forced

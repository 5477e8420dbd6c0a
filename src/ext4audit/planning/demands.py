"""Plans that have what profiles demand; they are tried and judged like every other change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mkfs_words import MkfsWords
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.plan import Plan
from ext4audit.facts.profile import Profile
from ext4audit.records import replace
from ext4audit.report import Report

LOCK = "dioread_lock"
"""What goes with nodelalloc on kernels where dioread_nolock would make writes slow."""


def demanded_mounts(plan: Plan, report: Report) -> Iterator[tuple[str, Plan]]:
    """Yield plans with the mount options that are demanded, the second with the lock beside."""
    fs, profiles = _judged(report)
    demanded = dict.fromkeys(word for profile in profiles for word in profile.options)
    words = [word for word in demanded if not _is_there(plan, fs, word)]
    if not words:
        return
    for more in (words, [*words, LOCK]):
        summary = f"Add {','.join(more)} to the mount options, {_whose(profiles)}"
        yield summary, replace(plan, mount_options=(*_without(plan.mount_options, more), *more))


def demanded_layouts(plan: Plan, report: Report) -> Iterator[tuple[str, Plan]]:
    """Yield plans with the features, clusters and reserve that are demanded."""
    _, profiles = _judged(report)
    for profile in profiles:
        mkfs, words = plan.mkfs, []
        if profile.features:
            words.append(f"-O {','.join(profile.features)}")
            mkfs = _with_features(mkfs, profile.features)
        for flag, value in _values(profile):
            words.append(f"{flag} {value}")
            mkfs = mkfs.with_value(flag, value)
        if mkfs != plan.mkfs:
            yield f"Make it with {' '.join(words)}, {_whose([profile])}", replace(plan, mkfs=mkfs)


def _with_features(mkfs: MkfsWords, features: Sequence[str]) -> MkfsWords:
    """Return the words with features, said once, and not taken back any more."""
    others = (word for word in mkfs.features if word.lstrip("^") not in features)
    return replace(mkfs, features=(*others, *features))


def _values(profile: Profile) -> Iterator[tuple[str, str]]:
    if profile.cluster_bytes:
        yield "-C", str(profile.cluster_bytes)
    if profile.reserved_percent is not None:
        yield "-m", "0"


def _judged(report: Report) -> tuple[Filesystem, tuple[Profile, ...]]:
    (fs, *_) = report.host.filesystems
    return fs, report.host.profiles_of(fs)


def _is_there(plan: Plan, fs: Filesystem, word: str) -> bool:
    """Whether a word is in force or asked for."""
    known = recognize(word)
    if known is None or not isinstance(fs.options, Known):
        return word in plan.mount_options
    option = fs.options.value.find(known[0].name)
    return option is not None and option.token == known[1]


def _without(options: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """Yield the options that say nothing of what the words say."""
    names = {_name(word) for word in words}
    return (option for option in options if _name(option) not in names)


def _name(word: str) -> str:
    known = recognize(word)
    return "atime" if word in ATIME_WORDS else known[0].name if known else word


def _whose(profiles: Sequence[Profile]) -> str:
    return f"by demand of {', '.join(profile.product for profile in profiles)}"

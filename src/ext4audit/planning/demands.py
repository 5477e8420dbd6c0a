"""Plans that have what profiles demand; they are tried and judged like every other change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
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
        mkfs = plan.mkfs
        if profile.features:
            mkfs = mkfs.with_value("-O", ",".join((*_features(plan), *profile.features)))
        if profile.cluster_bytes:
            mkfs = mkfs.with_value("-C", str(profile.cluster_bytes))
        if profile.reserved_percent is not None:
            mkfs = mkfs.with_value("-m", "0")
        if mkfs != plan.mkfs:
            words = " ".join(word for word in mkfs.words if word not in plan.mkfs.words)
            yield f"Make it with {words}, {_whose([profile])}", replace(plan, mkfs=mkfs)


def _judged(report: Report) -> tuple[Filesystem, tuple[Profile, ...]]:
    (fs, *_) = report.host.filesystems
    return fs, report.host.profiles_of(fs)


def _features(plan: Plan) -> list[str]:
    said = plan.mkfs.value("-O")
    return said.split(",") if said else []


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

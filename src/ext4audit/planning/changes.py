"""Changes that make a plan better, or that a profile requires; each is judged by the same rules.

Nothing here knows what a rule looks for. A change is good when the plan that has it gets fewer or
milder findings, and nothing that it did not have before: neither a finding nor a blind spot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ext4audit.evidence import Known
from ext4audit.facts.host import Filesystem
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.profile import Profile
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Severity
from ext4audit.layout.advice import advise
from ext4audit.layout.levels import map_of
from ext4audit.report import Outcome, Report

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


def _with_features(mkfs: MkfsArguments, features: Sequence[str]) -> MkfsArguments:
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
    return "atime" if word in ATIME_OPTIONS else known[0].name if known else word


def _whose(profiles: Sequence[Profile]) -> str:
    return f"by demand of {', '.join(profile.product for profile in profiles)}"


Judge: TypeAlias = Callable[[Plan], Report]
Weights: TypeAlias = Mapping[str, int]

GROUP_WORDS = ("-g ", "-G ")
OPEN = frozenset({Outcome.UNDETERMINED, Outcome.ERROR})


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a plan: what to do, in the imperative, and the plan that has it.

    `remakes` says that it concerns mke2fs, and so where everything lies.
    """

    summary: str
    plan: Plan
    remakes: bool = False


def improvements(
    plan: Plan, report: Report, judge: Judge, least: Severity
) -> Iterator[tuple[Change, Report]]:
    """Yield the changes that make a plan better, with what is said of it then.

    Those of mke2fs's words, each of which is a simulation, are tried only where no other helps.
    """
    found = False
    for candidates in (_cheap(plan, report), _words_of_mkfs(plan)):
        if found:
            return
        for change in candidates:
            judged = judge(change.plan)
            if _is_better(judged, report, least):
                found = True
                yield change, judged


def _cheap(plan: Plan, report: Report) -> Iterator[Change]:
    yield from _group_size(plan, report)
    yield from (Change(*demanded) for demanded in demanded_mounts(plan, report))
    for demanded in demanded_layouts(plan, report):
        yield Change(*demanded, remakes=True)
    for index, word in enumerate(plan.mount_options):
        rest = (*plan.mount_options[:index], *plan.mount_options[index + 1 :])
        yield Change(f"Leave {word} out of the mount options", replace(plan, mount_options=rest))
    superblock = _superblock(report)
    for word in superblock.default_mount_options if superblock else ():
        cleared = replace(plan, cleared=(*plan.cleared, word))
        yield Change(f"Clear {word} from the default mount options that mke2fs sets", cleared)


def _words_of_mkfs(plan: Plan) -> Iterator[Change]:
    for words, left in plan.mkfs.shorter():
        if plan.geometry is not None and words.startswith(GROUP_WORDS):
            continue  # on a stripe the advice has said what is to be said of these
        summary = f"Leave {words} out of the options of mke2fs"
        yield Change(summary, replace(plan, mkfs=left), remakes=True)


def _group_size(plan: Plan, report: Report) -> Iterator[Change]:
    """Yield the group size and flex_bg size that spread the bitmaps over the stripe."""
    geometry, superblock = plan.geometry, _superblock(report)
    if geometry is None or superblock is None:
        return
    advice = advise(map_of(geometry), superblock)
    if advice is None:
        return
    if advice.is_default:
        if plan.mkfs.value("-g") is not None:
            summary = "Leave -g out: the default groups are even on this array"
            yield Change(summary, replace(plan, mkfs=plan.mkfs.without_value("-g")), remakes=True)
        return
    group, flex = str(advice.blocks_per_group_option), str(advice.flex_bg_groups)
    mkfs = plan.mkfs.with_value("-g", group).with_value("-G", flex)
    if advice.flex_bg_groups == 1:
        # Without flex_bg packing a stride moves the bitmaps: -G 1 -g 32760 on 4 disks with chunks
        # of 32 KiB served 2.7 disks with stride=8 and 4.0 with stride=0 (mke2fs 1.47.0).
        mkfs = mkfs.without_extended("stride").with_extended("stride=0")
    stride = " -E stride=0" if advice.flex_bg_groups == 1 else ""
    summary = f"Make it with -g {group} -G {flex}{stride}"
    yield Change(summary, replace(plan, mkfs=mkfs), remakes=True)


def _superblock(report: Report) -> Superblock | None:
    superblock = report.host.filesystems[0].superblock
    return superblock.value if isinstance(superblock, Known) else None


def _is_better(new: Report, old: Report, least: Severity) -> bool:
    """Whether findings went or became milder, and nothing came: no finding and no blind spot."""
    before, after = weights_of(old, least), weights_of(new, least)
    grown = any(weight > before.get(code, 0) for code, weight in after.items())
    return after != before and not grown and open_count(new) <= open_count(old)


def weights_of(report: Report, least: Severity) -> Weights:
    """Return what the findings of each rule weigh, those milder than `least` left out."""
    weights: Counter[str] = Counter()
    for verdict in report.verdicts:
        for finding in verdict.findings:
            if finding.severity.at_least(least):
                weights[verdict.rule.code] += len(Severity) - finding.severity.rank
    return weights


def open_count(report: Report) -> int:
    """Count what is not determined."""
    holes = sum(1 for each in report.verdicts if each.outcome in OPEN or each.unknowns)
    return holes + len(report.host.gaps)

"""Improvements of a plan: candidate changes, of which those are kept that improve the verdicts.

The candidates do not depend on the rules. A change improves a plan if the changed plan has fewer
or milder findings, no new finding and no new gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ext4audit.evidence import Known
from ext4audit.facts.features_and_bugs import newer_features
from ext4audit.facts.host import Filesystem, Profile
from ext4audit.facts.options import option_name, recognize
from ext4audit.facts.plan import MkfsArguments, Plan
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Severity
from ext4audit.layout.advice import advice_on
from ext4audit.report import Outcome, Report, Verdict

Judge: TypeAlias = Callable[[Plan], Report]
Weights: TypeAlias = Mapping[str, int]

GROUP_OPTIONS = ("-g", "-G")
UNDETERMINED = frozenset({Outcome.UNDETERMINED, Outcome.ERROR})
LOCK = "dioread_lock"
"""The option to add to nodelalloc on kernels where dioread_nolock makes writes slow."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a plan: an instruction in the imperative, and the changed plan.

    `remakes` is true for changes of mke2fs arguments, which decide the whole layout.
    """

    summary: str
    plan: Plan
    remakes: bool = False


def improvements(
    plan: Plan, report: Report, judge: Judge, least: Severity
) -> Iterator[tuple[Change, Report]]:
    """Yield the changes that improve a plan, with the report of the changed plan.

    The removal of mke2fs arguments is only tried if no other change helps, because each trial is
    a simulation of mke2fs.
    """
    found = False
    for candidates in (_preferred_changes(plan, report), _fewer_mkfs_arguments(plan)):
        if found:
            return
        for change in candidates:
            judged = judge(change.plan)
            if _is_better(judged, report, least):
                found = True
                yield change, judged


def _preferred_changes(plan: Plan, report: Report) -> Iterator[Change]:
    yield from _group_size(plan, report)
    yield from _without_new_features(plan, report)
    yield from (Change(*demanded) for demanded in demanded_mounts(plan, report))
    for demanded in demanded_layouts(plan, report):
        yield Change(*demanded, remakes=True)
    for index, option in enumerate(plan.mount_options):
        rest = (*plan.mount_options[:index], *plan.mount_options[index + 1 :])
        yield Change(f"Leave {option} out of the mount options", replace(plan, mount_options=rest))
    superblock = _superblock(report)
    for option in superblock.default_mount_options if superblock else ():
        cleared = replace(plan, cleared=(*plan.cleared, option))
        yield Change(f"Clear {option} from the default mount options that mke2fs sets", cleared)


def _without_new_features(plan: Plan, report: Report) -> Iterator[Change]:
    """Yield the plan without the features that are too new for its kernel.

    They are turned off explicitly, because they may come from mke2fs.conf and not from the plan.
    """
    superblock, kernel = _superblock(report), plan.host.kernel
    if superblock is None or not isinstance(kernel, Known):
        return
    newer = newer_features(superblock.features, kernel.value)
    if newer:
        off = tuple(f"^{feature}" for feature in newer)
        others = (each for each in plan.mkfs.features if each.lstrip("+^") not in newer)
        mkfs = replace(plan.mkfs, features=(*others, *off))
        yield Change(f"Create it with -O {','.join(off)}", replace(plan, mkfs=mkfs), remakes=True)


def _fewer_mkfs_arguments(plan: Plan) -> Iterator[Change]:
    for removed, left in plan.mkfs.shorter():
        groups = any(plan.mkfs.value(each) != left.value(each) for each in GROUP_OPTIONS)
        if plan.geometry is not None and groups:
            continue  # on a stripe the layout advice decides these
        summary = f"Leave {removed} out of the options of mke2fs"
        yield Change(summary, replace(plan, mkfs=left), remakes=True)


def demanded_mounts(plan: Plan, report: Report) -> Iterator[tuple[str, Plan]]:
    """Yield plans with the mount options that profiles demand, without and with `LOCK`."""
    fs, profiles = _judged(report)
    demanded = dict.fromkeys(option for profile in profiles for option in profile.options)
    missing = [option for option in demanded if not _is_set(plan, fs, option)]
    if not missing:
        return
    for more in (missing, [*missing, LOCK]):
        summary = f"Add {','.join(more)} to the mount options, {_demanded_by(profiles)}"
        yield summary, replace(plan, mount_options=(*_without(plan.mount_options, more), *more))


def demanded_layouts(plan: Plan, report: Report) -> Iterator[tuple[str, Plan]]:
    """Yield plans with the features, cluster size and reserve that profiles demand."""
    _, profiles = _judged(report)
    for profile in profiles:
        mkfs, arguments = plan.mkfs, []
        if profile.features:
            arguments.append(f"-O {','.join(profile.features)}")
            mkfs = _with_features(mkfs, profile.features)
        for flag, value in _values(profile):
            arguments.append(f"{flag} {value}")
            mkfs = mkfs.with_value(flag, value)
        if mkfs != plan.mkfs:
            yield (
                f"Create it with {' '.join(arguments)}, {_demanded_by([profile])}",
                replace(plan, mkfs=mkfs),
            )


def _with_features(mkfs: MkfsArguments, features: Sequence[str]) -> MkfsArguments:
    """Return the arguments with the features, which replace other settings of the same features."""
    others = (each for each in mkfs.features if each.lstrip("^") not in features)
    return replace(mkfs, features=(*others, *features))


def _values(profile: Profile) -> Iterator[tuple[str, str]]:
    if profile.cluster_bytes:
        yield "-C", str(profile.cluster_bytes)
    if profile.new_reserve_percent is not None:
        yield "-m", f"{profile.new_reserve_percent:g}"


def _judged(report: Report) -> tuple[Filesystem, tuple[Profile, ...]]:
    (fs, *_) = report.host.filesystems
    return fs, report.host.profiles_of(fs)


def _is_set(plan: Plan, fs: Filesystem, token: str) -> bool:
    """Whether an option is in force, or in the plan if the options in force are unknown."""
    known = recognize(token)
    if known is None or not isinstance(fs.options, Known):
        return token in plan.mount_options
    option = fs.options.value.find(known[0].name)
    return option is not None and option.token == known[1]


def _without(options: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Return the options that do not set the same names as the others."""
    names = {option_name(each) for each in others}
    return (option for option in options if option_name(option) not in names)


def _demanded_by(profiles: Sequence[Profile]) -> str:
    return f"by demand of {', '.join(profile.product for profile in profiles)}"


def _group_size(plan: Plan, report: Report) -> Iterator[Change]:
    """Yield the group size and flex_bg size that spread the bitmaps over the stripe."""
    geometry, superblock = plan.geometry, _superblock(report)
    if geometry is None or superblock is None or superblock.sizes is None:
        return
    advice = advice_on(geometry, superblock.sizes)
    if advice is None:
        return
    if advice.is_default:
        if plan.mkfs.value("-g") is not None:
            summary = "Omit -g: the default groups are evenly distributed on this array"
            yield Change(summary, replace(plan, mkfs=plan.mkfs.without_value("-g")), remakes=True)
        if advice.flex_bg_groups == 1 and superblock.stride_blocks:
            # mke2fs shifts bitmaps by the stride if flex_bg does not pack them.
            mkfs = plan.mkfs.without_extended("stride").with_extended("stride=0")
            yield Change("Create it with -E stride=0", replace(plan, mkfs=mkfs), remakes=True)
        return
    group, flex = str(advice.blocks_per_group_option), str(advice.flex_bg_groups)
    mkfs = plan.mkfs.with_value("-g", group).with_value("-G", flex)
    if advice.flex_bg_groups == 1:
        mkfs = mkfs.without_extended("stride").with_extended("stride=0")
    elif "flex_bg" not in superblock.features:
        mkfs = _with_features(mkfs, ("flex_bg",))
    yield Change(f"Create it with {advice.options}", replace(plan, mkfs=mkfs), remakes=True)


def _superblock(report: Report) -> Superblock | None:
    superblock = report.host.filesystems[0].superblock
    return superblock.value if isinstance(superblock, Known) else None


def _is_better(new: Report, old: Report, least: Severity) -> bool:
    """Whether findings are fewer or milder, with no new findings and no new gaps."""
    before, after = weights_of(old, least), weights_of(new, least)
    worse = any(weight > before.get(code, 0) for code, weight in after.items())
    return after != before and not worse and gap_count(new) <= gap_count(old)


def weights_of(report: Report, least: Severity) -> Weights:
    """Return the sum of severities by rule code, ignoring findings milder than `least`."""
    weights: Counter[str] = Counter()
    for verdict in report.verdicts:
        for finding in verdict.findings:
            if finding.severity.at_least(least):
                weights[verdict.rule.code] += len(Severity) - finding.severity.rank
    return weights


def worst_of(reports: Sequence[Report]) -> Report:
    """Merge reports on the same plan: for each rule, keep the worst verdict.

    The unknowns of all reports are kept.
    """
    first = reports[0]
    columns = zip(*(report.verdicts for report in reports), strict=True)
    return first._replace(verdicts=tuple(_worst(each) for each in columns))


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    def weight(verdict: Verdict) -> tuple[int, bool]:
        findings = sum(len(Severity) - each.severity.rank for each in verdict.findings)
        return findings, verdict.outcome in UNDETERMINED

    worst = max(verdicts, key=weight)
    unknowns = dict.fromkeys(unknown for verdict in verdicts for unknown in verdict.unknowns)
    return worst._replace(unknowns=tuple(unknowns))


def gap_count(report: Report) -> int:
    """Return the number of undetermined verdicts plus the number of gaps of the host."""
    verdicts = sum(1 for v in report.verdicts if v.outcome in UNDETERMINED or v.unknowns)
    return verdicts + len(report.host.gaps)

"""The commands that create and mount a planned filesystem, its remedies, and its correction.

`plan_lines` returns the commands, `with_plan_remedies` the remedies, `correct` the improved plan.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ext4audit.facts.plan import Plan
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Disruption, Finding, Remedy, Severity
from ext4audit.planning import Change, Judge, gap_count, improvements, weights_of
from ext4audit.report import PlanLine, Report, Verdict

FSTAB_ESCAPED = " \t\n\\#"
"""Characters that are octal escapes in a field of fstab(5); "#" would begin a comment."""
NO_UUID = frozenset({"clear", "null"})
ORIGIN = "the plan"
MOST_CHANGES = 8


def plan_lines(plan: Plan, superblock: Superblock | None) -> tuple[PlanLine, ...]:
    """Return the commands for a plan, in the order in which to run them.

    `superblock` is the predicted one; without it the group size is not checked.
    """
    return tuple(_lines(plan, superblock))


def _lines(plan: Plan, superblock: Superblock | None) -> Iterator[PlanLine]:
    device, where = shlex.quote(plan.device), shlex.quote(plan.mount_point)
    yield PlanLine("mkfs", "create it (DESTROYS all data on the device)", _mkfs(plan, superblock))
    if plan.cleared:
        cleared = ",".join(f"^{option}" for option in plan.cleared)
        purpose = "clear default mount options in the superblock"
        yield PlanLine("tune2fs", purpose, f"tune2fs -o {shlex.quote(cleared)} {device}")
    chosen = plan.mkfs.value("-g") is not None
    if chosen and superblock is not None and superblock.blocks_per_group is not None:
        purpose = "check: mke2fs silently lowers -g if there are many inodes"
        yield PlanLine("verify", purpose, _verify(superblock, device))
    if plan.mount_point != "/":  # the running system already has a root filesystem
        options = f" -o {shlex.quote(','.join(plan.mount_options))}" if plan.mount_options else ""
        mount = f"mkdir -p {where} && mount -t {plan.fstype}{options} {device} {where}"
        yield PlanLine("mount", "mount it now", mount)
    yield PlanLine("fstab", "print its line of /etc/fstab", _fstab(plan, device))
    yield from _tune_stripe(_stripe(plan, superblock), device)


def _mkfs(plan: Plan, superblock: Superblock | None) -> str:
    """Return the mkfs command with the stripe parameters, which mke2fs may not detect itself."""
    mkfs = plan.mkfs.with_extended(*_stripe(plan, superblock))
    words = [
        f"mkfs.{plan.fstype}",
        *mkfs.behaviour,
        *mkfs.without_value("-t").arguments(),
        plan.device,
    ]
    return shlex.join(words)


def _verify(superblock: Superblock, device: str) -> str:
    pattern = f"^Blocks per group: +{superblock.blocks_per_group}$"
    return f"dumpe2fs -h {device} 2>/dev/null | grep -Eq {shlex.quote(pattern)}"


def _fstab(plan: Plan, device: str) -> str:
    """Return the command that prints the fstab line.

    The line has the UUID, as device names change between boots; without a UUID it has the device.
    """
    where = shlex.quote(_escaped(plan.mount_point))
    options = shlex.quote(_escaped(",".join(plan.mount_options) or "defaults"))
    fsck_pass = 1 if plan.mount_point == "/" else 2
    spec, value = "UUID=", f'"$(blkid -s UUID -o value {device})"'
    if _has_no_uuid(plan):
        spec, value = "", shlex.quote(_escaped(plan.device))
    form = f"'{spec}%s %s {plan.fstype} %s 0 {fsck_pass}\\n'"
    return f"printf {form} {value} {where} {options}"


def _has_no_uuid(plan: Plan) -> bool:
    """Whether the plan makes mke2fs write a UUID of zeros, which means none (mke2fs(8): -U)."""
    uuid = plan.mkfs.value("-U")
    return uuid is not None and (uuid.lower() in NO_UUID or not uuid.strip("0-"))


def _escaped(field: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in FSTAB_ESCAPED else char for char in field)


def _stripe(plan: Plan, superblock: Superblock | None) -> tuple[str, ...]:
    """Return the parameters of the stripe, which are counted in blocks; none without them."""
    if superblock is None or superblock.block_bytes is None:
        return ()
    return plan.stripe_options(superblock.block_bytes, superblock.cluster_blocks or 1)


def _tune_stripe(words: tuple[str, ...], device: str) -> Iterator[PlanLine]:
    if words:
        purpose = "only for an existing filesystem without stride and stripe width"
        command = f"tune2fs -E {','.join(words)} {device}"
        yield PlanLine("tune2fs_stripe", purpose, command)


def with_plan_remedies(plan: Plan, report: Report, judge: Judge) -> Report:
    """Return the report with remedies that fit a plan, on which nothing can be remounted yet.

    The remedies of a finding are the single changes that resolve it or make it milder.
    """
    cures = _cures(plan, report, judge, Severity.LOW)
    notes = _cures(plan, report, judge, Severity.INFO)

    def planned(verdict: Verdict) -> Verdict:
        code = verdict.rule.code
        changes = cures.get(code) or notes.get(code) or ()
        evidence = tuple(_cited(each) for each in verdict.evidence)
        findings = tuple(_planned(each, changes) for each in verdict.findings)
        return verdict._replace(findings=findings, evidence=evidence)

    return report._replace(verdicts=tuple(planned(each) for each in report.verdicts))


def _cures(
    plan: Plan, report: Report, judge: Judge, least: Severity
) -> dict[str, tuple[Change, ...]]:
    """Return, by rule code, the changes that resolve its findings or make them milder.

    A change may resolve a finding and cause a note: without nodelalloc, a rename may wait again.
    """
    before = weights_of(report, least)
    found: dict[str, tuple[Change, ...]] = {}
    for change, judged in improvements(plan, report, judge, least):
        after = weights_of(judged, least)
        for code in before:
            if after.get(code, 0) < before[code]:
                found[code] = (*found.get(code, ()), change)
    return found


def _planned(finding: Finding, changes: Sequence[Change]) -> Finding:
    """Return a finding with the changes and the applicable remedies of the rule.

    Steps are removed: they act on a device, a mount or a queue that does not exist. The changes
    replace remedies that need a remount or a new mkfs.
    """
    remedies = [Remedy(f"{each.summary}.", Disruption.ONLINE) for each in changes]
    if not any(each.remakes for each in changes):
        others = (each for each in finding.remedies if _applies(each, has_change=bool(changes)))
        remedies += [each._replace(steps=()) for each in others]
    citations = tuple(_cited(each) for each in finding.citations)
    return finding._replace(remedies=tuple(remedies), citations=citations)


def _applies(remedy: Remedy, *, has_change: bool) -> bool:
    """Whether a remedy for a running filesystem applies to a plan as well."""
    fits = remedy.disruption in {Disruption.ONLINE, Disruption.REBOOT}
    return fits and not (has_change and remedy.steps)


def _cited(citation: Citation) -> Citation:
    """Replace a file as the origin of a citation: a plan reads neither /proc nor fstab."""
    is_of_file = citation.origin.startswith("/")  # the origin of a file is its path
    return citation._replace(origin=ORIGIN, fstab_line=None) if is_of_file else citation


@dataclass(frozen=True, slots=True)
class Correction:
    """A plan after the changes that improve it, with its report and the changes."""

    plan: Plan
    report: Report
    changes: tuple[Change, ...]

    @property
    def clean(self) -> bool:
        """Whether no finding of low severity or worse is left, and nothing is undetermined."""
        return not self.left

    @property
    def left(self) -> tuple[str, ...]:
        """The codes of rules with a finding of low severity or worse, and the number of gaps."""
        gaps = gap_count(self.report)
        found = tuple(sorted(weights_of(self.report, Severity.LOW)))
        return (*found, f"{gaps} not determined") if gaps else found


def correct(plan: Plan, judge: Judge) -> Correction:
    """Improve a plan by one change at a time until no finding is of low severity or worse."""
    report = judge(plan)
    changes: list[Change] = []
    while weights_of(report, Severity.LOW) and len(changes) < MOST_CHANGES:
        better = next(improvements(plan, report, judge, Severity.LOW), None)
        if better is None:
            break
        change, report = better
        plan = change.plan
        changes.append(change)
    return Correction(plan, report, tuple(changes))

"""The commands that make and mount a planned filesystem, its remedies, and its correction."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ext4audit.facts.plan import Plan, PlanLine
from ext4audit.facts.superblock import Superblock
from ext4audit.finding import Citation, Disruption, Finding, Remedy, Severity
from ext4audit.planning.changes import Change, Judge, improvements, open_count, weights_of
from ext4audit.report import Report, Verdict

FSTAB_ESCAPED = " \t\n\\#"
"""What fstab(5) spells in octal inside a field; a "#" at its start would be a comment."""


def plan_lines(plan: Plan, superblock: Superblock | None) -> tuple[PlanLine, ...]:
    """Return the lines for a plan, in the order in which to run them.

    `superblock` is the one that was predicted; without it there is no check of the group size.
    """
    return tuple(_lines(plan, superblock))


def _lines(plan: Plan, superblock: Superblock | None) -> Iterator[PlanLine]:
    device, where = shlex.quote(plan.device), shlex.quote(plan.mount_point)
    yield PlanLine("mkfs", "make it (DESTROYS what is on the device)", _mkfs(plan, superblock))
    if plan.cleared:
        words = ",".join(f"^{word}" for word in plan.cleared)
        purpose = "take defaults out that hide in the superblock"
        yield PlanLine("tune2fs", purpose, f"tune2fs -o {shlex.quote(words)} {device}")
    if superblock is not None and superblock.blocks_per_group is not None:
        purpose = "check: mke2fs lowers -g without a word where inodes are dense"
        yield PlanLine("verify", purpose, _verify(superblock, device))
    options = f" -o {shlex.quote(','.join(plan.mount_options))}" if plan.mount_options else ""
    mount = f"mkdir -p {where} && mount -t {plan.fstype}{options} {device} {where}"
    yield PlanLine("mount", "mount it now", mount)
    yield PlanLine("fstab", "print its line of /etc/fstab", _fstab(plan, device))
    if superblock is not None and superblock.block_bytes:
        yield from _tune_stripe(plan, superblock.block_bytes, device)


def _mkfs(plan: Plan, superblock: Superblock | None) -> str:
    """Return the user's words, and the numbers of the stripe that mke2fs may not see itself."""
    block_bytes = superblock.block_bytes if superblock else None
    mkfs = plan.mkfs.with_extended(*plan.stripe_options(block_bytes)) if block_bytes else plan.mkfs
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
    """Return the command that prints the line, by UUID: device names change between boots."""
    where = shlex.quote(_escaped(plan.mount_point))
    options = shlex.quote(_escaped(",".join(plan.mount_options) or "defaults"))
    fsck_pass = 1 if plan.mount_point == "/" else 2
    uuid = f'"$(blkid -s UUID -o value {device})"'
    form = f"'UUID=%s %s {plan.fstype} %s 0 {fsck_pass}\\n'"
    return f"printf {form} {uuid} {where} {options}"


def _escaped(field: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in FSTAB_ESCAPED else char for char in field)


def _tune_stripe(plan: Plan, block_bytes: int, device: str) -> Iterator[PlanLine]:
    words = plan.stripe_options(block_bytes)
    if words:
        purpose = "only for one that exists already without the stripe's numbers"
        command = f"tune2fs -E {','.join(words)} {device}"
        yield PlanLine("tune2fs_stripe", purpose, command)


ORIGIN = "the plan"


def with_plan_remedies(plan: Plan, report: Report, judge: Judge) -> Report:
    """Return the report with remedies that speak of the plan: nothing exists to be remounted.

    Each finding gets the single changes that were tried and cure it or make it milder.
    """
    cures = _cures(plan, report, judge, Severity.LOW)
    notes = _cures(plan, report, judge, Severity.INFO)

    def planned(verdict: Verdict) -> Verdict:
        code = verdict.rule.code
        changes = cures.get(code) or notes.get(code) or ()
        evidence = tuple(_cited(each) for each in verdict.evidence)
        findings = tuple(_planned(each, changes) for each in verdict.findings)
        return replace(verdict, findings=findings, evidence=evidence)

    return replace(report, verdicts=tuple(planned(each) for each in report.verdicts))


def _cures(
    plan: Plan, report: Report, judge: Judge, least: Severity
) -> dict[str, tuple[Change, ...]]:
    """Return the changes by the rules whose findings they take away or make milder.

    A cure of a finding may bring a note: without nodelalloc, a rename may wait again.
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
    """Return a finding with the changes as its remedies, and what else is true of a plan.

    Steps are left out: they act on a device, a mount or a queue that is not there. A way that
    needs a remount or a new mkfs is what the changes say.
    """
    remedies = [Remedy(f"{each.summary}.", Disruption.ONLINE) for each in changes]
    if not any(each.remakes for each in changes):
        others = (each for each in finding.remedies if _holds(each, is_cured=bool(changes)))
        remedies += [replace(each, steps=()) for each in others]
    citations = tuple(_cited(each) for each in finding.citations)
    return replace(finding, remedies=tuple(remedies), citations=citations)


def _holds(remedy: Remedy, *, is_cured: bool) -> bool:
    """Whether a remedy for a running filesystem is one for a plan as well."""
    fits = remedy.disruption in {Disruption.ONLINE, Disruption.REBOOT}
    return fits and not (is_cured and remedy.steps)


def _cited(citation: Citation) -> Citation:
    """Return a citation whose origin is no file: nobody has read /proc or fstab for a plan."""
    return citation._replace(origin=ORIGIN) if citation.origin.startswith("/") else citation


MOST_CHANGES = 8


@dataclass(frozen=True, slots=True)
class Correction:
    """A plan after the changes that make it better, and what the rules say of it then."""

    plan: Plan
    report: Report
    changes: tuple[Change, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing is left of low severity or worse, and nothing is undetermined."""
        return not self.left

    @property
    def left(self) -> tuple[str, ...]:
        """The rules with a finding of low severity or worse, and how many are undetermined."""
        holes = open_count(self.report)
        found = tuple(sorted(weights_of(self.report, Severity.LOW)))
        return (*found, f"{holes} not determined") if holes else found


def correct(plan: Plan, judge: Judge) -> Correction:
    """Change a plan as little as makes it better, one change at a time; notes are left alone."""
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

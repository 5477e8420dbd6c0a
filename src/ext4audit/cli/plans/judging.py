"""The audit of plans: the simulation by mke2fs, the report, and the commands to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from ext4audit.assemble.planned import planned_host
from ext4audit.assemble.planned.simulation import Prediction
from ext4audit.assemble.planned.superblock import predict_superblock
from ext4audit.engine import audit
from ext4audit.evidence import Evidence, Known, Unknown, Why
from ext4audit.facts.host import ActiveProfile, Kernel
from ext4audit.facts.plan import Plan
from ext4audit.planning import worst_of
from ext4audit.planning.lines import Correction, correct, plan_lines, with_plan_remedies
from ext4audit.report import PlanAdvice, Report, ReportSource
from ext4audit.rule import Rule
from ext4audit.sources.mkfs_simulation import MkfsSource

ANY_KERNEL: Evidence[Kernel] = Unknown("kernel", Why.NOT_CAPTURED)
"""Placeholder for the kernel in cache keys, because mke2fs does not depend on it."""
REFUSED = frozenset({Why.FAILED, Why.UNPARSABLE})


class PlanJudge:
    """An auditor of plans that caches reports, and the simulations of equal filesystems."""

    def __init__(
        self,
        rules: Sequence[Rule],
        profiles: Sequence[ActiveProfile],
        label: str,
        taken_at: str,
        timeout_seconds: float,
    ) -> None:
        self._rules = rules
        self._profiles = profiles
        self._source = ReportSource("plan", label)
        self._taken_at = taken_at
        self._timeout_seconds = timeout_seconds
        self._made: dict[Plan, Prediction] = {}
        self._judged: dict[Plan, Report] = {}

    def predict(self, plan: Plan) -> Prediction:
        """Simulate mke2fs, and return the superblock and the groups that it will create."""
        host = replace(plan.host, kernel=ANY_KERNEL, other_kernels=())
        alike = replace(plan, mount_options=(), mount_point="/", cleared=(), host=host)
        if alike not in self._made:
            with MkfsSource(
                plan.device,
                plan.size_bytes,
                timeout_seconds=self._timeout_seconds,
                configuration=plan.host.configuration,
            ) as source:
                self._made[alike] = predict_superblock(source, plan)
        return self._made[alike]

    def judge(self, plan: Plan) -> Report:
        """Return the report on a plan, with the worst results of all its kernels."""
        if plan not in self._judged:
            kernels = (plan.host.kernel, *plan.host.other_kernels)
            self._judged[plan] = worst_of([self._judge_for(plan, each) for each in kernels])
        return self._judged[plan]

    def _judge_for(self, plan: Plan, kernel: Evidence[Kernel]) -> Report:
        """Return the report on a plan for one kernel."""
        on_kernel = replace(plan, host=replace(plan.host, kernel=kernel))
        host = planned_host(on_kernel, self.predict(plan), self._taken_at)
        return audit(self._source, host, self._rules, self._profiles)


def judge_plan(plan: Plan, judge: PlanJudge) -> tuple[Report, PlanAdvice]:
    """Return the report and the commands to use; raises UsageError if mke2fs refuses the plan."""
    predicted = judge.predict(plan)
    superblock = predicted.superblock
    if isinstance(superblock, Unknown) and superblock.why in REFUSED:
        raise click.UsageError(f"mke2fs refuses the plan: {superblock.detail}")
    corrected = correct(plan, judge.judge)
    report = with_plan_remedies(plan, judge.judge(plan), judge.judge)
    return report, _advice(plan, corrected, judge)


def _advice(plan: Plan, corrected: Correction, judge: PlanJudge) -> PlanAdvice:
    predicted = judge.predict(plan)
    made = judge.predict(corrected.plan).superblock
    return PlanAdvice(
        basis=predicted.basis,
        assumed=(*predicted.assumed, *plan.host.assumed, *_assumed(plan)),
        changes=tuple(change.summary for change in corrected.changes),
        clean=corrected.clean,
        left=corrected.left,
        lines=plan_lines(corrected.plan, made.value if isinstance(made, Known) else None),
    )


def _assumed(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each assumption about settings that a plan does not set."""
    host = plan.host
    layouts = {
        "raid10": "md's default layout for RAID10: near=2",
        "raid5": "md's default layout for RAID5: left-symmetric",
        "raid6": "md's default layout for RAID6: left-symmetric",
    }
    assumed = [layouts[plan.level]] if plan.level in layouts else []
    if host.has_memory_setting:
        assumed.append(
            "all memory is available, and vm.dirty_* are the kernel's defaults (20 %, 10 %)"
        )
    if host.virtualization is None:
        assumed.append("a physical machine (see --virtualization)")
    return tuple(assumed)

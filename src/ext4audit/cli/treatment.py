"""What happens to a report before it is rendered: suppressions, then the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ext4audit.policy.baseline import KnownFinding, against
from ext4audit.policy.file import Policy
from ext4audit.policy.suppression import SuppressionRule, stale, suppress
from ext4audit.records import replace
from ext4audit.report import Report
from ext4audit.rule import Rule

ANY_HOST = ""
"""The key of a baseline of one host, which may have been renamed since."""


class Treatment(NamedTuple):
    """Suppressions and a baseline by host, with the day and whether all of a host is judged."""

    suppressions: tuple[SuppressionRule, ...] = ()
    today: str = ""
    baselines: Mapping[str, tuple[KnownFinding, ...]] | None = None

    def apply(self, report: Report) -> tuple[Report, frozenset[SuppressionRule]]:
        """Return the report as it is rendered, and the suppressions that matched in it."""
        used: frozenset[SuppressionRule] = frozenset()
        if self.suppressions:
            report, used = suppress(report, self.suppressions, self.today)
        if self.baselines is not None:
            report = against(report, self._baseline(report.host.name))
        return report, used

    def one(self, report: Report, rules: Sequence[Rule], *, whole: bool) -> Report:
        """Return the report of a single host, with what the policy file must be told of.

        `whole` says that all its filesystems were judged: a suppression may match another one.
        """
        report, used = self.apply(report)
        return replace(report, notices=tuple(self.notices(used, rules, whole=whole)))

    def notices(
        self, used: frozenset[object], rules: Sequence[Rule], *, whole: bool
    ) -> tuple[str, ...]:
        """Return a sentence for each suppression that is stale."""
        judged = frozenset(rule.code for rule in rules) if whole else frozenset[str]()
        return tuple(stale(self.suppressions, used, self.today, judged=judged))

    def _baseline(self, host: str) -> tuple[KnownFinding, ...]:
        baselines = self.baselines or {}
        return baselines.get(host, baselines.get(ANY_HOST, ()))


def treatment_of(policy: Policy, baseline: str | None, now: str) -> Treatment:
    """Return what the policy and --baseline ask for; raises UsageError for a bad baseline."""
    if baseline is None:
        return Treatment(policy.suppressions, now[: len("2026-01-31")])
    from ext4audit.cli.baseline_file import read_baselines  # noqa: PLC0415 - for --baseline only

    return Treatment(policy.suppressions, now[: len("2026-01-31")], read_baselines(baseline))

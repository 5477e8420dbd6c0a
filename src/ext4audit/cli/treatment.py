"""What happens to a report before it is rendered: suppressions, then the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ext4audit.policy.baseline import KnownHost, against
from ext4audit.policy.earlier import KnownFinding, superblock_key
from ext4audit.policy.file import Policy
from ext4audit.policy.suppression import SuppressionRule, not_judged, stale, suppress
from ext4audit.records import replace
from ext4audit.report import Report
from ext4audit.rule import Rule

DAY_LETTERS = len("2026-01-31")
Baselines = Mapping[str, Sequence[KnownHost]]
"""The hosts of a baseline by their names; several may have one name."""


class Treated(NamedTuple):
    """A report as it is rendered, and the suppressions that matched in it.

    `blind` are the codes of the rules that may have found more there, had they seen everything.
    """

    report: Report
    used: frozenset[SuppressionRule] = frozenset()
    blind: frozenset[str] = frozenset()


class Treatment(NamedTuple):
    """Suppressions and a baseline by host, with the day on which they are applied (ISO 8601)."""

    suppressions: tuple[SuppressionRule, ...] = ()
    today: str = ""
    baselines: Baselines | None = None

    def apply(self, report: Report, *, alone: bool = False) -> Treated:
        """Treat one host's report; `alone` says that no other host is audited beside it."""
        used, blind = frozenset[SuppressionRule](), frozenset[str]()
        if self.suppressions:
            report, used = suppress(report, self.suppressions, self.today)
            blind = not_judged(report)
        if self.baselines is not None:
            report = against(report, _of_host(self.baselines, report, alone=alone))
        return Treated(report, used, blind)

    def one(self, report: Report, rules: Sequence[Rule], *, whole: bool) -> Report:
        """Return the report of a single host, with what the policy file must be told of.

        `whole` says that all its filesystems were judged: a suppression may match another one.
        """
        treated = self.apply(report, alone=True)
        notices = self.notices(treated.used, treated.blind, rules, whole=whole)
        return replace(treated.report, notices=notices)

    def notices(
        self,
        used: frozenset[object],
        blind: frozenset[str],
        rules: Sequence[Rule],
        *,
        whole: bool,
    ) -> tuple[str, ...]:
        """Return a sentence for each suppression that is stale."""
        judged = frozenset(rule.code for rule in rules) - blind if whole else frozenset[str]()
        return tuple(stale(self.suppressions, used, self.today, judged=judged))


def treatment_of(policy: Policy, baseline: str | None, now: str) -> Treatment:
    """Return what the policy and --baseline ask for; raises UsageError for a bad baseline."""
    if baseline is None:
        return Treatment(policy.suppressions, now[:DAY_LETTERS])
    from ext4audit.cli.baseline_file import read_baselines  # noqa: PLC0415 - for --baseline only

    return Treatment(policy.suppressions, now[:DAY_LETTERS], read_baselines(baseline))


def _of_host(baselines: Baselines, report: Report, *, alone: bool) -> tuple[KnownFinding, ...]:
    """Return what the baseline knows of a host; a single one may have been renamed since.

    Of several that share a name ("localhost") it is the one with the most superblocks in common.
    """
    every = [host for hosts in baselines.values() for host in hosts] if alone else []
    named = every if len(every) == 1 else baselines.get(report.host.name, ())
    here = {superblock_key(fs.id) for fs in report.host.filesystems}
    best = max(named, key=lambda host: len(host.superblocks & here), default=None)
    return best.findings if best else ()

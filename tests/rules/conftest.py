"""Every host that the test of a rule judges is judged again with less evidence.

So this is checked on hosts on which a rule fails, and for a new rule as soon as it has a test: if a
rule fails or is undetermined, then without a fact it neither passes nor stops applying. Only facts
that the rule looks at are removed: test_fact_access.py shows that others change nothing.
EXT4AUDIT_LOSSES=all tries all pairs of facts instead of a sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit import engine
from ext4audit.facts.host import Filesystem, Host
from ext4audit.report import Outcome, Verdict
from ext4audit.rule import Rule
from support import judging
from support.hosts import fact_loss
from support.hosts.evidence_loss import PASSING, improvement
from support.hosts.fact_access import tracked
from support.remedies.declared import undeclared
from support.remedies.unquotable import unquotable, unwritten
from support.remedies.unreachable import reached, unreachable

SAMPLED_PAIRS = None if os.environ.get("EXT4AUDIT_LOSSES") == "all" else 5
"""How many pairs of facts are removed from each host; None means all pairs."""
BOTH_SHOW_IT = "two facts show the same, and a row of a test has one of them only"
EXCUSES = {
    ("CAP002", "Filesystem.superblock"): BOTH_SHOW_IT,
    ("DUR002", "Filesystem.superblock"): "the options in force show what is dangerous in it",
    ("HLT002", "Filesystem.options"): BOTH_SHOW_IT,
    ("HLT002", "Filesystem.mounts"): BOTH_SHOW_IT,
}
"""Justified exceptions: a rule and a fact without which its result may be better."""
NO_EXCUSES = "EXT4AUDIT_WITHOUT_EXCUSES"
"""The variable that disables the excuses, with which test_excuses.py checks that each is needed."""
Judged = tuple[Rule, Filesystem | None, Host, Verdict]


@pytest.fixture(autouse=True)
def _fewer_facts_give_no_better_verdict(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Judge again what the rule's test judged, without some of the facts that the rule used."""
    judged: list[Judged] = []

    def recording(rule: Rule, fs: Filesystem | None, host: Host) -> Verdict:
        verdict = engine.judge(rule, fs, host)
        judged.append((rule, fs, host, verdict))
        return verdict

    is_of_a_rule = request.path.parent != Path(__file__).parent
    is_of_a_rule &= request.node.get_closest_marker("judged_once") is None
    for module in (request.module, judging) if is_of_a_rule else ():
        if getattr(module, "judge", None) is engine.judge:
            monkeypatch.setattr(module, "judge", recording)
    yield
    remedies = (r for *_, verdict in judged for each in verdict.findings for r in each.remedies)
    missing = {text for remedy in remedies for text in undeclared(remedy)}
    assert not missing, "\n".join(sorted(missing))
    words = {text for one in judged for text in without_words(one)}
    assert not words, "\n".join(sorted(words))
    wrong = {text for one in judged for text in on_unreachable_mounts(one)}
    assert not wrong, "\n".join(sorted(wrong))
    chance = random.Random(request.node.name)  # noqa: S311 - the same sample in each run
    improved = {each for one in judged for each in improvements_without(one, chance)}
    assert not improved, "\n".join(sorted(improved))


def without_words(judged: Judged) -> Iterator[str]:
    """Yield the commands that a builder writes although a name in them cannot be quoted."""
    rule, fs, host, before = judged
    if fs is None or not any(r.steps for each in before.findings for r in each.remedies):
        return
    for other in unquotable(fs):
        after = engine.judge(rule, other, host)
        if after.outcome is Outcome.ERROR:
            yield f"{rule.code}: {after}"
        remedies = (r for each in after.findings for r in each.remedies)
        yield from (f"{rule.code}: {text}" for r in remedies for text in unwritten(r))


def on_unreachable_mounts(judged: Judged) -> Iterator[str]:
    """Yield the commands that would change another mount than that of the judged filesystem."""
    rule, fs, host, before = judged
    if fs is None or not any(r.steps for each in before.findings for r in each.remedies):
        return
    for other in unreachable(fs):
        after = engine.judge(rule, other, host)
        remedies = (r for each in after.findings for r in each.remedies)
        yield from (f"{rule.code}: {text}" for r in remedies for text in reached(r, other))


def improvements_without(judged: Judged, chance: random.Random) -> Iterator[str]:
    """Yield how the verdict becomes better if some facts of the judged subject are missing."""
    rule, fs, host, before = judged
    copy, seen = tracked(subject := (fs, host))
    assert engine.judge(rule, *copy) == before, "a rule tells a watched fact from others"
    kinds = fact_loss.kinds_inside(subject)
    losses = fact_loss.losses(subject, seen, chance, SAMPLED_PAIRS)
    if before.outcome in PASSING and SAMPLED_PAIRS is not None:
        losses = chance.sample(losses, min(SAMPLED_PAIRS, len(losses)))
    for loss in losses:
        if NO_EXCUSES not in os.environ and is_excused(rule, loss):
            continue
        left = fact_loss.without(subject, loss, kinds)
        assert left is not subject, f"{loss}: nothing was taken away"
        after = engine.judge(rule, *left)
        if change := improvement(before, after):
            yield f"{rule.code} {loss}: {change}"


def is_excused(rule: Rule, loss: fact_loss.Loss) -> bool:
    """Return whether the verdict may become better without these facts."""
    return any((rule.code, kind) in EXCUSES for kind in loss.kinds)

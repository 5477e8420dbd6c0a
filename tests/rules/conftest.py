"""Every host that a test of a rule judges is judged again by someone who knows less.

So the law of evidence holds for the hosts on which a rule fails, and for a new rule as soon as it
has a test: what fails, or is not determined, neither passes nor steps aside without a fact. Only
what the rule looks at is taken away: test_watching.py shows that the other facts change nothing.
EXT4AUDIT_LAW=all tries all pairs of facts, not some.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ext4audit import engine
from ext4audit.facts.host import Filesystem, Host
from ext4audit.report import Verdict
from ext4audit.rule import Rule
from support.hosts import blinding
from support.hosts.law import CALM, calmer_verdict
from support.hosts.watching import watched

PAIRS = None if os.environ.get("EXT4AUDIT_LAW") == "all" else 5
"""How many pairs of facts are taken away of each host, None for all."""
BOTH_TELL = "two facts show the same, and a row of a test has one of them only"
EXCUSES = {
    ("CAP002", "Filesystem.superblock"): BOTH_TELL,
    ("DUR002", "Filesystem.superblock"): "the options in force show what is dangerous in it",
    ("HLT002", "Filesystem.options"): BOTH_TELL,
    ("HLT002", "Filesystem.mounts"): BOTH_TELL,
    ("HLT007", "Filesystem.stack"): "an image is its own stack, which is always known",
}
"""What is honest all the same: by the rule and the fact without which it says something else."""
WITHOUT_EXCUSES = "EXT4AUDIT_WITHOUT_EXCUSES"
"""The variable with which a run has no excuses: test_excuses.py looks whether each is needed."""
Judged = tuple[Rule, Filesystem | None, Host, Verdict]


@pytest.fixture(autouse=True)
def _who_knows_less_is_not_calmer(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Judge again what the test of a rule judged, without what the rule looked at."""
    judged: list[Judged] = []

    def recording(rule: Rule, fs: Filesystem | None, host: Host) -> Verdict:
        verdict = engine.judge(rule, fs, host)
        judged.append((rule, fs, host, verdict))
        return verdict

    is_of_a_rule = request.path.parent != Path(__file__).parent
    is_of_a_rule &= request.node.get_closest_marker("judged_once") is None
    if is_of_a_rule and getattr(request.module, "judge", None) is engine.judge:
        monkeypatch.setattr(request.module, "judge", recording)
    yield
    chance = random.Random(request.node.name)  # noqa: S311 - the same sample in each run
    calmer = {each for one in judged for each in calmer_without(one, chance)}
    assert not calmer, "\n".join(sorted(calmer))


def calmer_without(judged: Judged, chance: random.Random) -> Iterator[str]:
    """Yield what a rule says more calmly without some facts of what it judged."""
    rule, fs, host, before = judged
    copy, seen = watched(subject := (fs, host))
    assert engine.judge(rule, *copy) == before, "a rule tells a watched fact from others"
    kinds = blinding.kinds_inside(subject)
    losses = blinding.losses(subject, seen, chance, PAIRS)
    if before.outcome in CALM and PAIRS is not None:
        losses = chance.sample(losses, min(PAIRS, len(losses)))
    for loss in losses:
        if WITHOUT_EXCUSES not in os.environ and is_excused(rule, loss):
            continue
        left = blinding.without(subject, loss, kinds)
        assert left is not subject, f"{loss}: nothing was taken away"
        after = engine.judge(rule, *left)
        if change := calmer_verdict(before, after):
            yield f"{rule.code} {loss}: {change}"


def is_excused(rule: Rule, loss: blinding.Loss) -> bool:
    """Whether what a rule says more calmly without these facts is honest."""
    return any((rule.code, kind) in EXCUSES for kind in loss.kinds)

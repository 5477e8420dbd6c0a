"""Every host that the test of a rule judges is judged again with less evidence.

So the law of evidence is checked on hosts on which a rule fails, and for a new rule as soon as it
has a test: if a rule fails or is undetermined, then without a fact it neither passes nor stops
applying. Only facts that the rule looks at are removed: test_watching.py shows that others change
nothing. EXT4AUDIT_LAW=all tries all pairs of facts instead of a sample.
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
from support.remedies.declared import undeclared

PAIRS = None if os.environ.get("EXT4AUDIT_LAW") == "all" else 5
"""How many pairs of facts are removed from each host; None means all pairs."""
BOTH_TELL = "two facts show the same, and a row of a test has one of them only"
EXCUSES = {
    ("CAP002", "Filesystem.superblock"): BOTH_TELL,
    ("DUR002", "Filesystem.superblock"): "the options in force show what is dangerous in it",
    ("HLT002", "Filesystem.options"): BOTH_TELL,
    ("HLT002", "Filesystem.mounts"): BOTH_TELL,
    ("HLT007", "Filesystem.stack"): "an image is its own stack, which is always known",
}
"""Justified exceptions: a rule and a fact without which its result may be calmer."""
WITHOUT_EXCUSES = "EXT4AUDIT_WITHOUT_EXCUSES"
"""The variable that disables the excuses, with which test_excuses.py checks that each is needed."""
Judged = tuple[Rule, Filesystem | None, Host, Verdict]


@pytest.fixture(autouse=True)
def _who_knows_less_is_not_calmer(
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
    if is_of_a_rule and getattr(request.module, "judge", None) is engine.judge:
        monkeypatch.setattr(request.module, "judge", recording)
    yield
    remedies = (r for *_, verdict in judged for each in verdict.findings for r in each.remedies)
    missing = {text for remedy in remedies for text in undeclared(remedy)}
    assert not missing, "\n".join(sorted(missing))
    chance = random.Random(request.node.name)  # noqa: S311 - the same sample in each run
    calmer = {each for one in judged for each in calmer_without(one, chance)}
    assert not calmer, "\n".join(sorted(calmer))


def calmer_without(judged: Judged, chance: random.Random) -> Iterator[str]:
    """Yield what a rule reports more calmly if some facts of the judged subject are missing."""
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
    """Return whether it is honest that the rule is calmer without these facts."""
    return any((rule.code, kind) in EXCUSES for kind in loss.kinds)

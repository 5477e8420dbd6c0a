"""Hosts whose answers were changed at random."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples, share_of
from support.hosts import fuzz_texts
from support.hosts.fixture_hosts import HOSTS
from support.hosts.fuzzing import audit_changed, check


@examples(200)
@given(st.binary(min_size=1, max_size=300))
def test_random_evidence_gives_every_rule_a_verdict(data: bytes) -> None:
    """Cut, repeated, unrelated and missing answers are gaps; no exception leaves the audit."""
    check(data)


@pytest.mark.parametrize("name", fuzz_texts.targets())
def test_random_input_files_are_read_or_refused(name: str) -> None:
    """Baselines, policies, inventories, images and archives, as `fuzz_texts` generates them."""
    seed, target = fuzz_texts.targets()[name]
    chance = random.Random(name)  # noqa: S311
    fuzz_texts.try_one(target, seed.encode("utf-8", "surrogateescape"))
    for _ in range(share_of(20)):
        changed = fuzz_texts.changed(seed.encode("utf-8", "surrogateescape"), chance)
        fuzz_texts.try_one(target, changed)


def test_fuzzed_changes_reach_the_audit() -> None:
    """The unchanged host is complete; without its mount table it is incomplete."""
    fixture = [host.name for host in sorted(HOSTS.iterdir())].index("raid0-12-disks-default-mkfs")
    before = audit_changed(bytes([fixture]))
    reports = (audit_changed(bytes([fixture, place, 8, 0, 0])) for place in range(256))
    assert before.complete
    assert any(not report.complete for report in reports)

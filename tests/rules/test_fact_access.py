"""Only facts that a rule looks at are removed from its hosts, because others change nothing."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given

from ext4audit.engine import judge
from ext4audit.evidence import Known, Unknown, for_wording
from ext4audit.facts.host import Filesystem, Host
from ext4audit.rule import Scope
from ext4audit.rules import all_rules
from support.builders import disk, filesystem, host, known, raid
from support.examples import examples
from support.hosts import fact_loss
from support.hosts.fact_access import tracked
from support.hosts.strategies import HOSTS

MEMBERS = (disk("sda"), disk("sdb"))
FS = filesystem(stack=known(raid(list(MEMBERS))))
STACK = "Filesystem.stack"
ACCESSES: list[Callable[[Filesystem], object]] = [
    lambda fs: isinstance(fs.stack, Unknown),
    lambda fs: isinstance(fs.stack, Known),
    lambda fs: for_wording(fs.stack, None),
    lambda fs: fs.stack == FS.stack,
    lambda fs: FS.stack == fs.stack,
    lambda fs: {fs.stack},
    lambda fs: {fs},
    lambda fs: str(fs.stack),
    lambda fs: fs.stack.origin,  # type: ignore[union-attr] # as a match statement would
]


def kinds_of(seen: set[fact_loss.FactPlace]) -> set[str]:
    """Return the kinds of facts that were looked at, without those that always count as seen."""
    return {place.kind for place in seen} - fact_loss.GAP_IN_OTHER_FIELD.keys()


@pytest.mark.parametrize("access", ACCESSES)
def test_every_access_to_a_fact_is_recorded(access: Callable[[Filesystem], object]) -> None:
    """Looks include type checks, uses of the value, and comparisons."""
    (fs, _), seen = tracked((FS, host(FS)))
    assert fs is not None
    assert STACK not in kinds_of(seen)
    access(fs)
    assert fact_loss.FactPlace(STACK, id(FS)) in seen


def test_tracked_subject_is_equal_and_unread_facts_are_not_recorded() -> None:
    """A device of a stack counts as seen only after the stack was looked at."""
    (fs, _), seen = tracked((FS, host(FS)))
    assert fs is not None
    stack = for_wording(fs.stack, None)
    assert stack is not None
    assert kinds_of(seen) == {STACK}
    below = for_wording(stack.below, ())
    assert [each.name for each in below] == ["sda", "sdb"]
    assert kinds_of(seen) == {STACK, "BlockDevice.below"}
    assert fs == FS


def test_object_that_occurs_twice_remains_one_object() -> None:
    """Rules compare filesystems of a host by identity."""
    (fs, around), _ = tracked((FS, host(FS)))
    assert around.filesystems[0] is fs


def test_removed_pairs_include_an_accessed_fact() -> None:
    """Each pair that is taken away includes at least one fact that was looked at."""
    subject = (FS, host(FS))
    place = fact_loss.FactPlace("BlockDevice.size_sectors", id(MEMBERS[0]))
    found = fact_loss.losses(subject, {place}, random.Random(1), None)  # noqa: S311
    assert all(place.kind in loss.kinds for loss in found)
    assert fact_loss.Loss(frozenset({place.kind})) in found
    assert fact_loss.Loss(frozenset({place.kind}), place.owner) in found
    assert fact_loss.Loss(frozenset({place.kind, STACK})) in found


@examples(20)
@given(drawn=HOSTS)
def test_removing_unaccessed_facts_changes_no_verdict(drawn: Host) -> None:
    """All facts that a rule did not look at are taken away at once."""
    for rule in all_rules():
        for fs in drawn.filesystems if rule.scope is Scope.FILESYSTEM else (None,):
            subject = (fs, drawn)
            before = judge(rule, *subject)
            copy, seen = tracked(subject)
            assert judge(rule, *copy) == before
            kinds = {place.kind for place in fact_loss.fact_places(subject)}
            loss = fact_loss.Loss(frozenset(kinds - {place.kind for place in seen}))
            left = fact_loss.without(subject, loss, fact_loss.kinds_inside(subject))
            assert judge(rule, *left) == before, rule.code

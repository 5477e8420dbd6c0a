"""A report never contradicts itself: two conflicting statements must be one finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product

import pytest

from ext4audit.engine import audit
from ext4audit.facts.host import Host
from ext4audit.facts.options import canonical, recognize
from ext4audit.report import Outcome, ReportSource
from ext4audit.rules import all_rules
from ext4audit.rules.shared.demands import WARNED_OF, demanded, discouraged
from support.examples import sample_of
from support.options.evidence import PLACES, WORDS, OptionScenario
from support.remedies.effects import ATIME, State, effect, meanings

LIVE = ReportSource("live", "db1")
RULES = all_rules()
DEMANDING = ("tidb", "clickhouse", "postgres", "lustre", "daos")
"""One profile for each distinct set of demanded options."""
JUDGED_OPTIONS = (
    "nobarrier barrier delalloc nodelalloc noauto_da_alloc dioread_nolock nodioread_nolock discard "
    "data=writeback data=journal data=ordered commit=300 commit=5 journal_async_commit ro nosuid "
    "errors=continue errors=remount-ro errors=panic noatime relatime strictatime sync norecovery "
    "resuid=1000 stripe=0 noblock_validity"
).split()
"""Tokens that rules judge, and their opposites; any two of them could conflict."""


@dataclass(frozen=True)
class RemedyEffect:
    """The effect of a rule's remedy: the state of the filesystem before and after its commands."""

    code: str
    before: State
    after: State

    @cached_property
    def changes(self) -> dict[str, set[str]]:
        """The states that the remedy sets, by option: in force, and at the next mount."""
        reported: dict[str, set[str]] = {}
        for one, two in (
            (self.before.live, self.after.live),
            (self.before.next, self.after.next),
        ):
            for name in changed_names(one, two):
                reported.setdefault(name, set()).add(two.get(name, ""))
        return reported

    @cached_property
    def demanded(self) -> set[str]:
        """The tokens that the remedy puts in force or newly writes down."""
        written = set(configured_tokens(self.after)) - set(configured_tokens(self.before))
        return {token for tokens in self.changes.values() for token in tokens if token} | written

    def removed(self, word: str) -> bool:
        """Return whether the remedy removes a token that is in force now or at the next mount."""
        known = recognize(word)
        name = known[0].name if known else ATIME
        places = ((self.before.live, self.after.live), (self.before.next, self.after.next))
        return any(one.get(name) == word != two.get(name) for one, two in places)


def changed_names(one: Mapping[str, str], two: Mapping[str, str]) -> set[str]:
    """Return the names whose values differ."""
    return {name for name in {*one, *two} if one.get(name) != two.get(name)}


def configured_tokens(state: State) -> Iterable[str]:
    """Return the tokens in fstab and in the superblock."""
    return meanings((*state.fstab, *state.string.split(","), *state.bit_tokens)).values()


def remedy_effects(judged: Host, state: State) -> Iterator[RemedyEffect]:
    """Yield the effect of each remedy of each finding in a report."""
    report = audit(LIVE, judged, RULES)
    assert not [verdict.note for verdict in report.verdicts if verdict.outcome is Outcome.ERROR]
    for verdict in report.verdicts:
        for finding in verdict.findings:
            for remedy in finding.remedies:
                yield RemedyEffect(verdict.rule.code, state, effect(remedy, state))


def problems(judged: Host, state: State, profile: str | None) -> Iterator[str]:
    """Yield the contradictions between the remedies of a report."""
    (fs,) = judged.filesystems
    effects = list(remedy_effects(judged, state))
    for order in effects:
        for word, code in discouraged(order.demanded, fs, judged).items():
            yield f"{order.code} orders {word}, of which {code} warns"
        for word in filter(order.removed, demanded(fs, judged)):
            yield f"{order.code} takes away {word}, which {profile} demands"
    for one, two in combinations(effects, 2):
        for name in one.changes.keys() & two.changes.keys():
            if one.code != two.code and one.changes[name] != two.changes[name]:
                yield f"{one.code} and {two.code} quarrel about {name}: see WARNED_OF"


def found_in(scenes: Iterable[OptionScenario], profile: str | None = None) -> str:
    """Return all problems of some scenes, one per line.

    A token that cannot be set in its place results in an equal host, which is judged only once.
    """
    found: list[str] = []
    every = list(scenes)
    for scene in sample_of(every, f"{every[0]} {profile}"):
        judged = scene.host(profile)
        key = hash(judged), repr(scene.state)
        if key not in NO_PROBLEMS:
            wrong = [f"{scene}: {each}" for each in problems(judged, scene.state, profile)]
            found += wrong
            NO_PROBLEMS.update([key] if not wrong else [])
    return "\n".join(dict.fromkeys(found))


NO_PROBLEMS: set[tuple[int, str]] = set()
"""Hosts without problems, by their hash and state, which need not be judged again."""


@pytest.mark.parametrize(("place", "release"), list(product(PLACES, ("4.19", "6.18"))))
def test_no_contradiction_with_one_option(place: str, release: str) -> None:
    """This holds for any single option that is in force, written down or hidden.

    No remedy puts in force or writes down an option that another finding removes or a rule warns
    about, and no two findings set an option to different values.
    """
    assert found_in(OptionScenario(word, place, release) for word in WORDS) == ""


@pytest.mark.parametrize("place", PLACES)
def test_no_contradiction_on_the_root(place: str) -> None:
    """The root cannot be unmounted, and its data mode is judged by DRF004."""
    assert found_in(OptionScenario(word, place, "6.1", mount_point="/") for word in WORDS) == ""


@pytest.mark.parametrize(("profile", "place"), list(product(DEMANDING, PLACES)))
def test_no_contradiction_with_a_profile(profile: str, place: str) -> None:
    """No remedy removes or replaces an option that a profile demands."""
    assert found_in((OptionScenario(word, place, "6.1") for word in WORDS), profile) == ""


@pytest.mark.parametrize(("place", "release"), list(product(PLACES, ("4.19", "6.18"))))
def test_no_contradiction_with_tidb_on_any_kernel(place: str, release: str) -> None:
    """On 4.19 PRF001 adds dioread_lock to nodelalloc; on 6.18 nodelalloc needs a new mount."""
    assert found_in((OptionScenario(word, place, release) for word in WORDS), "tidb") == ""


@pytest.mark.parametrize("word", JUDGED_OPTIONS)
def test_no_contradiction_if_fstab_differs(word: str) -> None:
    """One option is in force or hidden, and fstab sets a different one."""
    pairs = [pair for pair in permutations(JUDGED_OPTIONS, 2) if pair[0] == word]
    places = ("live", "hidden")
    scenes = (
        OptionScenario(one, place, "6.1", two) for (one, two), place in product(pairs, places)
    )
    assert found_in(scenes) == ""


@pytest.mark.parametrize("word", ["nodelalloc", "dioread_nolock", "noatime", "data=journal"])
def test_no_contradiction_with_tidb_if_fstab_differs(word: str) -> None:
    """The same with a profile, on a kernel that PRF001 warns about."""
    others = [other for other in JUDGED_OPTIONS if other != word]
    places = ("live", "hidden")
    scenes = (
        OptionScenario(word, place, "4.19", other) for other, place in product(others, places)
    )
    assert found_in(scenes, "tidb") == ""


@pytest.mark.parametrize(("word", "code"), WARNED_OF.items())
def test_rule_fails_for_each_option_in_the_warning_table(word: str, code: str) -> None:
    """The table uses the spelling of the options file, and its rules report each entry."""
    assert canonical(word) == word
    if word not in {"norecovery", "discard"}:  # they need an unclean journal, and TRIM support
        report = audit(LIVE, OptionScenario(word, "live", "6.1").host(), RULES)
        assert code in {verdict.rule.code for verdict in report.verdicts if verdict.findings}

"""Ratings: the severities that profiles give to findings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from any_host import HOSTS
from builders import filesystem, host
from ext4audit.engine import audit, judge
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount_flags import ATIME_WORDS
from ext4audit.facts.option_table import recognize
from ext4audit.facts.profile import ActiveProfile, Profile, all_profiles
from ext4audit.finding import Confidence, Finding, Severity
from ext4audit.rating import AT_LEAST, rated
from ext4audit.records import replace
from ext4audit.report import Outcome, Source
from ext4audit.rule import Said, Scope, rule
from ext4audit.rules import all_rules

RULES = {each.code: each for each in all_rules()}
PROFILES = all_profiles()


def profile(name: str, rate: str = "") -> Profile:
    """Build a profile that rates DUR901, or does not."""
    pairs = (("DUR901", rate),) if rate else ()
    return Profile(name, name.title(), f"{name} says", f"https://{name}", rate=pairs)


@rule("DUR901", "labelled", severity=Severity.CRITICAL, since="0.1")
def labelled(fs: Filesystem, _host: Host) -> Said:
    """Find what the label says."""
    for word in (fs.label or "").split():
        yield Finding("Bad.", Severity(word), Confidence.CONFIRMED, (), fact=word)


def graded(label: str, *rates: str) -> list[str]:
    """Return the severities after profiles have rated them."""
    fs = filesystem(label=label)
    profiles = [profile(f"p{number}", rate) for number, rate in enumerate(rates)]
    verdict = rated(judge(labelled, fs, host(fs)), profiles)
    return [finding.severity.value for finding in verdict.findings]


@pytest.mark.parametrize(
    ("label", "rates", "severities"),
    [
        ("high", (), ["high"]),
        ("high", ("low",), ["low"]),
        ("info", ("low",), ["info"]),
        ("high", ("",), ["high"]),
        ("high", ("low", ""), ["high"]),
        ("high", ("low", "info"), ["low"]),
        ("high", ("info", "low"), ["low"]),
        ("low", ("+high",), ["high"]),
        ("critical", ("+high",), ["critical"]),
        ("low", ("+high", ""), ["high"]),
        ("low", ("info", "+high"), ["high"]),
        ("low", ("+medium", "+high"), ["high"]),
        ("critical low", ("medium",), ["medium", "low"]),
    ],
)
def test_the_strictest_of_the_profiles_decides(
    label: str, rates: tuple[str, ...], severities: list[str]
) -> None:
    """All must agree to a lower severity, one is enough for a higher one."""
    assert graded(label, *rates) == severities


def test_the_profile_that_changed_a_severity_is_evidence() -> None:
    """With its words and their source; where nothing changes, nothing is cited."""
    fs = filesystem(label="high low")
    verdict = rated(judge(labelled, fs, host(fs)), [profile("scratch", "low")])
    first, second = verdict.findings
    (cited,) = first.citations
    assert (cited.label, cited.value) == ("low by profile scratch", "scratch says")
    assert cited.origin == "https://scratch"
    assert second.citations == ()


def test_the_engine_rates_below_the_mount_points_of_a_profile() -> None:
    """A filesystem that is mounted elsewhere keeps its severities."""
    fs = filesystem(label="high")
    for place, severity in (("/data", "low"), ("/srv", "high")):
        chosen = ActiveProfile(profile("scratch", "low"), place)
        report = audit(Source("live", "db1"), host(fs), (labelled,), (chosen,))
        assert [f.severity.value for f in report.findings] == [severity]


@pytest.mark.parametrize("chosen", PROFILES.values(), ids=PROFILES)
def test_a_profile_speaks_of_what_there_is(chosen: Profile) -> None:
    """Its rules exist, its severities are words, its options are options, its source a page."""
    for code, word in chosen.rate:
        severity = Severity(word.removeprefix(AT_LEAST))
        assert RULES[code].scope is Scope.FILESYSTEM
        assert not word.startswith(AT_LEAST) or RULES[code].severity.at_least(severity)
    for word in chosen.options:
        assert word in ATIME_WORDS or recognize(word)
    for word, code in chosen.forbid:
        assert recognize(word)
        assert code in RULES
    assert set(chosen.enable) <= RULES.keys()
    assert chosen.source.startswith("https://")
    assert chosen.says
    assert chosen.product


ACTIVE: st.SearchStrategy[Any] = st.lists(
    st.builds(
        ActiveProfile, st.sampled_from(list(PROFILES.values())), st.sampled_from([None, "/*"])
    ),
    max_size=3,
).map(tuple)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(judged=HOSTS, profiles=ACTIVE)
def test_profiles_break_no_rule_and_hide_no_finding(
    judged: Host, profiles: tuple[ActiveProfile, ...]
) -> None:
    """Whatever a profile says, every rule reaches a verdict, and severities alone change."""
    rules = tuple(RULES.values())
    report = audit(Source("live", "db1"), judged, rules, profiles)
    assert not [v.note for v in report.verdicts if v.outcome is Outcome.ERROR]
    for verdict in report.verdicts:
        facts = [finding.fact for finding in verdict.findings]
        assert len(set(facts)) == len(facts), verdict.rule.code
    rating = [v for v in report.verdicts if v.rule.code not in WITH_PROFILES]
    without = audit(Source("live", "db1"), replace(judged, profiles=()), rules)
    plain = [v for v in without.verdicts if v.rule.code not in WITH_PROFILES]
    assert [[f.message for f in v.findings] for v in rating] == [
        [f.message for f in v.findings] for v in plain
    ]


WITH_PROFILES = {"CMP007", "PRF003", "LAY007"}
"""Rules whose outcome a profile decides."""

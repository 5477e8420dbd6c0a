"""The profiles as data: each option, rule and severity in them exists."""

from __future__ import annotations

import pytest

from ext4audit.facts.host import Profile, all_profiles
from ext4audit.facts.mount import ATIME_OPTIONS
from ext4audit.facts.options import recognize
from ext4audit.finding import Severity
from ext4audit.rules import all_rules
from ext4audit.rules.shared.demands import WARNED_OF

PROFILES = tuple(all_profiles().values())
CODES = {rule.code for rule in all_rules()}
DEFAULTS = {rule.code for rule in all_rules() if rule.default}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_what_a_profile_forbids_is_reported_by_the_rule_that_it_names(profile: Profile) -> None:
    """The rule is on by default, so the option is found with the profile and without it."""
    for option, code in profile.forbid:
        assert WARNED_OF[option] == code
        assert code in DEFAULTS


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_a_profile_speaks_of_words_rules_and_severities_that_there_are(profile: Profile) -> None:
    """With a typing error the table would require or rate nothing."""
    assert all(option in ATIME_OPTIONS or recognize(option) for option in profile.options)
    assert {*profile.enable, *(code for code, _ in profile.rate)} <= CODES
    assert all(Severity(option.removeprefix("+")) for _, option in profile.rate)
    assert profile.source.startswith("https://")

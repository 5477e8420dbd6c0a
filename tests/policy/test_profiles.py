"""Site profiles: [profile.NAME] in a policy file, its errors, and how it judges."""

from __future__ import annotations

import pytest

from ext4audit.cli import did_you_mean
from ext4audit.cli.policy import active_profiles
from ext4audit.engine import audit, judge
from ext4audit.facts import toml_reader
from ext4audit.facts.host import ActiveProfile, Filesystem, Profile
from ext4audit.finding import Severity
from ext4audit.policy import Policy, PolicyError, parse_policy
from ext4audit.report import Outcome, ReportSource
from ext4audit.rules import all_rules
from support.builders import filesystem, fstab_entry, host, known, mount, options

WHY = 'reason = "so"\n'
RULES = {rule.code: rule for rule in all_rules()}
FULL = """
profiles = ["tidb=/var/lib/tidb"]

[profile.data]
reason = "the cluster replicates, and every read of an inode costs a write"
requires = ["noatime", "nodelalloc"]
forbids = ["nobarrier", "data=writeback"]
rates = { DUR007 = "info", PRF002 = "+low" }
mounts = ["/data*", "/srv/data"]
product = "our data volumes"
features = ["metadata_csum"]
reserved_percent = 1.5
enable = ["PRF007"]
"""


def parsed(text: str) -> Policy:
    """Parse a policy file."""
    return parse_policy(toml_reader().loads(text), all_rules(), did_you_mean, "/etc/site.toml")


def test_a_site_profile_has_the_fields_of_built_in_profiles() -> None:
    """A profile has the fields of built-in ones; findings cite the file as the source."""
    (site,) = parsed(FULL).site_profiles
    assert site.mounts == ("/data*", "/srv/data")
    assert site.profile == Profile(
        name="data",
        product="our data volumes",
        says="the cluster replicates, and every read of an inode costs a write",
        source="/etc/site.toml",
        options=("noatime", "nodelalloc"),
        features=("metadata_csum",),
        reserved_percent=1.5,
        forbid=(("nobarrier", ""), ("data=writeback", "")),
        enable=("PRF007",),
        rate=(("DUR007", "info"), ("PRF002", "+low")),
    )


def test_profiles_are_active_by_their_mounts_and_by_name() -> None:
    """The command line replaces profiles chosen in the file, but not profiles with mounts."""
    policy = parsed(f'{FULL}[profile.quick]\n{WHY}requires = ["noatime"]\n')
    chosen = active_profiles(policy.profile, policy)
    assert [(each.profile.name, each.place) for each in chosen] == [
        ("data", "/data*"),
        ("data", "/srv/data"),
        ("tidb", "/var/lib/tidb"),
    ]
    own = active_profiles(["quick", "data=/x", "data"], policy)
    assert [(each.profile.name, each.place) for each in own] == [
        ("data", "/data*"),
        ("data", "/srv/data"),
        ("quick", None),
        ("data", "/x"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[profile]\ndata = 3", "profile.data is not a table: write [profile.data]"),
        (f"[profile.Data]\n{WHY}", "profile.Data: a name has lower-case letters"),
        (f"[profile.tidb]\n{WHY}", "profile.tidb: a built-in profile has this name"),
        (f"[profile.data]\n{WHY}", "profile.data: it has none of requires, forbids, rates"),
        (f"[profile.data]\n{WHY}require = []", "unknown key 'require' (did you mean requires?)"),
        ('[profile.data]\nrequires = ["noatime"]', "profile.data: reason is missing"),
        (f'[profile.data]\n{WHY}requires = "noatime"', "requires: it is not a list of texts"),
        (
            f'[profile.data]\n{WHY}requires = ["noatme"]',
            "profile.data: requires: unknown option 'noatme' (did you mean noatime?)",
        ),
        (
            f'[profile.data]\n{WHY}forbids = ["nobarier"]',
            "profile.data: forbids: unknown option 'nobarier' (did you mean nobarrier?)",
        ),
        (f"[profile.data]\n{WHY}forbids = {{}}", "forbids is not a list of texts"),
        (
            f'[profile.data]\n{WHY}requires = ["barrier", "nobarrier"]',
            "requires barrier and nobarrier, which exclude each other",
        ),
        (
            f'[profile.data]\n{WHY}requires = ["relatime"]\nforbids = ["atime"]',
            "atime is both required and forbidden",
        ),
        (f'[profile.data]\n{WHY}rates = {{ DUR01 = "low" }}', "'DUR01' is not the code of a rule"),
        (f'[profile.data]\n{WHY}rates = {{ DUR091 = "low" }}', "unknown rule 'DUR091' (did you"),
        (f'[profile.data]\n{WHY}rates = {{ DUR001 = "lo" }}', "unknown severity 'lo' (did you"),
        (f'[profile.data]\n{WHY}enable = ["DUR099"]', "unknown rule 'DUR099'"),
        (f"[profile.data]\n{WHY}reserved_percent = 99", "reserved_percent: it is not between"),
        (f"[profile.data]\n{WHY}reserved_percent = nan", "reserved_percent: it is not between"),
        (f"[profile.data]\n{WHY}cluster_bytes = 1.5", "cluster_bytes: it is not a number of"),
        ('[profile.data]\nrequires = ["noatime"]\nreason = 3', "reason is not a text of one line"),
        (
            f'[profile.data]\n{WHY}requires = ["noatime"]\nmounts = ["data"]',
            "mounts: 'data' does not start with / or *",
        ),
    ],
)
def test_a_mistake_is_refused_with_the_nearest_name(text: str, message: str) -> None:
    """A requirement that is silently not judged would look satisfied."""
    with pytest.raises(PolicyError) as raised:
        parsed(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("code", "has_broken", "valid"),
    [
        ("XAC001", True, True),
        ("XAC001", False, False),
        ("DUR099", True, False),
        ("DUR001", False, True),
    ],
)
def test_a_site_code_is_unknown_only_if_all_site_rules_were_read(
    code: str, *, has_broken: bool, valid: bool
) -> None:
    """If a rule file failed to load, a site code may be one of its rules, a tool code may not."""
    rules = [*all_rules(), *([RULES["DUR001"]._replace(code="XXX001")] if has_broken else [])]
    text = toml_reader().loads(f'[profile.data]\n{WHY}enable = ["{code}"]')
    if valid:
        (site,) = parse_policy(text, rules, did_you_mean, "/etc/site.toml").site_profiles
        assert site.profile.enable == (code,)
    else:
        with pytest.raises(PolicyError, match=f"unknown rule '{code}'"):
            parse_policy(text, rules, did_you_mean, "/etc/site.toml")


def mounted(*tokens: str) -> Filesystem:
    """Build a filesystem on /data with some options, which are also in its fstab line."""
    return filesystem(
        options=known(options(*tokens, release="5.4.286")),
        mounts=(mount("/data"),),
        fstab=known((fstab_entry(*tokens),)),
    )


def demanded(text: str, *tokens: str) -> list[str]:
    """Return the facts of CMP007 for a filesystem on /data with some options."""
    policy = parsed(f"[profile.data]\n{WHY}{text}")
    fs = mounted(*tokens)
    on = host(fs, profiles=active_profiles(["data"], policy))
    verdict = judge(RULES["CMP007"], fs, on)
    assert verdict.outcome is (Outcome.FAIL if verdict.findings else Outcome.PASS)
    return [finding.fact for finding in verdict.findings]


@pytest.mark.parametrize(
    ("text", "tokens", "facts"),
    [
        ('requires = ["nodelalloc"]', (), ["missing nodelalloc"]),
        ('requires = ["nodelalloc"]', ("nodelalloc",), []),
        ('forbids = ["nobarrier"]', ("nobarrier",), ["forbidden nobarrier"]),
        ('forbids = ["nobarrier"]', (), []),
        ('forbids = ["data=writeback"]', ("data=writeback",), ["forbidden data=writeback"]),
        ('forbids = ["data=writeback"]', (), []),
        ('forbids = ["discard"]', ("discard",), ["forbidden discard"]),
        ('forbids = ["commit=600"]', ("commit=600",), ["forbidden commit=600"]),
        ('forbids = ["journal_async_commit"]', (), []),
        ('forbids = ["noatime"]', (), []),
        ('forbids = ["relatime"]', (), ["forbidden relatime"]),
        ('requires = ["strictatime"]', (), ["missing strictatime"]),
        ('requires = ["relatime"]', (), []),
    ],
)
def test_options_of_a_site_profile_are_judged_like_those_of_a_vendor(
    text: str, tokens: tuple[str, ...], facts: list[str]
) -> None:
    """CMP007 judges them, with its remedies: any ext4 option may be required or forbidden."""
    assert demanded(text, *tokens) == facts


def test_a_rate_lowers_a_severity_and_names_the_reason() -> None:
    """This works like a vendor's profile, on the mounts of the profile."""
    policy = parsed(f'[profile.data]\n{WHY}rates = {{ DUR001 = "low" }}\nmounts = ["/data"]\n')
    fs = mounted("nobarrier")
    on = host(fs)
    plain = audit(ReportSource("live", "x"), on, [RULES["DUR001"]])
    rated = audit(ReportSource("live", "x"), on, [RULES["DUR001"]], active_profiles((), policy))
    assert plain.findings[0].severity is not Severity.LOW
    assert rated.findings[0].severity is Severity.LOW
    assert rated.findings[0].citations[-1].value == "so"
    assert rated.findings[0].citations[-1].origin == "/etc/site.toml"


def test_two_mounts_of_one_profile_count_once() -> None:
    """A filesystem that matches both globs has one finding."""
    (profile,) = {each.profile for each in active_profiles((), parsed(FULL))}
    fs = filesystem(mounts=(mount("/data1"), mount("/srv/data")))
    both = (ActiveProfile(profile, "/data*"), ActiveProfile(profile, "/srv/data"))
    assert host(fs, profiles=both).profiles_of(fs) == (profile,)


@pytest.mark.parametrize(
    ("place", "point", "covered"),
    [
        ("/data[1]", "/data[1]", True),  # the name of a directory
        ("/data[1]", "/data1", True),
        ("/data[1]", "/data2", False),
        ("/été*", "/été 2", True),
    ],
)
def test_a_place_is_a_name_or_a_glob(place: str, point: str, *, covered: bool) -> None:
    """The subject of a suppression works the same way."""
    (profile,) = {each.profile for each in active_profiles((), parsed(FULL))}
    assert ActiveProfile(profile, place).covers((point,)) is covered

"""The engine: verdicts of `judge`, reports of `audit`, and the severities of profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.assemble.host import OUT_OF_SCOPE
from ext4audit.engine import audit, judge, with_profile_severities
from ext4audit.evidence import Undetermined, need
from ext4audit.facts.host import AT_LEAST, ActiveProfile, Filesystem, Host, Profile, all_profiles
from ext4audit.facts.mount import ATIME_OPTIONS, DeviceNumber
from ext4audit.facts.options import recognize
from ext4audit.finding import (
    Citation,
    Confidence,
    Disruption,
    Finding,
    Phase,
    Remedy,
    Severity,
    Step,
)
from ext4audit.report import Outcome, ReportSource, filesystems_by_fact, subject_of
from ext4audit.rule import NotApplicable, Rule, RuleOutput, Scope, host_rule, rule
from ext4audit.rules import all_rules
from support.builders import disk, filesystem, host, known, mount, unknown
from support.examples import examples
from support.hosts.strategies import HOSTS

LIVE = ReportSource("live", "db1")
FINDING = Finding("Bad.", Severity.HIGH, Confidence.CONFIRMED, ())
OTHER = Finding("Worse.", Severity.CRITICAL, Confidence.LIKELY, (), fact="worse")
CITED = Citation("barrier", "barrier", "/proc/fs/ext4/sda/options")
UNKNOWN = unknown("the superblock")
SECOND_UNKNOWN = unknown("the kernel")
UNDETERMINED = Undetermined((UNKNOWN, SECOND_UNKNOWN))

Act = Finding | Citation | BaseException


def rule_that(
    *acts: Act, code: str = "DUR901", scope: Scope = Scope.FILESYSTEM, at_creation: bool = False
) -> Rule:
    """Build a rule that yields these findings and citations in order, and raises the exceptions.

    With `at_creation` the call itself raises, before there is a generator.
    """

    def speak() -> RuleOutput:
        for act in acts:
            if isinstance(act, BaseException):
                raise act
            yield act

    def run(_fs: Filesystem | None, _host: Host) -> RuleOutput:
        if at_creation:
            return iter(list(speak()))
        return speak()

    return Rule(code, "made-up", Severity.HIGH, "0.1", (), scope, "", "", run)


@pytest.mark.parametrize(
    ("acts", "outcome", "findings", "unknowns", "evidence"),
    [
        ((), Outcome.PASS, (), (), ()),
        ((CITED,), Outcome.PASS, (), (), (CITED,)),
        ((CITED, CITED), Outcome.PASS, (), (), (CITED,)),
        ((FINDING,), Outcome.FAIL, (FINDING,), (), ()),
        ((CITED, FINDING, OTHER), Outcome.FAIL, (FINDING, OTHER), (), (CITED,)),
        ((FINDING, FINDING), Outcome.FAIL, (FINDING, FINDING._replace(number=2)), (), ()),
        ((UNDETERMINED,), Outcome.UNDETERMINED, (), (UNKNOWN, SECOND_UNKNOWN), ()),
        ((CITED, UNDETERMINED), Outcome.UNDETERMINED, (), (UNKNOWN, SECOND_UNKNOWN), (CITED,)),
        ((FINDING, UNDETERMINED), Outcome.FAIL, (FINDING,), (UNKNOWN, SECOND_UNKNOWN), ()),
        ((Undetermined(()),), Outcome.UNDETERMINED, (), (), ()),
        # Evidence that the user excluded from the audit is neither a gap nor a pass.
        ((Undetermined((OUT_OF_SCOPE,)),), Outcome.NOT_APPLICABLE, (), (), ()),
        ((Undetermined((OUT_OF_SCOPE, UNKNOWN)),), Outcome.UNDETERMINED, (), (UNKNOWN,), ()),
        ((FINDING, Undetermined((OUT_OF_SCOPE,))), Outcome.FAIL, (FINDING,), (), ()),
        ((NotApplicable("no stripe"),), Outcome.NOT_APPLICABLE, (), (), ()),
        ((FINDING, NotApplicable("late")), Outcome.ERROR, (FINDING,), (), ()),
    ],
)
def test_what_a_rule_does_decides_its_verdict(
    acts: tuple[Act, ...],
    outcome: Outcome,
    findings: tuple[Finding, ...],
    unknowns: tuple[Any, ...],
    evidence: tuple[Citation, ...],
) -> None:
    """Findings that precede an unknown are kept, together with the unknown."""
    verdict = judge(rule_that(*acts), filesystem(), host())
    assert verdict.outcome is outcome
    assert verdict.findings == findings
    assert verdict.unknowns == unknowns
    assert verdict.evidence == evidence


def test_a_citation_of_the_mount_table_names_the_file_that_was_read() -> None:
    """An archive may contain /proc/mounts only."""
    cited = Citation("mount table", "rw", "/proc/self/mountinfo")
    acts = (cited, CITED, FINDING._replace(citations=(cited,)))
    archived = host(filesystem())._replace(mount_table="/proc/mounts")
    verdict = judge(rule_that(*acts), filesystem(), archived)
    (found,) = verdict.findings
    read = cited._replace(origin="/proc/mounts")
    assert (verdict.evidence, found.citations) == ((read, CITED), (read,))


def test_what_is_neither_finding_nor_citation_is_an_error() -> None:
    """A rule that yields another type gets an ERROR verdict instead of a PASS."""

    def run(_fs: Filesystem | None, _host: Host) -> RuleOutput:
        yield "looks fine"  # type: ignore[misc]

    rule = Rule("DUR999", "x", Severity.LOW, "0", (), Scope.FILESYSTEM, "", "", run)
    verdict = judge(rule, filesystem(), host())
    assert verdict.outcome is Outcome.ERROR
    assert "TypeError" in str(verdict.note)


def test_not_applicable_gives_its_reason() -> None:
    """The note is the message of the exception; other verdicts have no note."""
    refused = judge(rule_that(NotApplicable("no stripe lies below")), filesystem(), host())
    assert refused.note == "no stripe lies below"
    left_out = judge(rule_that(Undetermined((OUT_OF_SCOPE,))), filesystem(), host())
    assert left_out.note == "the audit is limited to targets: other devices were not read"
    assert judge(rule_that(), filesystem(), host()).note is None
    assert judge(rule_that(UNDETERMINED), filesystem(), host()).note is None


@pytest.mark.parametrize("at_creation", [True, False])
def test_a_rule_that_raises_is_an_error_with_its_traceback(at_creation: bool) -> None:
    """The traceback names the file, the line and the exception."""
    broken = rule_that(KeyError("chunk"), at_creation=at_creation)
    verdict = judge(broken, filesystem(), host())
    assert verdict.outcome is Outcome.ERROR
    assert verdict.note is not None
    assert verdict.note.startswith("Traceback (most recent call last):\n")
    assert verdict.note.endswith("KeyError: 'chunk'\n")
    assert "test_engine.py" in verdict.note


def test_a_rule_that_is_no_generator_is_an_error() -> None:
    """A check without a yield returns None, which is an error and not a PASS."""
    forgetful: Callable[..., Any] = lambda _fs, _host: None  # noqa: E731 - the run of a rule
    broken = Rule(
        "DUR901", "made-up", Severity.HIGH, "0.1", (), Scope.FILESYSTEM, "", "", forgetful
    )
    assert judge(broken, filesystem(), host()).outcome is Outcome.ERROR


def test_findings_before_an_error_survive() -> None:
    """The findings that precede an exception are kept."""
    verdict = judge(rule_that(FINDING, ValueError()), filesystem(), host())
    assert verdict.outcome is Outcome.ERROR
    assert verdict.findings == (FINDING,)


@pytest.mark.parametrize("leaving", [KeyboardInterrupt(), SystemExit(4)])
def test_what_ends_the_program_passes_through(leaving: BaseException) -> None:
    """Ctrl-C in a rule ends the audit."""
    with pytest.raises(type(leaving)):
        judge(rule_that(leaving), filesystem(), host())


def test_one_broken_rule_does_not_stop_the_others() -> None:
    """Every other rule runs over every filesystem, also after the broken one."""
    rules = (rule_that(FINDING), rule_that(RuntimeError(), code="DUR902"), rule_that(CITED))
    report = audit(LIVE, host(filesystem(uuid="a"), filesystem(uuid="b")), rules)
    assert [(v.filesystem_id, v.outcome.value) for v in report.verdicts] == [
        ("a", "fail"),
        ("a", "error"),
        ("a", "pass"),
        ("b", "fail"),
        ("b", "error"),
        ("b", "pass"),
    ]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_host_rule_judges_once(count: int) -> None:
    """Its only subject is the host, regardless of the number of filesystems."""
    subjects = [filesystem(uuid=str(number)) for number in range(count)]
    report = audit(LIVE, host(*subjects), (rule_that(FINDING, scope=Scope.HOST),))
    assert [verdict.filesystem_id for verdict in report.verdicts] == [None]


def test_a_host_without_filesystems_has_no_verdicts_on_them() -> None:
    """Without a subject there is no verdict, and nothing is unknown."""
    report = audit(LIVE, host(), (rule_that(FINDING),))
    assert report.verdicts == ()
    assert report.complete


def test_commands_are_kept_from_what_may_be_another_way_to_a_mounted_filesystem() -> None:
    """If an unmounted target may be the storage of a mounted one, its remedy has no commands."""
    step = Step(Phase.IMMEDIATE, "e2fsck -p /dev/sdb")
    rules = [rule_that(FINDING._replace(remedies=(Remedy("Do.", Disruption.ONLINE, (step,)),)))]
    for name, steps in (("sdb", ()), ("vdb", (step,))):
        stack = known(disk(name, DeviceNumber(8, 16)))
        target = filesystem(alive=False, mounts=(), number=DeviceNumber(8, 16), stack=stack)
        on = host(target, lower=(filesystem(),), devices=known(()))
        (verdict,) = audit(LIVE, on, rules).verdicts
        assert [r.steps for f in verdict.findings for r in f.remedies] == [steps]
        others = host(target, lower=(filesystem(uuid="another"),))
        (verdict,) = audit(LIVE, others, rules).verdicts
        assert [r.steps for f in verdict.findings for r in f.remedies] == [(step,)]


def test_clones_are_identified_by_their_device_number() -> None:
    """Two superblocks with one UUID are two subjects with different identifiers."""
    clones = [filesystem(uuid="u", shares_uuid=True), filesystem(uuid=None)]
    report = audit(LIVE, host(*clones), (rule_that(),))
    assert [verdict.filesystem_id for verdict in report.verdicts] == ["u@8:0", "8:0"]


def test_a_rule_that_needs_an_unknown_is_undetermined() -> None:
    """The verdict lists the unknown."""

    def run(fs: Filesystem | None, _host: Host) -> Iterator[Citation]:
        assert fs is not None
        yield Citation("inodes", str(need(fs.superblock).inode_count), "test")

    asking = Rule("HLT901", "made-up", Severity.LOW, "0.1", (), Scope.FILESYSTEM, "", "", run)
    verdict = judge(asking, filesystem(superblock=UNKNOWN), host())
    assert verdict.outcome is Outcome.UNDETERMINED
    assert verdict.unknowns == (UNKNOWN,)


class OddError(Exception):
    """An exception whose text cannot be computed."""

    def __str__(self) -> str:
        """Raise ValueError."""
        raise ValueError("no text")


ACTS = st.sampled_from(
    [
        *(FINDING, OTHER, CITED, UNDETERMINED, Undetermined((UNKNOWN,))),
        *(NotApplicable("no"), NotApplicable(), ValueError("\udcff\n\x1b"), KeyError(), OddError()),
        *(RecursionError(), MemoryError(), StopIteration(), UnicodeDecodeError("u", b"", 0, 1, "")),
    ]
)
MADE_UP = st.builds(
    lambda acts, scope, at_creation: rule_that(*acts, scope=scope, at_creation=at_creation),
    st.lists(ACTS, max_size=4),
    st.sampled_from(Scope),
    st.booleans(),
)


@given(rules=st.lists(MADE_UP, max_size=5), count=st.integers(0, 4))
def test_verdicts_are_rules_times_subjects(rules: list[Rule], count: int) -> None:
    """Each rule gives one verdict per subject whatever it does; an unknown is never a PASS."""
    subjects = [filesystem(uuid=str(number)) for number in range(count)]
    report = audit(LIVE, host(*subjects), rules)
    expected = sum(count if rule.scope is Scope.FILESYSTEM else 1 for rule in rules)
    assert len(report.verdicts) == expected
    for verdict in report.verdicts:
        if verdict.unknowns:
            assert verdict.outcome in {Outcome.FAIL, Outcome.UNDETERMINED}
        if verdict.outcome is Outcome.PASS:
            assert not verdict.findings
        if verdict.outcome is Outcome.ERROR:
            assert verdict.note


RULES = {each.code: each for each in all_rules()}
PROFILES = all_profiles()


def profile(name: str, rate: str = "") -> Profile:
    """Build a profile; a `rate` is its severity for DUR901."""
    pairs = (("DUR901", rate),) if rate else ()
    return Profile(name, name.title(), f"{name} says", f"https://{name}", rate=pairs)


@rule("DUR901", "labelled", severity=Severity.CRITICAL, since="0.1")
def labelled(fs: Filesystem, _host: Host) -> RuleOutput:
    """Yield a finding for each severity in the label."""
    for word in (fs.label or "").split():
        yield Finding("Bad.", Severity(word), Confidence.CONFIRMED, (), fact=word)


def graded(label: str, *rates: str) -> list[str]:
    """Return the severities after profiles have rated them."""
    fs = filesystem(label=label)
    profiles = [profile(f"p{number}", rate) for number, rate in enumerate(rates)]
    verdict = with_profile_severities(judge(labelled, fs, host(fs)), profiles)
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
    """A severity is lowered only if all profiles lower it; one profile is enough to raise it."""
    assert graded(label, *rates) == severities


def test_the_profile_that_changed_a_severity_is_evidence() -> None:
    """It is cited with its statement and source; an unchanged severity adds no citation."""
    fs = filesystem(label="high low")
    verdict = with_profile_severities(judge(labelled, fs, host(fs)), [profile("scratch", "low")])
    first, second = verdict.findings
    (cited,) = first.citations
    assert (cited.label, cited.value) == ("low by profile scratch", "scratch says")
    assert cited.origin == "https://scratch"
    assert second.citations == ()


def test_the_engine_rates_below_the_mount_points_of_a_profile() -> None:
    """A filesystem mounted elsewhere keeps its severities."""
    fs = filesystem(label="high")
    for place, severity in (("/data", "low"), ("/srv", "high")):
        chosen = ActiveProfile(profile("scratch", "low"), place)
        report = audit(ReportSource("live", "db1"), host(fs), (labelled,), (chosen,))
        assert [f.severity.value for f in report.findings] == [severity]


@host_rule("DUR902", "about-places", severity=Severity.CRITICAL, since="0.1")
def about_places(judged: Host) -> RuleOutput:
    """Yield a finding of low severity for each word of the host's name."""
    for fact in judged.name.split(","):
        device = "/dev/sdz1" if fact == "device" else ""
        yield Finding("Bad.", Severity.LOW, Confidence.CONFIRMED, (), fact=fact, device=device)


@pytest.mark.parametrize(
    ("about", "place", "rate", "severity"),
    [
        ("/data", "/data", "+high", "high"),  # a filesystem that is mounted there
        ("/gone", "/gone*", "+high", "high"),  # an fstab entry that is not mounted
        ("/gone", "/data", "+high", "low"),
        ("/gone", "/gone", "info", "info"),
        ("device", "*", "+high", "low"),  # a filesystem that is not mounted
        ("device", None, "+high", "high"),
        ("", "/data", "+high", "high"),  # the host: one of its filesystems is enough to raise it
        ("", "/data", "info", "low"),  # one is not enough to lower it: /srv keeps its severity
        ("", "/elsewhere", "+high", "low"),
        ("", None, "info", "info"),
    ],
)
def test_a_profile_rates_findings_of_the_host(
    about: str, place: str | None, rate: str, severity: str
) -> None:
    """A finding of a host rule is about a filesystem, a directory, or the whole host."""
    data, srv = filesystem(), filesystem(uuid=None, mounts=(mount("/srv"),))
    chosen = ActiveProfile(profile("site", rate)._replace(rate=(("DUR902", rate),)), place)
    judged = host(data, srv, name=about)
    report = audit(ReportSource("live", "db1"), judged, (about_places,), (chosen,))
    assert [f.severity.value for f in report.findings] == [severity]


def test_the_second_line_for_a_directory_is_rated_as_the_first() -> None:
    """Findings with the same fact are numbered, which does not change what they are about."""
    chosen = ActiveProfile(profile("site")._replace(rate=(("DUR902", "+high"),)), "/gone")
    judged = host(filesystem(), name="/gone,/gone")
    report = audit(ReportSource("live", "db1"), judged, (about_places,), (chosen,))
    assert [f.severity.value for f in report.findings] == ["high", "high"]
    assert [f.numbered_fact for f in report.findings] == ["/gone", "/gone #2"]


def test_a_mount_point_may_end_like_a_number() -> None:
    """What a finding is about is not read from the text that distinguishes it from others."""
    chosen = ActiveProfile(profile("site")._replace(rate=(("DUR902", "+high"),)), "/gone")
    judged = host(filesystem(), name="/gone #2,/gone")
    report = audit(ReportSource("live", "db1"), judged, (about_places,), (chosen,))
    assert [f.severity.value for f in report.findings] == ["low", "high"]


def test_equal_findings_of_the_host_are_about_one_filesystem() -> None:
    """Both lines of fstab for a directory name the filesystem that is mounted there."""
    (verdict,) = audit(LIVE, host(filesystem(), name="/data,/data"), (about_places,)).verdicts
    by_fact = filesystems_by_fact(host(filesystem()))
    about = [subject_of(finding, None, by_fact) for finding in verdict.findings]
    assert [fs and fs.device for fs in about] == ["/dev/sda", "/dev/sda"]


@pytest.mark.parametrize("chosen", PROFILES.values(), ids=PROFILES)
def test_a_profile_refers_to_existing_rules_and_options(chosen: Profile) -> None:
    """Its rules exist, its severities and options are valid, and its source is a web page."""
    for code, word in chosen.rate:
        severity = Severity(word.removeprefix(AT_LEAST))
        assert RULES[code].scope is Scope.FILESYSTEM
        assert not word.startswith(AT_LEAST) or RULES[code].severity.at_least(severity)
    for word in chosen.options:
        assert word in ATIME_OPTIONS or recognize(word)
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


@examples(60)
@given(judged=HOSTS, profiles=ACTIVE)
def test_profiles_break_no_rule_and_hide_no_finding(
    judged: Host, profiles: tuple[ActiveProfile, ...]
) -> None:
    """With any profile every rule reaches a verdict, and only severities change."""
    rules = tuple(RULES.values())
    report = audit(ReportSource("live", "db1"), judged, rules, profiles)
    assert not [v.note for v in report.verdicts if v.outcome is Outcome.ERROR]
    for verdict in report.verdicts:
        facts = [finding.numbered_fact for finding in verdict.findings]
        assert len(set(facts)) == len(facts), verdict.rule.code
    rating = [v for v in report.verdicts if v.rule.code not in WITH_PROFILES]
    without = audit(ReportSource("live", "db1"), judged._replace(profiles=()), rules)
    plain = [v for v in without.verdicts if v.rule.code not in WITH_PROFILES]
    assert [[f.message for f in v.findings] for v in rating] == [
        [f.message for f in v.findings] for v in plain
    ]


WITH_PROFILES = {"CMP007", "PRF003", "LAY007"}
"""Rules whose outcome a profile decides."""

"""The engine: one verdict for each rule and subject, whatever a rule does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import filesystem, host, unknown
from ext4audit.engine import audit, judge
from ext4audit.evidence import Undetermined, need
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.records import replace
from ext4audit.report import Outcome, Source
from ext4audit.rule import NotApplicable, Rule, Said, Scope

LIVE = Source("live", "db1")
FINDING = Finding("Bad.", Severity.HIGH, Confidence.CONFIRMED, ())
OTHER = Finding("Worse.", Severity.CRITICAL, Confidence.LIKELY, (), fact="worse")
CITED = Citation("barrier", "barrier", "/proc/fs/ext4/sda/options")
HOLE = unknown("the superblock")
SECOND_HOLE = unknown("the kernel")
UNDETERMINED = Undetermined((HOLE, SECOND_HOLE))

Act = Finding | Citation | BaseException


def rule_that(
    *acts: Act, code: str = "DUR901", scope: Scope = Scope.FILESYSTEM, at_creation: bool = False
) -> Rule:
    """Build a rule that does these acts in their order: says what is said, raises the rest.

    With `at_creation` what it raises is raised by the call, before there is a generator.
    """

    def speak() -> Said:
        for act in acts:
            if isinstance(act, BaseException):
                raise act
            yield act

    def run(_fs: Filesystem | None, _host: Host) -> Said:
        if at_creation:
            return iter(list(speak()))
        return speak()

    return Rule(code, "made-up", Severity.HIGH, "0.1", (), scope, "", "", run)


@pytest.mark.parametrize(
    ("acts", "outcome", "findings", "unknowns", "evidence"),
    [
        ((), Outcome.PASS, (), (), ()),
        ((CITED,), Outcome.PASS, (), (), (CITED,)),
        ((FINDING,), Outcome.FAIL, (FINDING,), (), ()),
        ((CITED, FINDING, OTHER), Outcome.FAIL, (FINDING, OTHER), (), (CITED,)),
        ((FINDING, FINDING), Outcome.FAIL, (FINDING, replace(FINDING, fact="#2")), (), ()),
        ((UNDETERMINED,), Outcome.UNDETERMINED, (), (HOLE, SECOND_HOLE), ()),
        ((CITED, UNDETERMINED), Outcome.UNDETERMINED, (), (HOLE, SECOND_HOLE), (CITED,)),
        ((FINDING, UNDETERMINED), Outcome.FAIL, (FINDING,), (HOLE, SECOND_HOLE), ()),
        ((Undetermined(()),), Outcome.UNDETERMINED, (), (), ()),
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
    """Findings said before a hole survive it, and the hole stands beside them."""
    verdict = judge(rule_that(*acts), filesystem(), host())
    assert verdict.outcome is outcome
    assert verdict.findings == findings
    assert verdict.unknowns == unknowns
    assert verdict.evidence == evidence


def test_what_is_neither_finding_nor_citation_is_an_error() -> None:
    """A rule that yields something else is wrong, and says so instead of passing."""

    def run(_fs: Filesystem | None, _host: Host) -> Said:
        yield "looks fine"  # type: ignore[misc]

    rule = Rule("DUR999", "x", Severity.LOW, "0", (), Scope.FILESYSTEM, "", "", run)
    verdict = judge(rule, filesystem(), host())
    assert verdict.outcome is Outcome.ERROR
    assert "TypeError" in str(verdict.note)


def test_not_applicable_gives_its_reason() -> None:
    """The note is the sentence that the rule raised; other verdicts have none."""
    refused = judge(rule_that(NotApplicable("no stripe lies below")), filesystem(), host())
    assert refused.note == "no stripe lies below"
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
    """A check that forgot to yield returns None, and that is no pass."""
    forgetful: Callable[..., Any] = lambda _fs, _host: None  # noqa: E731 - the run of a rule
    broken = Rule(
        "DUR901", "made-up", Severity.HIGH, "0.1", (), Scope.FILESYSTEM, "", "", forgetful
    )
    assert judge(broken, filesystem(), host()).outcome is Outcome.ERROR


def test_findings_before_an_error_survive() -> None:
    """What a rule found before it broke is found."""
    verdict = judge(rule_that(FINDING, ValueError()), filesystem(), host())
    assert verdict.outcome is Outcome.ERROR
    assert verdict.findings == (FINDING,)


@pytest.mark.parametrize("leaving", [KeyboardInterrupt(), SystemExit(4)])
def test_what_ends_the_program_passes_through(leaving: BaseException) -> None:
    """Ctrl-C in a rule ends the audit."""
    with pytest.raises(type(leaving)):
        judge(rule_that(leaving), filesystem(), host())


def test_one_broken_rule_does_not_stop_the_others() -> None:
    """Every other rule judges every filesystem, also those after the broken one."""
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
    """Its subject is the host, however many filesystems there are."""
    subjects = [filesystem(uuid=str(number)) for number in range(count)]
    report = audit(LIVE, host(*subjects), (rule_that(FINDING, scope=Scope.HOST),))
    assert [verdict.filesystem_id for verdict in report.verdicts] == [None]


def test_a_host_without_filesystems_has_no_verdicts_on_them() -> None:
    """No subject, no verdict, and nothing is unknown."""
    report = audit(LIVE, host(), (rule_that(FINDING),))
    assert report.verdicts == ()
    assert report.complete


def test_clones_are_told_apart_by_their_device_number() -> None:
    """Two superblocks with one UUID are two subjects with two names."""
    clones = [filesystem(uuid="u", shares_uuid=True), filesystem(uuid=None)]
    report = audit(LIVE, host(*clones), (rule_that(),))
    assert [verdict.filesystem_id for verdict in report.verdicts] == ["u@8:0", "8:0"]


def test_a_rule_that_needs_a_hole_is_undetermined_by_it() -> None:
    """The verdict names what was missing."""

    def run(fs: Filesystem | None, _host: Host) -> Iterator[Citation]:
        assert fs is not None
        yield Citation("inodes", str(need(fs.superblock).inode_count), "test")

    asking = Rule("HLT901", "made-up", Severity.LOW, "0.1", (), Scope.FILESYSTEM, "", "", run)
    verdict = judge(asking, filesystem(superblock=HOLE), host())
    assert verdict.outcome is Outcome.UNDETERMINED
    assert verdict.unknowns == (HOLE,)


class OddError(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        """Fail."""
        raise ValueError("no text")


ACTS = st.sampled_from(
    [
        *(FINDING, OTHER, CITED, UNDETERMINED, Undetermined((HOLE,))),
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
    """Whatever rules do, each gives one verdict a subject, and a hole is never a pass."""
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

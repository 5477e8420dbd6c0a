"""Suppressions: what they match, until when, and which of them are stale."""

from __future__ import annotations

import pytest
from hypothesis import given

from ext4audit.engine import audit
from ext4audit.facts.host import Filesystem, Host
from ext4audit.finding import Confidence, Finding, Severity, Suppression
from ext4audit.policy import SuppressionRule, not_judged, stale_suppressions, suppress
from ext4audit.report import EXIT_FINDINGS, Report, ReportSource, exit_code
from ext4audit.rule import RuleOutput, host_rule, rule
from ext4audit.rules import all_rules
from support.builders import UUID, filesystem, host, mount, unknown
from support.examples import examples
from support.hosts.strategies import HOSTS

LIVE = ReportSource("live", "db1")
TODAY = "2026-11-22"
RULES = all_rules()


@rule("DUR901", "always", severity=Severity.HIGH, since="0.1")
def always(_fs: Filesystem, _host: Host) -> RuleOutput:
    """Find something on every filesystem."""
    yield Finding("Bad.", Severity.HIGH, Confidence.CONFIRMED, ())


@host_rule("DRF901", "entries", severity=Severity.HIGH, since="0.1")
def entries(_host: Host) -> RuleOutput:
    """Find something at two mount points."""
    for point, device in (("/srv", ""), ("/var/lib/a", "/dev/sdq")):
        found = Finding(f"{point} is bad.", Severity.HIGH, Confidence.CONFIRMED, (), fact=point)
        yield found._replace(device=device)


def accepting(
    subject: str, code: str = "DUR901", expires: str | None = None, reason: str = "it is so"
) -> SuppressionRule:
    """Build a suppression."""
    return SuppressionRule(code, subject, Suppression(reason, "ops", expires))


SUBJECT = filesystem(label="Data", mounts=(mount("/srv/Data"), mount("/bind", root="/sub")))


def report() -> Report:
    """Audit one filesystem and its host."""
    return audit(LIVE, host(SUBJECT, name="db1"), (always, entries))


@pytest.mark.parametrize(
    ("subject", "matches"),
    [
        (UUID, True),
        (UUID.upper(), True),
        (f"{UUID.upper()[:8]}*", True),
        ("/srv/Data", True),
        ("/srv/data", False),
        ("/srv/*", True),
        ("/SRV/*", False),
        ("/bind", True),
        ("/dev/sda", True),
        ("/dev/sd?", True),
        ("sda", True),
        ("Data", True),
        ("data", False),
        ("8:0", True),
        ("*", True),
        ("/srv", False),
        ("/dev/sda1", False),
        ("db1", False),
    ],
)
def test_a_filesystem_is_matched_by_each_of_its_names(subject: str, matches: bool) -> None:
    """UUID, mount points, device and label match as globs; only a UUID is case-insensitive."""
    marked, used = suppress(report(), [accepting(subject)], TODAY)
    assert bool(used) is matches
    assert marked.suppressed == int(matches)


def test_one_finding_of_several_is_named_by_its_fact() -> None:
    """If a rule has two findings on one filesystem, one of them can be accepted."""

    @rule("DUR902", "twice", severity=Severity.HIGH, since="0.1")
    def twice(_fs: Filesystem, _host: Host) -> RuleOutput:
        """Find two options."""
        for word in ("nobarrier", "discard"):
            yield Finding(word, Severity.HIGH, Confidence.CONFIRMED, (), fact=word)

    made = audit(LIVE, host(SUBJECT), (twice,))
    marked, _ = suppress(made, [accepting("discard", "DUR902")], TODAY)
    assert [finding.fact for finding in marked.counted] == ["nobarrier"]


@pytest.mark.parametrize(
    ("subjects", "first"),
    [
        (("/DATA", "data", "Data", "*"), "Data"),
        (("/srv/*", "Data"), "/srv/*"),
        ((UUID.upper(), UUID), UUID.upper()),
        (("/nowhere", "/bind", "8:0"), "/bind"),
    ],
)
def test_the_first_suppression_of_several_is_used(subjects: tuple[str, ...], first: str) -> None:
    """The order in the file decides, not wildcards; the others count as matched, too."""
    rules = [accepting(subject, reason=subject) for subject in subjects]
    marked, used = suppress(report(), rules, TODAY)
    assert first in {each.subject for each in used} <= set(subjects)
    (accepted,) = {f.suppression.reason for f in marked.findings if f.suppression}
    assert accepted == first


def test_a_mount_point_with_brackets_matches_itself() -> None:
    """A name with glob characters matches itself."""
    odd = filesystem(mounts=(mount("/mnt/[a]"),))
    marked, _ = suppress(audit(LIVE, host(odd), (always,)), [accepting("/mnt/[a]")], TODAY)
    assert marked.suppressed == 1


@pytest.mark.parametrize(
    ("subject", "facts"),
    [
        ("/srv", ["/srv"]),
        ("/var/*", ["/var/lib/a"]),
        ("db1", ["/srv", "/var/lib/a"]),
        ("*", ["/srv", "/var/lib/a"]),
        ("/srv/Data", []),
        ("/dev/sda", ["/srv"]),
        ("Data", ["/srv"]),
        (UUID, ["/srv"]),
        ("/dev/sdq", ["/var/lib/a"]),
    ],
)
def test_a_finding_about_the_host_is_matched_by_its_fact_or_device(
    subject: str, facts: list[str]
) -> None:
    """A subject matches the fact, such as a mount point, or the filesystem or device concerned.

    The host's name matches all findings. In JSON that filesystem is the finding's device.
    """
    mounted = SUBJECT._replace(mounts=(mount("/srv"),))
    made = audit(LIVE, host(mounted, name="db1"), (entries,))
    marked, _ = suppress(made, [accepting(subject, "DRF901")], TODAY)
    assert [f.fact for f in marked.findings if f.suppression] == facts


def test_a_suppression_is_for_one_rule() -> None:
    """Other rules' findings about the subject still count."""
    marked, _ = suppress(report(), [accepting("*", "DRF901")], TODAY)
    assert [finding.message for finding in marked.counted] == ["Bad."]


@pytest.mark.parametrize(
    ("expires", "holds"),
    [(None, True), ("2026-11-22", True), ("2026-11-23", True), ("2026-11-21", False)],
)
def test_a_suppression_is_valid_until_the_end_of_its_last_day(
    expires: str | None, holds: bool
) -> None:
    """On the following day the finding counts again."""
    marked, used = suppress(report(), [accepting("*", expires=expires)], TODAY)
    assert bool(marked.suppressed) is holds
    assert bool(used) is holds


def test_the_reason_stays_with_the_finding() -> None:
    """Every format can show reason, owner and last day of the first match."""
    first = accepting("*", expires="2027-01-01", reason="first")
    marked, used = suppress(report(), [first, accepting("/dev/sda")], TODAY)
    (finding,) = (finding for finding in marked.findings if finding.suppression)
    assert finding.suppression == Suppression("first", "ops", "2027-01-01")
    assert used == {first, accepting("/dev/sda")}  # neither of them is stale


@pytest.mark.parametrize(
    ("rules", "judged", "sentences"),
    [
        ([accepting("*", expires="2026-11-21")], {"DUR901"}, ["expired on 2026-11-21"]),
        ([accepting("*", expires="2026-11-21")], set(), ["expired on 2026-11-21"]),
        ([accepting("/nowhere")], {"DUR901"}, ["matches no finding"]),
        ([accepting("/nowhere")], set(), []),
        ([accepting("/nowhere")], {"DRF901"}, []),
        ([accepting("*")], {"DUR901"}, []),
    ],
)
def test_stale_suppressions_are_reported(
    rules: list[SuppressionRule], judged: set[str], sentences: list[str]
) -> None:
    """Expired ones always; one without a match only if its rule had all evidence."""
    _, used = suppress(report(), rules, TODAY)
    stale_ones = list(stale_suppressions(rules, frozenset(used), TODAY, judged=frozenset(judged)))
    assert len(stale_ones) == len(sentences)
    assert all(part in each for part, each in zip(sentences, stale_ones, strict=True))


def test_a_rule_with_an_unknown_has_not_judged_everything() -> None:
    """It might have found something that is suppressed; a gap of the host affects all rules."""
    incomplete = audit(LIVE, host(filesystem(options=unknown("options"))), RULES)
    assert "DUR001" in not_judged(incomplete)
    assert "DRF006" not in not_judged(incomplete)
    gap = audit(LIVE, host(filesystem(), gaps=(unknown("mounts"),)), RULES)
    assert not_judged(gap) == {each.code for each in RULES}


@examples(60)
@given(judged=HOSTS)
def test_what_is_suppressed_never_counts(judged: Host) -> None:
    """If everything is accepted, no finding counts, and all are in the report."""
    made = audit(LIVE, judged, RULES)
    marked, _ = suppress(made, [accepting("*", each.code) for each in RULES], TODAY)
    assert marked.counted == ()
    assert marked.suppressed == len(marked.findings) == len(made.findings)
    assert exit_code(marked, Severity.INFO, allow_incomplete=False) != EXIT_FINDINGS
    assert marked.complete == made.complete

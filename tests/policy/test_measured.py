"""Measurements applied to verdicts: which findings are confirmed, passed or unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from ext4audit.facts.host import Filesystem
from ext4audit.facts.measurement import (
    MeasuredFilesystem,
    Measurement,
    MemberFigures,
    ProbeRun,
    ProbeVerdict,
)
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.policy.measured import apply_measurements, unused_measurements
from ext4audit.report import Outcome, Report, ReportSource, Verdict
from ext4audit.rules import all_rules
from support.builders import filesystem, host, kernel, known, layout, options, unknown

FS = filesystem(options=known(options("nobarrier")), layout=known(layout((8, 8))))
OPTIONS = (
    ("auto_da_alloc", "auto_da_alloc"),
    ("barrier", "nobarrier"),
    ("data", "data=ordered"),
    ("delalloc", "delalloc"),
    ("dioread_nolock", "dioread_nolock"),
)
PROBES = {"DUR001": "fsync", "PRF002": "rename", "PRF001": "extents", "LAY001": "members"}
LIKELY, POSSIBLE, CONFIRMED = Confidence.LIKELY, Confidence.POSSIBLE, Confidence.CONFIRMED


def run(
    verdict: str = "healthy",
    code: str = "DUR001",
    taken_at: str = "2026-01-01T00:00:00Z",
    mode: str = "probe",
    **subject: Any,
) -> ProbeRun:
    """Build a run with one result."""
    values: dict[str, Any] = {
        "uuid": FS.uuid,
        "device": "/dev/sda",
        "kernel_release": "6.1.0-18-amd64",
        "options": OPTIONS,
    }
    result = Measurement(PROBES[code], code, ProbeVerdict(verdict), f"as {verdict}", "1 flush")
    measured = MeasuredFilesystem(**{**values, **subject})
    return ProbeRun(mode, taken_at, "db1", "", "/data", measured, 1.0, 0, (result,))


def of_members(number: int) -> ProbeRun:
    """Build a healthy run on an array with the given number of members."""
    healthy = run("healthy", "LAY001")
    member = MemberFigures("sda", 0, 0, None, None, None)
    return healthy._replace(results=(healthy.results[0]._replace(members=(member,) * number),))


def together(*runs: ProbeRun) -> ProbeRun:
    """Return one run with the results of several."""
    return runs[0]._replace(results=tuple(result for each in runs for result in each.results))


def verdict(
    *confidences: Confidence, code: str = "DUR001", unknowns: bool = False, fs: Filesystem = FS
) -> Verdict:
    """Build a verdict with a finding of each confidence; without any it is a pass."""
    rule = next(rule for rule in all_rules() if rule.code == code)
    findings = tuple(
        Finding("It is bad.", Severity.HIGH, each, (Citation("seen", each.value, "test"),))
        for each in confidences
    )
    outcome = Outcome.FAIL if findings else Outcome.PASS
    return Verdict(rule, fs.id, outcome, findings, (unknown("x"),) if unknowns else ())


def report(one: Verdict, fs: Filesystem = FS, **changes: Any) -> Report:
    """Build the report of one verdict."""
    return Report(ReportSource("live", "db1"), host(fs, **changes), (one,))


LATER = "2026-01-03T00:00:00Z"
LATER_UNDECIDED = run("inconclusive", taken_at=LATER)
LATER_OBSERVED = run("healthy", taken_at=LATER, mode="observe")


@pytest.mark.parametrize(
    ("before", "runs", "outcome", "after", "cited"),
    [
        (verdict(LIKELY), [run("healthy")], "pass", [], True),
        (verdict(POSSIBLE), [run("healthy")], "pass", [], True),
        (verdict(LIKELY), [run("affected")], "fail", [CONFIRMED], True),
        (verdict(CONFIRMED), [run("healthy")], "fail", [CONFIRMED], True),
        (verdict(CONFIRMED, LIKELY), [run("healthy")], "fail", [CONFIRMED], True),
        (verdict(LIKELY), [run("inconclusive")], "fail", [LIKELY], False),
        (verdict(LIKELY), [run("healthy", mode="observe")], "fail", [LIKELY], False),
        (verdict(LIKELY), [run("affected", mode="observe")], "fail", [CONFIRMED], True),
        (verdict(LIKELY, unknowns=True), [run("healthy")], "undetermined", [], True),
        (verdict(), [run("affected")], "pass", [], False),
        (verdict(LIKELY), [run("healthy", "PRF002")], "fail", [LIKELY], False),
        (verdict(LIKELY, code="LAY001"), [of_members(2)], "pass", [], True),
        (verdict(LIKELY, code="LAY001"), [of_members(4)], "fail", [LIKELY], False),
        (verdict(LIKELY, code="LAY001"), [run("healthy", "LAY001")], "fail", [LIKELY], False),
        (verdict(LIKELY), [run("healthy", uuid="another")], "fail", [LIKELY], False),
        (verdict(LIKELY), [run("healthy", kernel_release="6.12")], "fail", [LIKELY], False),
        (verdict(LIKELY), [run("healthy", options=())], "fail", [LIKELY], False),
        (
            verdict(LIKELY),
            [run("healthy", options=(("barrier", "barrier"),))],
            "fail",
            [LIKELY],
            False,
        ),
        (
            verdict(LIKELY),
            [run("affected", taken_at="2026-01-03T00:00:00Z"), run("healthy")],
            "fail",
            [CONFIRMED],
            True,
        ),
        # A newer inconclusive measurement does not replace an older one.
        (verdict(LIKELY), [run("affected"), LATER_UNDECIDED], "fail", [CONFIRMED], True),
        (verdict(LIKELY), [run("affected"), LATER_OBSERVED], "fail", [CONFIRMED], True),
        (verdict(LIKELY), [run("healthy"), LATER_UNDECIDED], "pass", [], True),
        (verdict(LIKELY), [], "fail", [LIKELY], False),
    ],
)
def test_measurements_confirm_or_pass_findings(
    before: Verdict, runs: list[ProbeRun], outcome: str, after: list[Confidence], *, cited: bool
) -> None:
    """Unconfirmed findings are confirmed or pass, and the measurement is cited."""
    (found,) = apply_measurements(report(before), runs).verdicts
    assert found.outcome.value == outcome
    assert [finding.confidence for finding in found.findings] == after
    citations = [*found.evidence, *(c for finding in found.findings for c in finding.citations)]
    assert any(each.label.startswith("probe ") for each in citations) == cited


@pytest.mark.parametrize(
    ("severity", "shown"),
    [(Severity.INFO, Severity.LOW), (Severity.LOW, Severity.LOW), (Severity.HIGH, Severity.HIGH)],
)
def test_a_measured_finding_is_shown_in_full(severity: Severity, shown: Severity) -> None:
    """The default report shows the finding in full, with the measurement."""
    one = verdict(LIKELY)
    mild = one._replace(findings=tuple(f._replace(severity=severity) for f in one.findings))
    (found,) = apply_measurements(report(mild), [run("affected")]).findings
    assert (found.severity, found.measured) == (shown, True)


@pytest.mark.parametrize(
    ("fs", "changes"),
    [
        (FS._replace(shares_uuid=True), {}),
        (FS._replace(uuid=None), {}),
        (FS._replace(options=unknown("options")), {}),
        (FS, {"name": "db2"}),  # made from the same image as db1
        (FS, {"kernel": unknown("kernel")}),
        (FS, {"kernel": known(kernel("6.12.0"))}),
    ],
)
def test_findings_on_unrecognized_filesystems_stay_unchanged(
    fs: Filesystem, changes: dict[str, Any]
) -> None:
    """A copy with the same UUID, or a host with too little evidence, gets no pass."""
    before = report(verdict(LIKELY, fs=fs), fs, **changes)
    assert apply_measurements(before, [run("healthy")]) == before


@pytest.mark.parametrize(
    ("one", "runs", "sentence"),
    [
        (verdict(LIKELY), [run("healthy")], None),
        (verdict(LIKELY), [run("healthy", uuid="another")], "to no audited filesystem"),
        (verdict(LIKELY), [run("healthy", uuid="")], "could not read the UUID"),
        (verdict(LIKELY), [run("healthy")._replace(host="db2")], "made on the host 'db2'"),
        (verdict(LIKELY), [run("healthy", kernel_release="5.10")], "made with Linux 5.10"),
        (verdict(LIKELY), [run("healthy", options=())], "no barrier was in force"),
        (
            verdict(LIKELY),
            [run("healthy", options=(("barrier", "barrier"),))],
            "barrier was in force",
        ),
        (verdict(), [run("affected")], "is affected, and DUR001 has no finding"),
        (verdict(), [run("healthy")], None),
        (verdict(LIKELY, code="LAY001"), [of_members(4)], "the array had 4 members"),
        (verdict(LIKELY), [run("affected", "PRF002")], None),
        # Every result and every run is checked.
        (verdict(), [together(run("affected", "PRF002"), run("affected"))], "has no finding"),
        (verdict(), [together(run("healthy"), run("affected"))], "has no finding"),
        (verdict(), [run("affected", "PRF002"), run("affected")], "has no finding"),
    ],
)
def test_unused_measurements_are_reported(
    one: Verdict, runs: list[ProbeRun], sentence: str | None
) -> None:
    """A notice gives the reason for not using a measurement."""
    sentences = list(unused_measurements(report(one), runs))
    assert [sentence in each for each in sentences if sentence] == ([True] if sentence else [])
    assert bool(sentences) == bool(sentence)


def test_an_unknown_array_is_not_reported_as_another_array() -> None:
    """The measurement is not used, because it may be of another array."""
    fs = FS._replace(layout=unknown("layout"))
    one = report(verdict(LIKELY, code="LAY001", fs=fs), fs)
    (sentence,) = unused_measurements(one, [of_members(2)])
    assert sentence.endswith("is not used for LAY001: the members of its array are not known")
    (sentence,) = unused_measurements(
        report(one.verdicts[0], FS._replace(layout=None)), [of_members(2)]
    )
    assert sentence.endswith("the array had 2 members")

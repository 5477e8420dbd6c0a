"""Rows of findings and gaps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Filesystem, Host
from ext4audit.facts.mount import DeviceNumber
from ext4audit.finding import Citation, Confidence, Finding, Severity
from ext4audit.renderers.shared.rows import (
    Gap,
    Location,
    Row,
    by_cause,
    by_urgency,
    fingerprints,
    folder,
    gaps,
    location_of,
    location_of_subject,
    rows,
    superblock,
    where,
)
from ext4audit.rule import RuleOutput, host_rule
from ext4audit.rules.shared import cite_fstab, cite_fstab_options
from support.builders import UNREAD, filesystem, fstab_entry, host, known, mount
from support.formats.sample_reports import (
    CRITICAL,
    FLEET,
    HOSTILE_NAMES,
    INCOMPLETE,
    PROCESSED_REPORT,
    barriers,
    boot,
    critical_report,
    incomplete_report,
    md127,
    old_kernel,
    report,
)


def test_findings_are_sorted_by_severity() -> None:
    """Each row has the host, the rule, the subject and the state."""
    assert CRITICAL.report is not None
    assert PROCESSED_REPORT.report is not None
    assert [r.rule.code for r in rows("db1", CRITICAL.report)] == ["DUR001", "LAY001"]
    found = {row.rule.code: row.state for row in rows("db9", PROCESSED_REPORT.report)}
    expected = {"DUR001": "suppressed", "LAY001": "known", "KRN003": "active", "PRF002": "active"}
    assert found == expected


def test_limited_list_has_each_rule_before_repeats() -> None:
    """Severity comes first: a repeat of a worse rule precedes a milder rule."""
    assert CRITICAL.report is not None
    worst, milder = rows("db1", CRITICAL.report)
    severity = worst.finding.severity
    other = milder._replace(finding=milder.finding._replace(severity=severity))
    found = by_urgency([milder, *[worst] * 3, other])
    assert [row.rule.code for row in found] == [
        "DUR001",
        "LAY001",
        "DUR001",
        "DUR001",
        "LAY001",
    ]
    assert found[-1] is milder


def test_rows_with_one_cause_are_grouped_at_the_first() -> None:
    """A cause with few rows is not grouped; causes of different hosts are different."""
    assert CRITICAL.report is not None
    worst, milder = rows("db1", CRITICAL.report)
    elsewhere = worst._replace(host="db2")
    found = [worst, milder, worst, elsewhere, worst]
    assert by_cause(found, 2) == [(worst, worst, worst), (milder,), (elsewhere,)]
    assert by_cause(found, 3) == [(each,) for each in found]
    known = worst._replace(finding=worst.finding._replace(known=True))
    assert by_cause([worst, known], 1) == [(worst,), (known,)]


def test_suppressed_takes_precedence_over_known() -> None:
    """The reason of a suppression takes precedence over the baseline."""
    assert PROCESSED_REPORT.report is not None
    (row,) = [r for r in rows("db9", PROCESSED_REPORT.report) if r.rule.code == "DUR001"]
    assert row._replace(finding=row.finding._replace(known=True)).state == "suppressed"


@pytest.mark.parametrize(
    ("fact", "subject", "about"),
    [("/data", "/data", True), ("/gone", "/gone", False), ("", "the host", False)],
)
def test_subject_of_a_host_finding(fact: str, subject: str, about: bool) -> None:
    """Three lines of fstab are named by mount point; "the host" would make them one."""

    @host_rule("CMP003", "fstab-unstable-device", severity=Severity.HIGH, since="0.2")
    def names(_host: Host) -> RuleOutput:
        yield finding_with_citations(fact=fact)

    (row,) = rows("db1", report(host(md127("/data")), names))
    assert (row.where, row.filesystem) == (subject, None)
    assert (row.about is not None) is about


def test_subject_has_device_and_mount_point() -> None:
    """The host is named without a device."""
    assert where(md127("/srv/a")) == "/dev/md127 on /srv/a"
    assert where(boot()._replace(mounts=())) == "/dev/nvme0n1p1"
    assert where(None) == "the host"


def test_gaps_have_unknown_and_hint() -> None:
    """Gaps of the host are first; for a rule that raised, the last traceback line is shown."""
    found = [
        (g.rule.code if g.rule else "", g.text, g.hint) for g in gaps("m", incomplete_report())
    ]
    assert found[:3] == [
        ("", "the mount table of PID 1 (timed out: after 10 s)", ""),
        ("CAP001", "something (permission denied)", "run as root"),
        ("HLT009", "stopped with an error: KeyError: 'sd'", ""),
    ]


@pytest.mark.parametrize("place", ["/", "/s"])
def test_cause_of_a_gap_does_not_name_the_filesystem(place: str) -> None:
    """Two disks lack the same evidence; the fixed parts of a kernel path stay."""
    fs = filesystem(uuid="u-1", device="/dev/sda1", name="sda1", mounts=(mount(place),))
    what = "/sys/block/sda1 of /dev/sda1, u-1"
    gap = Gap("h", None, fs, (Unknown(what, Why.DENIED),))
    assert gap.cause == "/sys/block/... of ..., ... (no permission)"


def test_complete_report_has_no_gaps() -> None:
    """A complete report has no gaps."""
    for host_ in FLEET:
        if host_.report is not None:
            assert bool(gaps("x", host_.report)) is not host_.report.complete
    assert INCOMPLETE.report is not None
    assert not INCOMPLETE.report.complete
    assert not gaps("db1", critical_report())


LINE_7 = fstab_entry().line._replace(line_number=7)


def finding_with_citations(*citations: Citation, fact: str = "") -> Finding:
    """Build a finding with these citations."""
    return Finding("Odd.", Severity.LOW, Confidence.LIKELY, citations, fact=fact)


def finding_row(fs: Filesystem | None = None, fact: str = "", name: str = "db1") -> Row:
    """Build a row of a finding with this fact."""
    return Row(name, barriers, fs, finding_with_citations(fact=fact))


@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        ([cite_fstab(LINE_7, "defaults")], ("etc/fstab", 7)),
        ([cite_fstab(LINE_7, "0", "the sixth field")], ("etc/fstab", 7)),
        ([cite_fstab_options(LINE_7)], ("etc/fstab", 7)),
        ([Citation("x", "y", "uname"), cite_fstab(LINE_7, "")], ("etc/fstab", 7)),
        ([cite_fstab(LINE_7._replace(is_numbered=False), "")], None),
        ([cite_fstab_options(LINE_7._replace(is_numbered=False))], None),
        ([Citation("fstab line 9", "defaults", "/proc/cmdline")], None),
        ([Citation("fstab line 9", "defaults", "/etc/fstab")], None),
        ([Citation("fstab", "no entry", "/etc/fstab")], None),
        ([], None),
    ],
)
def test_location_is_the_cited_fstab_line(
    citations: Sequence[Citation], expected: tuple[str, int] | None
) -> None:
    """Only citations of /etc/fstab count; any other finding is located in the mount table."""
    audited = report(host(filesystem()))
    path, line = expected or ("proc/self/mountinfo", 1)
    location = location_of(Row("db1", barriers, None, finding_with_citations(*citations)), audited)
    assert location == (f"hosts/db1/{path}", line)


def test_location_in_the_mount_table() -> None:
    """A filesystem is on the line of its first mount; the host and unmounted ones on line 1."""
    number = DeviceNumber(9, 1)
    other, ours = mount("/", number=DeviceNumber(8, 5)), mount("/data", number=number)
    over = mount("/data", number=DeviceNumber(8, 7))
    fs = filesystem(number=number, mounts=(ours,))
    audited = report(host(fs, mounts=known((other, over, ours))))
    assert location_of_subject("h", fs, audited) == Location("hosts/h/proc/self/mountinfo", 3)
    assert location_of_subject("h", fs._replace(mounts=()), audited).line == 1
    assert location_of_subject("h", None, audited).line == 1
    assert location_of_subject("h", fs, report(host(fs, mounts=UNREAD))).line == 1
    assert location_of_subject("h", None, None).line == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("db1.example.org", "db1.example.org"),
        ("web 1 (b%20c)", "web 1 (b%20c)"),
        ("a/../../b", "a_.._.._b"),
        ("..", "_.."),
        ("", "_"),
        ("a\nb", r"a\x0ab"),
    ],
)
def test_folder_of_a_host(name: str, expected: str) -> None:
    """The path is not percent-encoded, because only SARIF consumers decode it."""
    assert folder(name) == expected


@pytest.mark.parametrize("name", [*HOSTILE_NAMES.values(), "", ".", "..", "a/../../b", "ä"])
def test_host_folder_is_one_path_segment(name: str) -> None:
    """The path stays below `hosts/`."""
    part = folder(name)
    assert part.isprintable()
    assert "/" not in part
    assert part.strip(".")


def test_fingerprints_are_stable() -> None:
    """They depend on host, rule, superblock and fact, not on device, text, line or severity."""
    fs = filesystem(uuid="u-1")
    renamed = fs._replace(device="/dev/sdq", name="sdq", device_number=DeviceNumber(65, 0))
    worse = finding_row(renamed)._replace(
        finding=finding_with_citations()._replace(severity=Severity.HIGH, message="Bad.")
    )
    assert fingerprints([finding_row(fs)]) == fingerprints([worse])
    assert fingerprints([finding_row(fs)]) == ("5189168c8f0dfeac908fbbd987feec1c",)


def test_fingerprints_are_unique() -> None:
    """Cloned hosts, copies of a filesystem, and findings without a fact all differ."""
    fs = filesystem(uuid="u-1")
    rows = [
        finding_row(fs),
        finding_row(fs),
        finding_row(fs._replace(shares_uuid=True)),
        finding_row(fs, fact="/srv"),
        finding_row(fs, name="db2"),
        finding_row(),
        finding_row(fs)._replace(rule=old_kernel),
        finding_row(fs, fact="\udcff"),
        finding_row(fs, fact="\ud800"),
    ]
    made = fingerprints(rows)
    assert len(set(made)) == len(rows)
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in made)


@pytest.mark.parametrize(
    ("fs", "expected"),
    [
        (filesystem(uuid="u-1", shares_uuid=True), "u-1"),
        (filesystem(uuid=None), "/data"),
        (filesystem(uuid=None, mounts=()), "/dev/sda"),
        (None, ""),
    ],
)
def test_fingerprint_without_a_uuid_uses_the_mount_point(
    fs: Filesystem | None, expected: str
) -> None:
    """A device number would change with every boot."""
    assert superblock(fs) == expected

"""Rows of findings and gaps."""

from __future__ import annotations

from dataclasses import replace

from ext4audit.renderers.shared.rows import gaps, rows, where
from support.formats.sample_reports import (
    FLEET,
    MURKY,
    NIGHT,
    PROCESSED,
    boot,
    md127,
    murky_report,
    night_report,
)


def test_findings_are_sorted_from_worst_to_mildest() -> None:
    """Rows have the host, the rule, the subject and the state."""
    assert NIGHT.report is not None
    assert PROCESSED.report is not None
    assert [r.rule.code for r in rows("db1", NIGHT.report)] == ["DUR001", "LAY001"]
    found = {row.rule.code: row.state for row in rows("db9", PROCESSED.report)}
    expected = {"DUR001": "suppressed", "LAY001": "known", "KRN003": "active", "PRF002": "active"}
    assert found == expected


def test_a_finding_that_is_suppressed_and_known_is_suppressed() -> None:
    """The reason of a suppression precedes the baseline."""
    assert PROCESSED.report is not None
    (row,) = [r for r in rows("db9", PROCESSED.report) if r.rule.code == "DUR001"]
    assert replace(row, finding=row.finding._replace(known=True)).state == "suppressed"


def test_a_subject_is_named_by_device_and_mount_point() -> None:
    """The host has no device."""
    assert where(md127("/srv/a")) == "/dev/md127 on /srv/a"
    assert where(replace(boot(), mounts=())) == "/dev/nvme0n1p1"
    assert where(None) == "the host"


def test_gaps_have_what_is_unknown_and_a_hint() -> None:
    """Gaps of the host stand first; a rule that raised has the last line of its traceback."""
    found = [(g.rule.code if g.rule else "", g.text, g.hint) for g in gaps("m", murky_report())]
    assert found[:3] == [
        ("", "the mount table of PID 1 (timed out: after 10 s)", ""),
        ("CAP001", "something (permission denied)", "run as root"),
        ("HLT009", "stopped with an error: KeyError: 'sd'", ""),
    ]


def test_only_an_incomplete_report_has_gaps() -> None:
    """A complete report has none."""
    for host_ in FLEET:
        if host_.report is not None:
            assert bool(gaps("x", host_.report)) is not host_.report.complete
    assert MURKY.report is not None
    assert not MURKY.report.complete
    assert not gaps("db1", night_report())

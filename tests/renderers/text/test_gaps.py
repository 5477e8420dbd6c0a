"""Gaps in the text report: grouped by what to do, and with -v by what is unknown."""

from __future__ import annotations

import pytest

from ext4audit.evidence import Unknown, Why
from ext4audit.facts.host import Filesystem
from ext4audit.finding import Severity
from ext4audit.renderers import Page
from ext4audit.renderers.text import render_report
from ext4audit.report import Outcome, Report, Verdict
from support.builders import UNREAD, filesystem, host, unknown
from support.formats.sample_reports import as_text, buggy, inodes, report

AS_ROOT = "run as root"
WITH_COLON = "run as root: lsblk then reads the devices"
CAPTURE = "capture again"


def unread_filesystems(count: int) -> list[Filesystem]:
    """Build filesystems whose superblock could not be read."""
    return [
        filesystem(uuid=f"u{number}", device=f"/dev/sd{number}", superblock=UNREAD)
        for number in range(count)
    ]


def with_gaps(*hints: str, gaps: tuple[Unknown, ...] = ()) -> Report:
    """Return a report in which each hint belongs to a check that lacks evidence."""
    fs = filesystem()
    verdicts = [
        Verdict(inodes, fs.id, Outcome.UNDETERMINED, unknowns=(unknown(f"fact {n}", hint=hint),))
        for n, hint in enumerate(hints)
    ]
    return report(host(fs, gaps=gaps))._replace(verdicts=tuple(verdicts))


GAP = Unknown("the mount table", Why.DENIED, "", AS_ROOT)
MANY = (CAPTURE, AS_ROOT, AS_ROOT, "mount /sys", "a", "b", AS_ROOT)


@pytest.mark.parametrize(
    ("of", "lines"),
    [
        (with_gaps(AS_ROOT), ["Not determined: 1 check, 1 filesystem; run as root."]),
        (
            with_gaps(AS_ROOT, AS_ROOT, AS_ROOT),
            ["Not determined: 3 checks, 1 filesystem; run as root."],
        ),
        (
            with_gaps(WITH_COLON),
            [f"Not determined: 1 check, 1 filesystem; {WITH_COLON}."],
        ),
        (
            with_gaps(CAPTURE, AS_ROOT, AS_ROOT),
            [
                "Not determined:",
                "  ? run as root: 2 checks, 1 filesystem",
                "  ? capture again: 1 check, 1 filesystem",
            ],
        ),
        (
            with_gaps(*MANY),
            [
                "Not determined:",
                "  ? run as root: 3 checks, 1 filesystem",
                "  ? capture again: 1 check, 1 filesystem",
                "  ? mount /sys: 1 check, 1 filesystem",
                "    2 more: -v",
            ],
        ),
        (
            with_gaps("", CAPTURE, CAPTURE),
            [
                "Not determined:",
                "  ? capture again: 2 checks, 1 filesystem",
                "  ? fact 0 (permission denied): 1 check, 1 filesystem",
            ],
        ),
        (
            with_gaps(CAPTURE, CAPTURE, AS_ROOT, gaps=(GAP,)),
            [
                "Not determined:",
                "  ? run as root: part of the host was not audited, 1 check, 1 filesystem",
                "  ? capture again: 2 checks, 1 filesystem",
            ],
        ),
        (
            report(host(*unread_filesystems(5)), inodes),
            ["Not determined: 5 checks, 5 filesystems; run as root."],
        ),
        (
            report(host(*unread_filesystems(5)), buggy),
            [
                (
                    "Not determined: HLT009 rule-with-a-bug stopped with an error on /dev/sd0, "
                    "/dev/sd1, /dev/sd2 and 2 more: KeyError: 'sda' (a bug in ext4audit)."
                ),
            ],
        ),
    ],
)
def test_gaps_are_grouped_by_hint(of: Report, lines: list[str]) -> None:
    """The most useful hint is first, above a summary that reads incomplete."""
    assert as_text(of).split("\n")[1:-2] == lines
    assert as_text(of).endswith("; incomplete.\n")


def test_complete_report_has_no_gaps() -> None:
    """This includes reports with findings."""
    assert "determined" not in as_text(report(host(filesystem()), inodes))


def test_check_with_two_unknowns_counts_once() -> None:
    """Two unreadable superblocks are one reason to run as root."""
    made = with_gaps(AS_ROOT)
    twice = made.verdicts[0]._replace(unknowns=made.verdicts[0].unknowns * 2)
    shown = as_text(made._replace(verdicts=(twice,)))
    assert "Not determined: 1 check, 1 filesystem; run as root.\n" in shown


def test_verbose_lists_every_gap_once() -> None:
    """Beyond three, the subjects are only counted."""
    shown = as_text(report(host(*unread_filesystems(5)), inodes), verbosity=1)
    assert "    needed by CAP001 on /dev/sd0, /dev/sd1, /dev/sd2 and 2 more\n" in shown
    assert shown.count("run as root") == 1


def test_verbose_shows_tracebacks() -> None:
    """With -v the traceback is shown for a bug report, each line behind a bar."""
    shown = as_text(report(host(filesystem(name="sd")), buggy), verbosity=1)
    assert "      | Traceback (most recent call last):\n" in shown
    assert "      | KeyError: 'sd'\n" in shown


@pytest.mark.parametrize(
    ("threshold", "end"),
    [
        (Severity.MEDIUM, "; complete for medium and worse."),
        (Severity.CRITICAL, "; complete for critical."),
        (Severity.LOW, "; incomplete."),
        (None, "; incomplete."),
    ],
)
def test_completeness_in_the_summary_equals_the_exit_code(
    threshold: Severity | None, end: str
) -> None:
    """A gap of a mild rule is shown, but the summary is complete if the exit code is."""
    mild = inodes._replace(severity=Severity.LOW)
    made = report(host(filesystem(superblock=UNREAD)), mild)
    shown = render_report(made, Page("0", "", threshold))
    assert shown.endswith(f"{end}\n")
    assert "Not determined" in shown

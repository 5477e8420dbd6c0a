from __future__ import annotations

import pytest

from ext4audit.engine import audit
from ext4audit.evidence import UNDATED
from ext4audit.finding import Severity
from ext4audit.renderers import Page
from ext4audit.report import FixedFinding, Report, ReportSource
from support.browser.html_page import fold, known_before, only, read, suppressed, with_class, words
from support.builders import host
from support.formats.sample_reports import (
    barriers,
    hotspot,
    md127,
    murky_report,
    night_report,
    old_kernel,
    report,
    root,
)


@pytest.mark.parametrize(
    ("of", "threshold", "lenient", "expected"),
    [
        (night_report(), Severity.MEDIUM, False, "Failed: 2 findings at medium or worse."),
        (night_report(), None, False, "Complete. No severity fails this audit."),
        (report(host(root()), barriers), Severity.LOW, False, "Passed: complete"),
        (report(host(), old_kernel), Severity.MEDIUM, False, "Passed: complete"),
        (murky_report(), Severity.MEDIUM, False, "Incomplete: no findings at medium or worse"),
        (murky_report(), Severity.MEDIUM, True, "Incomplete: no findings at medium or worse"),
        (suppressed(report(host(md127()), hotspot), "LAY001"), Severity.MEDIUM, False, "Passed"),
    ],
)
def test_the_banner_says_what_the_exit_code_says(
    of: Report, threshold: Severity | None, *, lenient: bool, expected: str
) -> None:
    """The banner reads failed, incomplete or passed; an incomplete audit never reads as passed."""
    page = Page("1", "t", threshold=threshold, allow_incomplete=lenient)
    assert words(only(with_class(read(of, page=page), "banner"))).startswith(expected)


@pytest.mark.parametrize(
    ("taken_at", "shown"),
    [("2026-11-21T05:56:57Z", "taken at 2026-11-21T05:56:57Z"), (UNDATED, "undated")],
)
def test_the_time_of_an_undated_archive_is_not_1970(taken_at: str, shown: str) -> None:
    """An archive without a date is shown as undated."""
    page = words(read(report(host(taken_at=taken_at))))
    assert f"), {shown}" in page
    assert "1970" not in page


def test_a_baseline_shows_what_it_knew_and_what_is_fixed() -> None:
    """Known findings are folded and marked; fixed findings are listed."""
    gone = FixedFinding("DUR002", "/data", "barrier", "Barriers were hidden.")
    known_ = known_before(night_report())._replace(fixed=(gone,), notices=("CAP001 is unused",))
    page = read(known_)
    assert "In the baseline." in words(fold(page, "2 findings suppressed or in the baseline"))
    fixed = fold(page, "1 finding of the baseline fixed")
    assert "DUR002 on /data: Barriers were hidden." in words(fixed)
    assert "CAP001 is unused." in words(fold(page, "Notices on the policy file"))
    assert words(only(with_class(page, "banner"))).startswith("Passed")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (report(host()), "There is no ext4 filesystem on this host: nothing to audit."),
        (
            report(host(gaps=murky_report().host.gaps)),
            "No ext4 filesystem could be seen on this host.",
        ),
    ],
)
def test_no_filesystem_is_not_the_same_as_none_seen(of: Report, expected: str) -> None:
    """If the host has a gap, the report does not claim that there is no filesystem."""
    assert expected in words(read(of))


def test_an_image_is_not_called_a_host() -> None:
    """A filesystem in an image file is titled with the file's name instead of a host name."""
    page = read(audit(ReportSource("image", "disk.img"), host(root(), name="disk.img"), [barriers]))
    assert words(next(page.iter("dt"))) == "Image"


def test_a_plan_is_not_called_a_host() -> None:
    """Readers must not look for a filesystem that does not exist yet."""
    page = read(audit(ReportSource("plan", "/dev/md0 on /data"), host(root()), [barriers]))
    assert "/dev/md0 on /data: does not exist yet, audited as planned" in words(page)

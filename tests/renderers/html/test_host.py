from __future__ import annotations

import pytest

from ext4audit.engine import audit
from ext4audit.evidence import UNDATED
from ext4audit.finding import Severity
from ext4audit.renderers import Page
from ext4audit.report import FixedFinding, Report, ReportSource
from support.browser.html_page import (
    details_element,
    only,
    rendered,
    text_of,
    with_class,
    with_known_findings,
    with_suppressed_rule,
)
from support.builders import host
from support.formats.sample_reports import (
    barriers,
    critical_report,
    hotspot,
    incomplete_report,
    md127,
    old_kernel,
    report,
    root,
)


@pytest.mark.parametrize(
    ("of", "threshold", "lenient", "expected"),
    [
        (critical_report(), Severity.MEDIUM, False, "Failed: 2 findings at medium or worse."),
        (critical_report(), None, False, "Complete. No severity fails this audit."),
        (report(host(root()), barriers), Severity.LOW, False, "Passed: complete"),
        (report(host(), old_kernel), Severity.MEDIUM, False, "Passed: complete"),
        (incomplete_report(), Severity.MEDIUM, False, "Incomplete: no findings at medium or worse"),
        (incomplete_report(), Severity.MEDIUM, True, "Incomplete: no findings at medium or worse"),
        (
            with_suppressed_rule(report(host(md127()), hotspot), "LAY001"),
            Severity.MEDIUM,
            False,
            "Passed",
        ),
    ],
)
def test_banner_equals_the_exit_code(
    of: Report, threshold: Severity | None, *, lenient: bool, expected: str
) -> None:
    """The banner reads failed, incomplete or passed; an incomplete audit never reads as passed."""
    page = Page("1", "t", threshold=threshold, allow_incomplete=lenient)
    assert text_of(only(with_class(rendered(of, page=page), "banner"))).startswith(expected)


@pytest.mark.parametrize(
    ("taken_at", "shown"),
    [("2026-11-21T05:56:57Z", "taken at 2026-11-21T05:56:57Z"), (UNDATED, "undated")],
)
def test_undated_archive_is_shown_as_undated(taken_at: str, shown: str) -> None:
    """An archive without a date is shown as undated."""
    page = text_of(rendered(report(host(taken_at=taken_at))))
    assert f"), {shown}" in page
    assert "1970" not in page


def test_known_and_fixed_findings_of_a_baseline() -> None:
    """Known findings are folded and marked; fixed findings are listed."""
    gone = FixedFinding("DUR002", "/data", "barrier", "Barriers were hidden.")
    known_ = with_known_findings(critical_report())._replace(
        fixed=(gone,), notices=("CAP001 is unused",)
    )
    page = rendered(known_)
    assert "In the baseline." in text_of(
        details_element(page, "2 findings suppressed or in the baseline")
    )
    fixed = details_element(page, "1 finding of the baseline fixed")
    assert "DUR002 on /data: Barriers were hidden." in text_of(fixed)
    assert "CAP001 is unused." in text_of(details_element(page, "Notices on the policy file"))
    assert text_of(only(with_class(page, "banner"))).startswith("Passed")


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (report(host()), "There is no ext4 filesystem on this host: nothing to audit."),
        (
            report(host(gaps=incomplete_report().host.gaps)),
            "No ext4 filesystem could be seen on this host.",
        ),
    ],
)
def test_host_without_filesystems_and_host_with_a_gap(of: Report, expected: str) -> None:
    """If the host has a gap, the report does not claim that there is no filesystem."""
    assert expected in text_of(rendered(of))


def test_image_is_not_called_a_host() -> None:
    """A filesystem in an image file is titled with the file's name instead of a host name."""
    page = rendered(
        audit(ReportSource("image", "disk.img"), host(root(), name="disk.img"), [barriers])
    )
    assert text_of(next(page.iter("dt"))) == "Image"


def test_plan_is_not_called_a_host() -> None:
    """Readers must not look for a filesystem that does not exist yet."""
    page = rendered(audit(ReportSource("plan", "/dev/md0 on /data"), host(root()), [barriers]))
    assert "/dev/md0 on /data: does not exist yet, audited as planned" in text_of(page)

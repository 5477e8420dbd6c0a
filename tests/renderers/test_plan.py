"""A plan in text, JSON and Markdown: the report, what was assumed, and the lines to use."""

from __future__ import annotations

import json

import jsonschema
import pytest

from ext4audit.renderers import json_v1, markdown
from ext4audit.renderers import text as text_format
from ext4audit.renderers.json_v1 import schema_text
from ext4audit.renderers.shared import Page
from ext4audit.report import PlanAdvice, PlanLine, Report, Source
from support.builders import filesystem, host

COMMAND = "mkfs.ext4 -g 32744 -G 16 -E stride=128,stripe_width=1536 /dev/md0"
ADVICE = PlanAdvice(
    basis="simulated",
    assumed=("simulated in memory by mke2fs 1.47.0",),
    changes=("Make it with -g 32744 -G 16",),
    clean=True,
    left=(),
    lines=(PlanLine("mkfs", "make it", COMMAND),),
)
REPORT = Report(Source("plan", "/dev/md0 on /data"), host(filesystem()), ())


def text(advice: PlanAdvice = ADVICE, *, verbosity: int = 0, width: int | None = None) -> str:
    """Render a plan as text without colour."""
    page = Page("0.1.0", "", verbosity=verbosity, width=width)
    return text_format.render_plan(REPORT, advice, page)


def test_text_begins_with_the_plan_and_ends_with_its_lines() -> None:
    """The report of any audit stands between."""
    assert text().splitlines() == [
        "PLAN /dev/md0 on /data is judged as if it ran: nothing of it exists yet.",
        "  simulated in memory by mke2fs 1.47.0",
        "",
        "✓ /dev/sda on /data: ext4, disk; no findings",
        "",
        (
            "host db1: 1 filesystem; no findings; 0 passed, 0 not applicable, 0 undetermined; "
            "audit complete"
        ),
        "",
        (
            "Lines to use, with these changes (judged by the same rules, they leave: nothing of "
            "low severity or worse):"
        ),
        "    * Make it with -g 32744 -G 16.",
        "",
        "  make it:",
        f"    {COMMAND}",
    ]


@pytest.mark.parametrize(
    ("changes", "left", "sentence"),
    [
        (
            (),
            (),
            (
                "Lines to use, as planned (judged by the same rules, they leave: nothing of low "
                "severity or worse)"
            ),
        ),
        (
            (),
            ("PRF002", "3 not determined"),
            (
                "Lines to use, as planned (judged by the same rules, they leave: PRF002, "
                "3 not determined)"
            ),
        ),
    ],
)
def test_text_says_what_the_lines_leave(
    changes: tuple[str, ...], left: tuple[str, ...], sentence: str
) -> None:
    """A plan that needs no change is used as it is."""
    advice = ADVICE._replace(changes=changes, left=left, clean=not left)
    assert sentence in text(advice).splitlines()


def test_commands_are_never_wrapped() -> None:
    """On a narrow terminal, prose is."""
    lines = text(width=40).splitlines()
    assert f"    {COMMAND}" in lines
    assert all(len(line) <= 40 for line in lines if COMMAND not in line)


def test_quiet_is_the_summary_alone() -> None:
    """As of any report."""
    assert len(text(verbosity=-1).splitlines()) == 1


def test_json_has_one_key_more_than_any_report() -> None:
    """It obeys the schema; the lines have stable keys."""
    document = json.loads(json_v1.render_plan(REPORT, ADVICE, Page("0.1.0", "")))
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(document)
    assert list(document)[-1] == "plan"
    assert document["plan"] == {
        "basis": "simulated",
        "assumed": ["simulated in memory by mke2fs 1.47.0"],
        "corrected": True,
        "changes": ["Make it with -g 32744 -G 16"],
        "clean": True,
        "left": [],
        "lines": {"mkfs": COMMAND},
    }
    assert document["source"]["kind"] == "plan"


def test_markdown_ends_with_the_lines_in_blocks() -> None:
    """What was assumed and changed stands before them."""
    shown = markdown.render_plan(REPORT, ADVICE, Page("0.1.0", ""))
    end = shown.partition("### Lines to use\n\n")[2]
    assert end.split("\n\n") == [
        "Assumed:",
        "- simulated in memory by mke2fs 1.47.0",
        "Changes of the plan:",
        "- Make it with -g 32744 -G 16",
        "With these lines, the same rules find: nothing of low severity or worse.",
        "Make it:",
        f"```sh\n{COMMAND}\n```\n",
    ]


def test_markdown_says_what_the_lines_leave() -> None:
    """A plan that needs no change is used as it is."""
    advice = ADVICE._replace(changes=(), left=("PRF002", "3 not determined"), clean=False)
    shown = markdown.render_plan(REPORT, advice, Page("0.1.0", ""))
    left = "With these lines, the same rules find: PRF002, 3 not determined."
    assert f"As planned.\n\n{left}" in shown

"""A plan in each format: the report, the assumptions, and the commands to use."""

from __future__ import annotations

import csv
import json
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from ext4audit.renderers import (
    Audited,
    Page,
    formats,
    gitlab,
    html,
    json_v1,
    junit,
    markdown,
    nagios,
    ndjson,
    sarif,
)
from ext4audit.renderers import (
    csv as csv_format,
)
from ext4audit.renderers import text as text_format
from ext4audit.renderers.json_v1 import schema_text
from ext4audit.report import PlanAdvice, PlanLine, Report, ReportSource
from support.browser.html_page import parsed, text_of, with_class
from support.builders import filesystem, host

COMMAND = "mkfs.ext4 -g 32744 -G 16 -E stride=128,stripe_width=1536 /dev/md0"
ADVICE = PlanAdvice(
    basis="simulated",
    assumed=("simulated in memory by mke2fs 1.47.0",),
    changes=("Create it with -g 32744 -G 16",),
    clean=True,
    left=(),
    lines=(PlanLine("mkfs", "make it", COMMAND),),
)
REPORT = Report(ReportSource("plan", "/dev/md0 on /data"), host(filesystem()), ())


def text(advice: PlanAdvice = ADVICE, *, verbosity: int = 0, width: int | None = None) -> str:
    """Render a plan as text without colour."""
    page = Page("0.1.0", "", verbosity=verbosity, width=width)
    return text_format.render_plan(REPORT, advice, page)


def test_text_begins_with_the_plan_and_ends_with_commands() -> None:
    """The ordinary report is in between."""
    assert text().splitlines() == [
        "PLAN /dev/md0 on /data does not exist yet; it is audited as planned.",
        "  simulated in memory by mke2fs 1.47.0",
        "",
        "1 filesystem: no findings; 0 checks passed; complete.",
        "",
        (
            "Commands to use, with these changes (the same rules then report: nothing of "
            "low severity or worse):"
        ),
        "    * Create it with -g 32744 -G 16.",
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
                "Commands to use, as planned (the same rules then report: nothing of low "
                "severity or worse)"
            ),
        ),
        (
            (),
            ("PRF002", "3 not determined"),
            ("Commands to use, as planned (the same rules then report: PRF002, 3 not determined)"),
        ),
    ],
)
def test_text_lists_findings_that_the_commands_leave(
    changes: tuple[str, ...], left: tuple[str, ...], sentence: str
) -> None:
    """If no change is needed, the commands are given "as planned"."""
    advice = ADVICE._replace(changes=changes, left=left, clean=not left)
    assert sentence in text(advice).splitlines()


def test_commands_are_never_wrapped() -> None:
    """On a narrow terminal, only prose is wrapped."""
    lines = text(width=40).splitlines()
    assert f"    {COMMAND}" in lines
    assert all(len(line) <= 40 for line in lines if COMMAND not in line)


def test_quiet_has_only_the_summary() -> None:
    """The quiet output is that of any report."""
    assert len(text(verbosity=-1).splitlines()) == 1


def test_json_has_the_plan_key() -> None:
    """The document is valid against the schema; the command lines have stable keys."""
    document = json.loads(json_v1.render_plan(REPORT, ADVICE, Page("0.1.0", "")))
    jsonschema.Draft202012Validator(json.loads(schema_text())).validate(document)
    assert list(document)[-1] == "plan"
    assert document["plan"] == {
        "basis": "simulated",
        "assumed": ["simulated in memory by mke2fs 1.47.0"],
        "corrected": True,
        "changes": ["Create it with -g 32744 -G 16"],
        "clean": True,
        "left": [],
        "lines": {"mkfs": COMMAND},
    }
    assert document["source"]["kind"] == "plan"


PAGE = Page("0.1.0", "2026-01-02T03:04:05Z")
HOSTILE = ADVICE._replace(lines=(PlanLine("mkfs", "make\nit", "mkfs\n::error::\x1b | $x `id`"),))
FORMATS = [module for fmt, module in formats().items() if fmt not in {"json", "text"}]


@pytest.mark.parametrize("module", FORMATS)
def test_plan_has_report_and_command(module: str) -> None:
    """The whole command is in the plan, and not in the report alone."""
    fmt = import_module(f"ext4audit.renderers.{module}")
    assert COMMAND in fmt.render_plan(REPORT, ADVICE, PAGE)
    assert COMMAND not in fmt.render([Audited("x", REPORT)], PAGE)


@pytest.mark.parametrize("module", FORMATS)
def test_hostile_command_is_escaped(module: str) -> None:
    """No control character is printed, and no output line starts with a line of the command."""
    shown = import_module(f"ext4audit.renderers.{module}").render_plan(REPORT, HOSTILE, PAGE)
    assert "\x1b" not in shown
    assert "\n::error::" not in shown


def test_ndjson_equals_json() -> None:
    """Both are the same object."""
    line = ndjson.render_plan(REPORT, ADVICE, PAGE)
    assert line.count("\n") == 1
    assert json.loads(line) == json.loads(json_v1.render_plan(REPORT, ADVICE, PAGE))


def test_csv_has_a_row_for_each_line() -> None:
    """The row names the same host as the other rows."""
    text_ = csv_format.render_plan(REPORT, ADVICE, PAGE)
    *_, row = csv.DictReader(StringIO(text_, newline=""), strict=True)
    shown = [row[column] for column in ("host", "kind", "name", "message", "commands", "source")]
    assert shown == ["db1", "plan", "mkfs", "make it", COMMAND, "/dev/md0 on /data"]


def test_sarif_has_properties_and_notifications() -> None:
    """The log remains valid."""
    schema = Path(__file__).parents[1] / "support" / "formats" / "sarif-schema-2.1.0.json"
    log: Any = json.loads(sarif.render_plan(REPORT, ADVICE, PAGE))
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(log)
    (run,) = log["runs"]
    assert run["properties"] == {
        "linesToUse": {"mkfs": COMMAND},
        "changes": ["Create it with -g 32744 -G 16"],
    }
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"] == f"Command to use: make it: {COMMAND}"


def test_junit_has_the_commands_as_output() -> None:
    """The output belongs to the suite, because no case produced it."""
    root = ET.fromstring(junit.render_plan(REPORT, ADVICE, PAGE))  # noqa: S314 - our own output
    assert [each.text for each in root.findall("testsuite/system-out")] == [f"make it: {COMMAND}"]


def test_gitlab_has_an_issue_for_each_line() -> None:
    """The severity of the issue is info."""
    *_, issue = json.loads(gitlab.render_plan(REPORT, ADVICE, PAGE))
    assert (issue["check_name"], issue["severity"]) == ("plan", "info")
    assert issue["description"] == f"Command to use: make it: {COMMAND}"


def test_markdown_has_a_block_for_each_line() -> None:
    """Assumptions and changes precede the blocks."""
    shown = markdown.render_plan(REPORT, ADVICE, PAGE)
    assert "### Assumed\n\n- simulated in memory by mke2fs 1.47.0\n" in shown
    assert shown.endswith(
        "### Commands to use\n\n- Create it with -g 32744 -G 16\n\n"
        "The same rules then report: nothing of low severity or worse.\n\n"
        f"make it:\n\n```sh\n{COMMAND}\n```\n"
    )


def test_nagios_has_the_commands_after_the_first_line() -> None:
    """With -q there is only the first line."""
    _, *lines = nagios.render_plan(REPORT, ADVICE, PAGE).splitlines()
    assert lines == [f"mkfs: {COMMAND}"]
    quiet = nagios.render_plan(REPORT, ADVICE, PAGE._replace(verbosity=-1))
    assert len(quiet.splitlines()) == 1


def test_html_has_the_commands_above_the_findings() -> None:
    """Each command is an element to copy, between the changes and the assumptions."""
    page = parsed(html.render_plan(REPORT, ADVICE, PAGE))
    (section,) = with_class(page, "plan")
    assert [text_of(each) for each in with_class(section, "command")] == [COMMAND]
    assert [text_of(each) for each in section.iter("li")] == [*ADVICE.changes, *ADVICE.assumed]
    assert "The same rules then report: nothing of low severity or worse." in text_of(section)
    assert text_of(page).count("ext4audit: plan for /dev/md0 on /data") == 2

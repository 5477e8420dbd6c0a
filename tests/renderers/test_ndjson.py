"""NDJSON: one line per host."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from ext4audit.renderers import Audited, json_v1
from ext4audit.renderers.json_v1 import schema_text
from ext4audit.renderers.ndjson import render_report, render_unread
from ext4audit.report import Report
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    critical_report,
    hostile_report,
    incomplete_report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts


@pytest.mark.parametrize(
    "of",
    [
        critical_report(),
        incomplete_report(),
        *(hostile_report(name) for name in HOSTILE_NAMES.values()),
    ],
)
def test_line_is_the_json_report(of: Report) -> None:
    """The same object as `--format json`, without a newline inside."""
    line = render_report(of, tool_version="0.1.0")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert line.isascii()
    assert json.loads(line) == json.loads(json_v1.render_report(of, tool_version="0.1.0"))


@some_fixture_hosts(__name__)
def test_the_line_of_every_fixture_host_is_its_json_report(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    test_line_is_the_json_report(report_of(fixture))


def test_line_of_a_source_without_a_report() -> None:
    """The line has the source and the reason, as the schema allows."""
    host = Audited("a\n\udcff", None, "damaged", key="db\udcff")
    line = json.loads(render_unread(host, kind="unreadable", tool_version="1"))
    assert line == {
        "schema_version": "1.1",
        "tool": {"name": "ext4audit", "version": "1"},
        "source": {
            "kind": None,
            "label": "a\n\ufffd",
            "label_b64": "YQr/",
            "taken_at": None,
            "key": "db\ufffd",
            "key_b64": "ZGL/",
            "groups": [],
        },
        "error": {"kind": "unreadable", "message": "damaged"},
    }
    validator = Draft202012Validator(json.loads(schema_text("schema-unread-1.0.json")))
    assert validator.is_valid(line)
    assert not validator.is_valid({**line, "error": {"kind": "odd", "message": ""}})
    assert not validator.is_valid({**line, "source": {"kind": None, "label": "x"}})

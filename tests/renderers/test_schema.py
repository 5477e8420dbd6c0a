from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ext4audit.evidence import Why
from ext4audit.finding import Confidence, Disruption, Phase, Severity
from ext4audit.renderers.json_v1 import render_report, schema_text
from ext4audit.report import ARCHIVES, Outcome, Report
from support.builders import UNREAD, filesystem, host, known, options
from support.formats.sample_reports import (
    HOSTILE_NAMES,
    critical_report,
    edits,
    hostile_report,
    incomplete_report,
    inodes,
    report,
)
from support.hosts.fixture_hosts import report_of, some_fixture_hosts

SCHEMA: Any = json.loads(schema_text())
UNKNOWN_FILESYSTEM = filesystem(
    fstype=UNREAD,
    read_only=UNREAD,
    superblock=UNREAD,
    options=UNREAD,
    fstab=UNREAD,
    stack=UNREAD,
    layout=UNREAD,
)
REPORTS = {
    "night": critical_report(),
    "murky": incomplete_report(),
    "edits": report(host(filesystem()), edits),
    "no ext4": report(host(), inodes),
    "blind": report(host(UNKNOWN_FILESYSTEM, kernel=UNREAD, os=UNREAD), inodes),
    "part of the options": report(host(filesystem(options=known(options(complete=False))))),
    **{name: hostile_report(text) for name, text in HOSTILE_NAMES.items()},
}


def strict(schema: Any) -> Any:
    """Return the schema with every object closed: only described members are allowed."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(each) for key, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def object_schemas(schema: Any) -> list[Any]:
    """Return the schemas of all objects."""
    return [schema, *(each for each in schema["$defs"].values() if each.get("type") == "object")]


def validation_errors(of: Report, schema: Any) -> list[str]:
    """Return the validation errors of a rendered report."""
    document = json.loads(render_report(of, tool_version="0.1.0"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


def test_schema_is_valid() -> None:
    """The shipped file is valid JSON Schema 2020-12 of this version."""
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "https://ext4audit.invalid/schema/1.1/report.json"


def test_all_archive_kinds_are_described() -> None:
    """One of the three archive formats was missing."""
    described = SCHEMA["$defs"]["source"]["properties"]["kind"]["description"]
    assert set(re.findall(r"\w+", described)) >= ARCHIVES


@pytest.mark.parametrize("of", REPORTS.values(), ids=REPORTS)
def test_every_report_matches_the_strict_schema(of: Report) -> None:
    """A report is valid and has no member that the schema does not describe."""
    assert validation_errors(of, strict(SCHEMA)) == []


@some_fixture_hosts(__name__)
def test_every_fixture_host_matches_the_schema(fixture: str) -> None:
    """Fixture hosts combine facts in ways that the strategy does not generate."""
    assert validation_errors(report_of(fixture), strict(SCHEMA)) == []


def test_strict_schema_refuses_unknown_members() -> None:
    """The test above can fail: an undescribed member is an error at any depth."""
    document = json.loads(render_report(critical_report(), tool_version="0.1.0"))
    document["verdicts"][0]["extra"] = 1
    assert not Draft202012Validator(strict(SCHEMA)).is_valid(document)


def test_readers_of_this_version_accept_later_additions() -> None:
    """The shipped schema allows unknown members, with a higher minor version."""
    document = json.loads(render_report(critical_report(), tool_version="0.1.0"))
    document["extra"] = document["verdicts"][0]["extra"] = 1
    document["schema_version"] = "1.7"
    assert Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), "2.0"),
        (("complete",), None),
        (("verdicts", 0, "outcome"), "open"),
        (("verdicts", 0, "findings", 0, "severity"), "urgent"),
        (("filesystems", 0, "options", "mount_table"), None),
        (("filesystems", 0, "device_number"), "sda"),
        (("filesystems", 0, "device_b64"), "not base64!"),
    ],
)
def test_schema_refuses_invalid_values(path: tuple[str | int, ...], value: object) -> None:
    """A wrong version, an unknown value and a null that is not allowed are errors."""
    document = json.loads(render_report(hostile_report("/data"), tool_version="0.1.0"))
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    assert not Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize(
    "described", object_schemas(SCHEMA), ids=lambda each: each["description"][:40]
)
def test_every_member_is_described_and_required(described: Any) -> None:
    """Each member has a description, or its type has one, and every member is required."""
    assert described["required"] == list(described["properties"])
    for member in described["properties"].values():
        target = SCHEMA["$defs"][member["$ref"].rpartition("/")[2]] if "$ref" in member else member
        assert target["description"].endswith(".")


@pytest.mark.parametrize(
    ("definition", "member", "values"),
    [
        ("verdict", "outcome", Outcome),
        ("finding", "severity", Severity),
        ("finding", "confidence", Confidence),
        ("remedy", "disruption", Disruption),
        ("step", "phase", Phase),
        ("unknown", "why", Why),
    ],
)
def test_enumerations_of_schema_and_code_are_equal(
    definition: str, member: str, values: Any
) -> None:
    """The values that the schema allows are those that the code can write."""
    allowed = SCHEMA["$defs"][definition]["properties"][member]["enum"]
    assert allowed == [word.value for word in values]

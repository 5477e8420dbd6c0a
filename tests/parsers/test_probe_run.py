from __future__ import annotations

import json
from typing import Any

import pytest

from ext4audit.facts.measurement import (
    Figure,
    MeasuredFilesystem,
    Measurement,
    MemberFigures,
    ProbeRun,
    ProbeVerdict,
)
from ext4audit.parsers.probe_run import parse_probe_run
from ext4audit.renderers.probe import render_json

RUN = ProbeRun(
    mode="probe",
    taken_at="2026-01-02T03:04:05Z",
    host="db1",
    boot_id="f3c1",
    directory="/data",
    filesystem=MeasuredFilesystem(
        "11111111-2222", "/dev/sda", "6.1.0-18-amd64", (("barrier", "barrier"),)
    ),
    seconds=1.5,
    written_bytes=4096,
    results=(
        Measurement(
            "fsync",
            "DUR001",
            ProbeVerdict.HEALTHY,
            "each fsync flushed sda",
            "at least 1",
            (Figure("fsyncs", 100), Figure("flushes_per_fsync_sda", 2.01), Figure("x", None)),
        ),
    ),
)
NAMED = MemberFigures("sda", 0, 0, None, None, None)


def document(**changes: Any) -> dict[str, Any]:
    """Return the JSON of the run, changed; a key "a__b" is b of a, and "0" the first result."""
    found: dict[str, Any] = json.loads(render_json(RUN, tool_version="0.2.0"))
    for path, value in changes.items():
        holder: Any = found
        *folders, last = path.split("__")
        for each in folders:
            holder = holder["results"][0] if each == "first" else holder[each]
        holder[last] = value
    return found


def test_the_output_of_a_probe_is_read() -> None:
    """Only the names of the members are read; their figures are for people."""
    measured = MemberFigures("sda", 1, 512, 0, 0.5, 0.25, 1.0, 1.0)
    with_members = RUN._replace(results=(RUN.results[0]._replace(members=(measured,)),))
    named = RUN._replace(results=(RUN.results[0]._replace(members=(NAMED,)),))
    assert parse_probe_run(render_json(with_members, tool_version="0.2.0")) == named
    unknown = RUN._replace(boot_id="", filesystem=RUN.filesystem._replace(uuid=""))
    assert parse_probe_run(render_json(unknown, tool_version="0.2.0")) == unknown


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "scan"}, "kind"),
        ({"schema_version": "2.0"}, "schema_version"),
        ({"schema_version": 1}, "schema_version"),
        ({"mode": "guess"}, "none of probe, observe"),
        ({"taken_at": "yesterday"}, "not a time"),
        ({"filesystem": []}, "filesystem is not an object"),
        ({"filesystem__uuid": 1}, "uuid is not a text"),
        ({"filesystem__options": {"barrier": 1}}, "barrier is not a text"),
        ({"kernel_release": None}, "kernel_release"),
        ({"results": {}}, "not a list"),
        ({"results": [1]}, "not an object"),
        ({"results": [{}] * 5}, "at most 4"),
        ({"first__members": {}}, "members are not a list"),
        ({"first__members": [{}] * 4097}, "at most 4096"),
        ({"first__members": [{"name": 1}]}, "name is not a text"),
        ({"first__probe": "magic"}, "none of fsync"),
        ({"first__rule": "PRF001"}, "measures DUR001"),
        ({"first__verdict": "fine"}, "fine"),
        ({"first__why": "x" * 4097}, "at most 4096"),
        ({"first__why": "\udc80"}, "surrogates"),
        ({"first__measured": {"a": "1"}}, "a is not a finite number"),
        ({"first__measured": {"a": True}}, "a is not a finite number"),
        ({"first__measured": {str(n): 1 for n in range(4097)}}, "4096 entries"),
        ({"seconds": "1"}, "seconds"),
        ({"written_bytes": []}, "written_bytes"),
    ],
)
def test_anything_else_is_refused(changes: dict[str, Any], reason: str) -> None:
    """A file that was not printed by a probe raises ValueError with the reason."""
    with pytest.raises(ValueError, match=reason):
        parse_probe_run(json.dumps(document(**changes)))


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", "null", '{"kind": NaN}', "[" * 10])
def test_a_text_that_is_not_a_json_object_is_refused(text: str) -> None:
    """Neither is JSON that is not an object."""
    with pytest.raises(ValueError, match=r"."):
        parse_probe_run(text)


def test_an_infinite_number_is_refused() -> None:
    """Python reads 1e999 as infinity."""
    text = json.dumps(document()).replace('"seconds": 1.5', '"seconds": 1e999')
    with pytest.raises(ValueError, match="finite"):
        parse_probe_run(text)

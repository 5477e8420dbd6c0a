"""`ext4audit scan`, run as by a user, on the host that runs the tests."""

from __future__ import annotations

import json
import os
import re
import tempfile
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ext4audit.rules import all_rules, default_rules
from support.examples import sample_of
from support.program import root_fstype, run, run_as_nobody

FINISHED = {0, 1, 3}
CODES = [rule.code for rule in default_rules()]
IS_EXT4 = root_fstype() in {"ext2", "ext3", "ext4"}
STEADY_TARGETS = ["/"] if IS_EXT4 else []
"""Targets that give two scans the same result while other tests mount filesystems."""
SUMMARY = re.compile(
    r"\S+: \d+ filesystems?: .*; \d+ checks? passed(, \d+ stopped with an error)?; "
    r"(complete|complete for medium and worse|incomplete)\.\n"
)


@cache
def scan_json(*arguments: str) -> Any:
    """Scan this host and return the JSON report."""
    done = run("scan", "-f", "json", *arguments)
    assert done.returncode in FINISHED, done.stderr
    return json.loads(done.stdout)


def test_scan_finishes_on_any_host() -> None:
    """Findings are on standard output, and standard error is empty."""
    done = run("scan")
    assert done.returncode in FINISHED
    assert done.stderr == ""
    assert done.stdout.endswith("\n")
    assert "\x1b" not in done.stdout


def test_quiet_is_one_line() -> None:
    """It has host, filesystems, findings, verdicts and completeness."""
    done = run("scan", "-q")
    assert done.returncode in FINISHED
    assert SUMMARY.fullmatch(done.stdout)
    assert done.stderr == ""


def test_verbose_adds_reasons() -> None:
    """It adds reasons why rules do not apply to what the plain report says."""
    if not IS_EXT4:
        pytest.skip(f"/ is {root_fstype()}: there may be no ext4 filesystem to say more of")
    assert len(run("scan", "-v", "/").stdout) > len(run("scan", "/").stdout)


def test_json_matches_the_schema() -> None:
    """The output of `scan -f json` on this host matches `schema`."""
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator(schema).validate(scan_json())


def test_json_is_ascii_and_ends_with_a_newline() -> None:
    """A machine format does not depend on the locale."""
    done = run("scan", "-f", "json", env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.isascii()
    assert done.stdout.endswith("}\n")


@pytest.mark.usefixtures("steady_limits")
def test_text_and_json_have_the_same_exit_code() -> None:
    """All formats share one function: the text report exits as the JSON report implies."""
    report = scan_json("--fail-on", "info", *STEADY_TARGETS)
    found = sum(report["summary"]["findings"].values())
    expected = 1 if found else 0 if report["complete"] else 3
    assert run("scan", "-q", "--fail-on", "info", *STEADY_TARGETS).returncode == expected
    without = 0 if report["complete"] else 3
    assert run("scan", "-q", "--fail-on", "never", *STEADY_TARGETS).returncode == without
    lenient = run("scan", "-q", "--fail-on", "never", "--allow-incomplete", *STEADY_TARGETS)
    assert lenient.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--select", "LAY001"], ["LAY001"]),
        (["--select", "lay001,dur001"], ["DUR001", "LAY001"]),
        (["--select", "DUR001", "--select", "LAY001"], ["DUR001", "LAY001"]),
        (["--select", "barrier-disabled , LAY001"], ["DUR001", "LAY001"]),
        (["--ignore", "DUR,LAY001"], [c for c in CODES if c[:3] != "DUR" and c != "LAY001"]),
        ([], CODES),
    ],
    ids=" ".join,
)
def test_only_selected_rules_run(arguments: list[str], expected: list[str]) -> None:
    """Each selected rule gives each subject a verdict, and no other rule does."""
    report = scan_json(*arguments)
    subjects = [fs["id"] for fs in report["filesystems"]]
    judged = [(verdict["filesystem"], verdict["rule"]) for verdict in report["verdicts"]]
    for subject in subjects:
        of_subject = [rule for where, rule in judged if where == subject]
        assert of_subject == [code for code in expected if code in of_subject]
    assert {rule for _, rule in judged} <= set(expected)
    scopes = {rule.code: rule.scope.value for rule in all_rules()}
    counts = {"filesystem": len(subjects), "host": 1}
    assert len(judged) == sum(counts[scopes[code]] for code in expected)


LOCALES = (
    {"LANG": "C"},
    {"LC_ALL": "C"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LANG": "C", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "latin-1"},
)


@pytest.mark.parametrize(
    ("env", "arguments"),
    sample_of(product(LOCALES, [["scan", "-v"], ["explain", "LAY001"], ["scan", "-h"]]), "locales"),
    ids=str,
)
def test_any_locale_works(env: dict[str, str], arguments: list[str]) -> None:
    """Characters that the stream cannot encode are replaced."""
    done = run(*arguments, env=env, errors="surrogateescape")
    assert done.returncode in FINISHED
    assert done.stderr == ""


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=str,
)
def test_ascii_stream_gets_ascii_glyphs(env: dict[str, str]) -> None:
    r"""The glyphs are replaced by letters, and not escaped as `\u25c7`."""
    done = run("scan", env=env)
    assert done.returncode in FINISHED
    assert done.stdout.isascii()
    assert r"\u" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "env", "colored"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"CLICOLOR_FORCE": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["-f", "json"], {"FORCE_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_pipe_is_coloured_only_on_request(
    arguments: list[str], env: dict[str, str], colored: bool
) -> None:
    """The order is: option, NO_COLOR, FORCE_COLOR and CLICOLOR_FORCE; JSON has no colours."""
    done = run("scan", *arguments, env=env)
    assert done.returncode in FINISHED
    assert ("\x1b[" in done.stdout) is colored


def test_shortest_timeout_finishes() -> None:
    """Commands without time are gaps with a reason, not crashes."""
    report = scan_json("--timeout", "0.000001")
    assert len(report["verdicts"]) >= len(report["filesystems"])


def test_scan_without_privileges_finishes() -> None:
    """The same subjects are judged, with as many verdicts as for root."""
    done = run_as_nobody("scan", "-f", "json", *STEADY_TARGETS)
    assert done.returncode in FINISHED, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
    mine = scan_json(*STEADY_TARGETS)
    assert [fs["device"] for fs in report["filesystems"]] == [
        fs["device"] for fs in mine["filesystems"]
    ]
    assert len(report["verdicts"]) == len(mine["verdicts"])


def test_gaps_without_privileges_have_hints() -> None:
    """Evidence that root could see has a hint that names root."""
    report = json.loads(run_as_nobody("scan", "-f", "json").stdout)
    gaps = [*report["gaps"], *(gap for v in report["verdicts"] for gap in v["unknowns"])]
    for gap in gaps:
        if gap["why"] == "denied":
            assert "root" in gap["hint"], gap


def test_device_without_privileges_is_a_usage_error() -> None:
    """A device that only root may open is a usage error with the remedy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        device = folder / "device"
        try:
            os.mknod(device, 0o060600, os.makedev(7, 200))
        except PermissionError:
            pytest.skip("making a device node is not allowed here")
        done = run_as_nobody("scan", str(device))
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch(
        rf"ext4audit: {device}: cannot be read: .*; run as root", done.stderr.splitlines()[0]
    )


def test_selection_without_rules_is_refused() -> None:
    """An audit without rules would always be clean."""
    done = run("scan", "--select", "DUR", "--ignore", "DUR")
    assert (done.returncode, done.stdout) == (2, "")
    assert "leave no rule" in done.stderr

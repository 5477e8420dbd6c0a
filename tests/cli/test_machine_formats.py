"""`scan -f github|markdown|prometheus|nagios|csv`: files, exit codes, summaries; `schema`."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ext4audit.renderers.nagios import STATUS
from support.formats.actions_runner import command_in
from support.hosts.fixture_hosts import HOSTS
from support.program import run

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")
FORMATS = ("github", "markdown", "prometheus", "nagios", "csv")


@pytest.fixture
def invalid_snapshot(tmp_path: Path) -> str:
    """Write a file that is not a snapshot."""
    path = tmp_path / "garbage.tar.gz"
    path.write_bytes(b"garbage")
    return str(path)


@pytest.mark.parametrize(
    ("sources", "more"),
    [
        *((each, ()) for each in ("healthy", "nobarrier", "garbage", "both", "all", "garbages")),
        ("nobarrier", ("--fail-on", "never")),
        ("all", ("--fail-on", "never", "-q")),
    ],
)
def test_nagios_exit_code_matches_its_status(
    sources: str, more: tuple[str, ...], invalid_snapshot: str
) -> None:
    """This holds for one and many hosts, even if some or all of them could not be read."""
    named = {
        "healthy": [HEALTHY],
        "nobarrier": [NOBARRIER],
        "garbage": [invalid_snapshot],
        "both": [HEALTHY, NOBARRIER],
        "all": [HEALTHY, NOBARRIER, invalid_snapshot],
        "garbages": [invalid_snapshot, invalid_snapshot],
    }[sources]
    done = run("scan", *more, *(f"--from={source}" for source in named), "-f", "nagios")
    name, status, dash, _ = done.stdout.split(" ", 3)
    assert (name, dash) == ("EXT4AUDIT", "-")
    assert status == STATUS[done.returncode]


def test_github_step_summary_is_appended(tmp_path: Path) -> None:
    """The log has the commands; the summary has everything, after the existing text."""
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n\n")
    env = {"GITHUB_STEP_SUMMARY": str(summary)}
    done = run("scan", "--from", NOBARRIER, "-f", "github", env=env)
    commands = [command_in(line) for line in done.stdout.splitlines()]
    assert next(command.name for command in commands if command) == "error"
    text = summary.read_text()
    assert text.startswith("# Before\n\n## Host lvm-linear-nobarrier\n")
    assert "### CRITICAL DUR001" in text
    run("scan", "--from", NOBARRIER, "-f", "markdown", env=env)
    assert summary.read_text() == text


@pytest.mark.parametrize("fmt", ["text", "nagios"])
def test_quiet_fleet_is_one_line(fmt: str, invalid_snapshot: str) -> None:
    """Both streams together have one line."""
    sources = [f"--from={each}" for each in (HEALTHY, NOBARRIER, invalid_snapshot)]
    done = run("scan", "-q", *sources, "-f", fmt)
    assert len((done.stdout + done.stderr).splitlines()) == 1


def test_github_step_summary_of_a_plan(tmp_path: Path) -> None:
    """The commands that the runner reads have them, too."""
    summary = tmp_path / "summary.md"
    plan = ("plan", "--size", "100G", "-f", "github")
    done = run(*plan, env={"GITHUB_STEP_SUMMARY": str(summary)})
    (lines,) = [line for line in done.stdout.splitlines() if "title=commands to use" in line]
    assert "mkfs.ext4 " in lines
    assert "### Commands to use" in summary.read_text()
    assert "step summary" in done.stdout
    assert "step summary" not in run(*plan).stdout


def test_one_audit_writes_all_formats(tmp_path: Path, invalid_snapshot: str) -> None:
    """Each format goes to its file, and names the unreadable host."""
    pairs = [word for fmt in FORMATS for word in ("-f", fmt, "-o", str(tmp_path / fmt))]
    done = run("scan", f"--from={NOBARRIER}", f"--from={invalid_snapshot}", *pairs)
    assert (done.returncode, done.stdout) == (1, "")
    texts = {fmt: (tmp_path / fmt).read_bytes().decode() for fmt in FORMATS}
    assert all("garbage" in text and "DUR001" in text for text in texts.values())
    rows = csv.DictReader(StringIO(texts["csv"], newline=""), strict=True)
    assert {row["kind"] for row in rows} >= {"finding", "unread"}
    families = {family.name for family in text_string_to_metric_families(texts["prometheus"])}
    assert {"ext4audit_finding_info", "ext4audit_host_readable", "ext4audit_build_info"} <= families


def test_schema_is_valid() -> None:
    """It declares draft 2020-12, and satisfies that draft's own schema."""
    done = run("schema")
    assert done.returncode == 0
    assert done.stderr == ""
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_schema_refuses_invalid_reports() -> None:
    """A schema that accepts everything would be useless."""
    validator = jsonschema.Draft202012Validator(json.loads(run("schema").stdout))
    assert not validator.is_valid({})
    assert not validator.is_valid([])

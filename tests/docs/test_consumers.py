"""The CI and monitoring examples of docs/ci.md run, and satisfy the rules of their consumers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families

from support.docs.pages import ROOT
from support.docs.sandbox import SANDBOX_HOSTS
from support.hosts.fixture_hosts import HOSTS
from support.packages.action import TEMPLATE, Runner, read_yaml
from support.timing import PATIENCE_SECONDS

CI = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
DATA = ROOT / "tests" / "support" / "formats"
INSTALLED = "/usr/local/bin/ext4audit"
PERFDATA = re.compile(r"'?[^'=]+'?=[0-9.]+[a-zA-Z%]*(;[0-9.]*){0,4}")


def with_of(job: str) -> dict[str, str]:
    """Return the inputs that the job on the page gives the action."""
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", CI, re.DOTALL) if job in text)
    (steps,) = (each["steps"] for each in yaml.safe_load(block)["jobs"].values())
    (given,) = (step["with"] for step in steps if job in step.get("uses", ""))
    return dict(given)


def command(word: str) -> str:
    """Return the only command of the page's examples that contains a word."""
    blocks = re.findall(r"```(?:yaml|cron|ini)\n(.*?)```", CI, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if "ext4audit scan" in line]
    (found,) = [line for line in lines if word in line]
    return str(found[found.index("ext4audit scan") :])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a directory with the snapshots of two hosts, like a repository of snapshots."""
    for fixture in SANDBOX_HOSTS:
        shutil.copytree(HOSTS / fixture / "snapshot", tmp_path / "hosts" / fixture)
    return tmp_path


def run(line: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command line with the program on its PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", line],
        cwd=where,
        env={**os.environ, "PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


def test_the_github_job_annotates_and_uploads_a_valid_log(repository: Path) -> None:
    """The result is 1, because LAY001 is found; the log is valid against SARIF's schema."""
    summary = repository / "summary.md"
    (repository / "ext4audit").mkdir()
    (repository / "ext4audit" / "bin").symlink_to(Path(sys.executable).parent)
    runner = Runner(repository, with_of("actions/ext4audit@"))
    done = runner.step("Scan", GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert runner.step("Result").returncode == 1
    assert "::warning " in done.stdout or "::error " in done.stdout
    assert "LAY001" in summary.read_text(encoding="utf-8")
    log = json.loads((repository / "ext4audit.sarif").read_text(encoding="utf-8"))
    schema = json.loads((DATA / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.validate(log, schema)
    assert "LAY001" in {result["ruleId"] for result in log["runs"][0]["results"]}


def test_the_gitlab_job_writes_what_gitlab_reads(repository: Path) -> None:
    """JUnit covers two hosts, and Code Quality has relative paths and unique fingerprints."""
    job = read_yaml(TEMPLATE)["ext4audit"]
    (line,) = job["script"]
    assert run(line, repository, **job["variables"]).returncode == 1
    reports = job["artifacts"]["reports"]
    junit = JUnitXml.fromfile(str(repository / reports["junit"]))
    cases = [case for suite in junit for case in suite]
    assert len(cases) > 2 * 20
    quality = json.loads((repository / reports["codequality"]).read_text(encoding="utf-8"))
    assert len({entry["fingerprint"] for entry in quality}) == len(quality) > 0
    assert not any(entry["location"]["path"].startswith("/") for entry in quality)


def test_the_cron_line_feeds_the_textfile_collector(tmp_path: Path) -> None:
    """The command exits 0, and the file has the series that says whether the audit is complete."""
    line = command("prometheus").replace("/var/lib/prometheus/node-exporter", str(tmp_path))
    done = run(line, tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    text = (tmp_path / "ext4audit.prom").read_text(encoding="utf-8")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["ext4audit_host_audit_complete"].samples[0].value in {0, 1}
    assert not any(s.timestamp for family in families.values() for s in family.samples)


def test_the_nagios_command_answers_as_a_plugin(tmp_path: Path) -> None:
    """The first line has the status of the exit code, and perfdata allowed by the guidelines."""
    done = run(command("nagios"), tmp_path)
    status = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[done.returncode]
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"EXT4AUDIT {status}"), first
    assert all(PERFDATA.fullmatch(each) for each in first.partition("|")[2].split())


def test_the_installed_path_is_named_where_no_path_is_searched() -> None:
    """Cron and NRPE use a different PATH."""
    for language in ("cron", "ini"):
        (block,) = re.findall(rf"```{language}\n(.*?)```", CI, re.DOTALL)
        assert INSTALLED in block

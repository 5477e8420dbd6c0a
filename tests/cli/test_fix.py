"""`ext4audit fix`: what it prints, where to, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS
from support.program import run

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")
SHELLS = [
    [path, *arguments]
    for name, *arguments in (("dash",), ("bash",), ("busybox", "ash"))
    if (path := shutil.which(name))
]
ALL_HOSTS = sorted(path.parent.name for path in HOSTS.glob("*/snapshot"))
OPTIONAL = "--exclude=SC2250,SC2310,SC2312,SC2249,SC2248"
"""As for the collector: matters of taste, and warnings about `set -e`, which is not used."""


def script_of(host: str, *options: str) -> str:
    """Return the script for a captured host, with all possible changes."""
    source = str(HOSTS / host / "snapshot")
    done = run("fix", "--from", source, "--disruption", "reboot", "--fail-on", "info", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sample_of(ALL_HOSTS, __name__))
def test_every_shell_parses_the_script_of_every_host(name: str) -> None:
    """The script is printable ASCII."""
    text = script_of(name, "--pedantic")
    assert text.isascii()
    assert all(line.replace("\t", "").isprintable() for line in text.splitlines())
    for shell in SHELLS:
        done = subprocess.run([*shell, "-n"], input=text.encode(), check=False)
        assert done.returncode == 0


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
@pytest.mark.parametrize("name", ["lvm-linear-nobarrier", "healthy-ubuntu-22.04-cloud"])
def test_shellcheck_finds_nothing(name: str) -> None:
    """The dialect is POSIX; the only suppression is for commands as quoted data."""
    text = script_of(name, "--pedantic")
    command = ["shellcheck", "--shell=sh", "--norc", "--enable=all", OPTIONAL, "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    assert re.findall("shellcheck disable=(.*)", text) == [
        "SC2016 # commands are data until their step runs"
    ]


def test_report_names_the_fix_command_with_its_options(tmp_path: Path) -> None:
    """Without the options, findings in the baseline came back in the script."""
    policy = tmp_path / "policy.toml"
    policy.write_text('fail_on = "critical"\n')
    known = str(HOSTS / "lvm-striped" / "expected.1.json")
    options = ["--from", f"db1={NOBARRIER}", "--config", str(policy), "--select", "DUR,DRF,CMP"]
    options += ["--ignore", "DRF001", "--profile", "tidb=/srv/*", "--baseline", known]
    options += ["--fail-on", "low", "--pedantic"]
    call = re.findall("As a script: ext4audit (.*)", run("scan", *options).stdout)
    assert call == [shlex.join(["fix", *options, "--disruption", "remount", "/data"])]
    assert "DUR001" in run(*shlex.split(call[0])).stdout


def test_omitted_remedies_are_in_script_and_standard_error() -> None:
    """Standard error and the head of the script give the reason."""
    done = run("fix", "--from", NOBARRIER)
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "omitted: " in line]
    assert any("DUR001 barrier-disabled" in line and "--disruption" in line for line in lines)
    for line in lines:
        assert f"#   {line.partition('omitted: ')[2]}" in done.stdout.splitlines()


def test_script_without_remedies_lists_omitted_findings() -> None:
    """The lines before list what was omitted, with the reason."""
    *omitted, last = run("fix", "--from", NOBARRIER, "--select", "DUR001").stderr.splitlines()
    assert all(line.startswith("ext4audit: omitted: ") for line in omitted)
    assert (len(omitted), last) == (1, "ext4audit: no remedy is left: the script is empty")


def test_nothing_to_fix_reports_undetermined_rules() -> None:
    """HLT003 lacks evidence there, and might have found something; HLT001 does not."""
    source = str(HOSTS / "dm-linear" / "snapshot")
    lacking, last = run("fix", "--from", source, "--select", "HLT003").stderr.splitlines()
    assert last == "ext4audit: nothing to fix: the script is empty"
    assert "the audit is incomplete" in lacking
    assert run("fix", "--from", source, "--select", "HLT001").stderr == f"{last}\n"


def test_nothing_to_fix_is_an_empty_script() -> None:
    """The exit code is 0, so a pipe into sh continues."""
    done = run("fix", "--from", HEALTHY)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "ext4audit: nothing to fix: the script is empty"
    ran = subprocess.run(
        ["sh", "-s", "--", "--apply"],
        input=done.stdout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "nothing to do\n")


@pytest.mark.parametrize("words", [["--no"], ["--only"], ["--only", "x"], ["--apply", "now"]])
def test_invalid_arguments_print_the_usage(words: list[str]) -> None:
    """The exit code is 2, and nothing is checked before."""
    text = script_of("healthy-debian-12")
    done = subprocess.run(
        ["sh", "-s", "--", *words], input=text.encode(), capture_output=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"usage: ")


def test_same_evidence_gives_the_same_script() -> None:
    """A script that is printed again can therefore find its state file."""
    assert script_of("lvm-linear-nobarrier") == script_of("lvm-linear-nobarrier")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--choose", "DUR001"], "--choose DUR001: not RULE=WORDS"),
        (["--choose", "XYZ001=a"], "--choose XYZ001=a: not RULE=WORDS"),
        (["--choose", "DUR001=x"], "--choose DUR001 has no remedy 'x' (choose from "),
        (["--disruption", "recreate"], "invalid value 'recreate'"),
        (["--from", f"other={HEALTHY}"], "fix is limited to one host, and --from has 2"),
        (["-f", "yaml"], "invalid value 'yaml'"),
        (["--from", "/none"], "/none"),
    ],
)
def test_invalid_options_are_usage_errors(arguments: list[str], message: str) -> None:
    """The exit code is 2, and nothing is printed."""
    first = [] if arguments == ["--from", "/none"] else ["--from", NOBARRIER]
    done = run("fix", *first, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_script_file_is_executable_by_owner(tmp_path: Path) -> None:
    """A playbook is not executable."""
    for fmt, mode in (("sh", 0o700), ("ansible", 0o644)):
        path = tmp_path / fmt
        done = run("fix", "--from", NOBARRIER, "-f", fmt, "-o", str(path))
        assert (done.returncode, done.stdout) == (0, "")
        assert path.stat().st_mode & 0o777 == mode


def test_playbook_contains_the_script() -> None:
    """It is JSON; braces that Jinja would interpret are written as expressions."""
    options = ("--from", NOBARRIER, "--disruption", "reboot")
    (play,) = json.loads(run("fix", *options, "-f", "ansible").stdout)
    lines = play["vars"]["script_lines"]
    assert all(line.replace("{{ '{' }}", "").find("{{") == -1 for line in lines)
    text = "\n".join(lines).replace("{{ '{' }}", "{")
    assert text == run("fix", *options).stdout
    modules = {key for task in play["tasks"] for key in task if "." in key}
    assert modules >= {"ansible.builtin.file", "ansible.builtin.copy", "ansible.builtin.command"}

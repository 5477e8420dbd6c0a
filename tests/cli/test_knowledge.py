"""`ext4audit knowledge` and `--knowledge`: the data tables, and newer files for them."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ext4audit.cli import run_program
from ext4audit.cli.output import FORMATS
from ext4audit.facts import put_in_force, read_table
from ext4audit.facts.knowledge import TABLES, built_in_date
from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")
PROFILE_TABLE = """[about]
table = "profiles"
format = 1
date = 2999-01-31

[acme]
product = "Acme"
says = "its guide requires noatime"
source = "https://example.org/guide"
options = ["noatime"]
"""
KERNEL_BUG_TABLE = """[about]
table = "kernel_bugs"
format = 1
date = 2999-01-31

[KRN001]
symptom = "Writes are lost"
condition = "a full moon"
fix = "9.9"
source = "https://example.org/bug"
confirmed = "read"

[[KRN001.range]]
tree = "any"
confidence = "likely"
severity = "medium"
note = "every kernel"
"""


@pytest.fixture(autouse=True)
def built_in() -> Any:
    """Restore the built-in data for other tests."""
    yield
    put_in_force({})


def write_table(folder: Path, text: str, name: str = "newer.toml") -> str:
    """Write a data file that only its owner may write to."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return str(path)


def test_every_table_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The line has name, date, and number of entries."""
    assert run_program(["knowledge"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [[n, built_in_date(n)] for n in TABLES]
    ranges = sum(len(bug["range"]) for bug in read_table("kernel_bugs.toml").values())
    assert f"{len(read_table('kernel_bugs.toml'))} rules, {ranges} ranges" in lines[0]


def test_json_entries_have_sources(capsys: pytest.CaptureFixture[str]) -> None:
    """This holds even if a file abbreviates the source of many entries."""
    assert run_program(["knowledge", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema_version"] == "1.1"
    assert list(document["tables"]) == list(TABLES)
    for name, table in TABLES.items():
        shown = document["tables"][name]
        assert shown["count"] == len(shown["entries"]) == len(read_table(table.file))
        assert shown["files"] == []
    for name in ("option_grammar", "option_spellings"):
        options = document["tables"][name]["entries"]
        assert all(each["source"].startswith("https://") for each in options.values())
        assert all(each["confirmed"] for each in options.values())


def test_json_flags_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    """-f json and --json are equal; text is the default."""
    printed = []
    for words in (["--json"], ["-f", "json"], ["--format=json"], ["-f", "text"], []):
        assert run_program(["knowledge", *words]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2]
    assert printed[3] == printed[4]
    assert run_program(["knowledge", "--json", "-f", "text"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_unconfirmed_entries_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table's line and JSON show how many entries have no confirmed source."""
    text = f'{KERNEL_BUG_TABLE}confirmed = "not confirmed: nobody looked at the moon"\n'
    words = ["kernel_bugs", "--knowledge", write_table(tmp_path, text)]

    def in_json(*names: str) -> int:
        run_program(["knowledge", "--json", *names])
        found: int = json.loads(capsys.readouterr().out)["tables"]["kernel_bugs"]["not_confirmed"]
        return found

    before = in_json("kernel_bugs")
    assert in_json(*words) == before + 1
    assert run_program(["knowledge", *words[1:]]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(f", {before + 1} not confirmed")


@pytest.mark.parametrize("name", TABLES)
def test_printed_table_is_a_valid_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can be edited: --knowledge reads it."""
    assert run_program(["knowledge", name]) == 0
    path = write_table(tmp_path, capsys.readouterr().out)
    assert run_program(["knowledge", "--json", name, "--knowledge", path]) == 0
    shown = json.loads(capsys.readouterr().out)["tables"]
    assert list(shown) == [name]
    assert {each["data_file"] for each in shown[name]["entries"].values()} == {path}


def test_newer_file_applies_to_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Entries missing from it stay in force; the next run uses the built-in data."""
    path = write_table(tmp_path, KERNEL_BUG_TABLE)
    select = ["scan", "--from", NOBARRIER, "--select", "KRN", "-f", "json"]
    run_program([*select, "--knowledge", path])
    with_file = json.loads(capsys.readouterr().out)
    run_program(select)
    without = json.loads(capsys.readouterr().out)

    def found(report: Any) -> set[str]:
        return {each["rule"] for each in report["verdicts"] if each["findings"]}

    assert found(with_file) == {"KRN001"} | found(without)
    assert with_file["knowledge"] == [{"path": path, "table": "kernel_bugs", "date": "2999-01-31"}]
    assert without["knowledge"] == []


@pytest.mark.parametrize(("fmt", "sources"), sample_of(product(FORMATS, (1, 2)), __name__))
def test_every_format_names_the_files(
    fmt: str, sources: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers of a report must know which data it is based on."""
    if fmt == "json" and sources > 1:
        return
    path = write_table(tmp_path, KERNEL_BUG_TABLE, "team-bugs.toml")
    named = [f"--from=db{number}={NOBARRIER}" for number in range(sources)]
    run_program(["scan", *named, "-q", "-f", fmt, "--knowledge", path])
    assert "team-bugs.toml" in capsys.readouterr().out


def test_file_applies_to_fleet_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is passed to them with the job."""
    path = write_table(tmp_path, KERNEL_BUG_TABLE)
    named = [f"--from=db{number}={NOBARRIER}" for number in range(3)]
    run_program(["scan", *named, "--select", "KRN001", "-f", "ndjson", "--knowledge", path])
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["verdicts"][-1]["outcome"] for r in reports] == ["fail"] * 3


def test_profile_of_a_newer_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A vendor's new requirement needs no new release; a plan accepts it as well."""
    path = write_table(tmp_path, PROFILE_TABLE)
    words = ["--profile", "acme", "--select", "CMP007", "-f", "json", "--knowledge", path]
    run_program(["scan", "--from", HEALTHY, *words])
    scanned = json.loads(capsys.readouterr().out)
    assert "Acme: noatime is required" in scanned["verdicts"][0]["findings"][0]["message"]
    assert run_program(["scan", "--from", HEALTHY, "--profile", "acme"]) == 2
    capsys.readouterr()
    run_program(["plan", "--size", "1G", "--allow-incomplete", *words])
    planned = json.loads(capsys.readouterr().out)
    assert planned["knowledge"][0]["path"] == path


def test_older_file_applies_and_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An update of the program must not break jobs; the report names the stale file."""
    path = write_table(tmp_path, KERNEL_BUG_TABLE.replace("2999-01-31", "2020-01-31"))
    run_program(["scan", "--from", NOBARRIER, "--select", "KRN001", "--knowledge", path])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"the data file {path} is older (2020-01-31) than the built-in kernel_bugs" in shown
    assert "KRN001" in shown


@pytest.mark.parametrize("command", ["scan", "plan", "fix", "explain", "knowledge"])
def test_invalid_file_is_refused_completely(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, the error has file and line, and no entry is in force."""
    path = write_table(tmp_path, KERNEL_BUG_TABLE.replace('tree = "any"', 'tree = "ani"'))
    words = {"explain": ["KRN001"], "plan": ["--size", "1G"]}.get(command, [])
    assert run_program([command, *words, "--knowledge", path]) == 2
    reported = capsys.readouterr()
    assert f"{path}: line 14: KRN001.range[0].tree: unknown tree 'ani' (did you" in reported.err
    assert read_table("kernel_bugs.toml")["KRN001"]["range"][0]["tree"] != "any"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("mode", [0o644, 0o666])
def test_file_writable_by_others_is_refused(
    mode: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes files named explicitly: they decide which kernels are considered safe."""
    path = write_table(tmp_path, KERNEL_BUG_TABLE)
    Path(path).chmod(mode)
    if mode == 0o644:
        os.chown(path, 65534, 65534)
    assert run_program(["scan", "--from", NOBARRIER, "--knowledge", path]) == 2
    assert "must belong to root or to you" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "Invalid value"),
        (f"a={'[' * 100_000}", "nested too deep"),
        (f"[{'.'.join('a' * 50_000)}]", "more than 64 dots"),
        (f"#{'x' * (4 << 20)}", "longer than 4 MiB"),
    ],
)
def test_slow_patterns_are_refused(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limits are as in policy files."""
    assert run_program(["knowledge", "--knowledge", write_table(tmp_path, text)]) == 2
    assert words in capsys.readouterr().err


def test_explain_lists_affected_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They come from the data in force; each range has its confirmation."""
    assert run_program(["explain", "KRN001"]) == 0
    shown = capsys.readouterr().out
    assert "## Known kernels" in shown
    assert "6.1.64 to before 6.1.66" in shown
    run_program(["explain", "KRN001", "--knowledge", write_table(tmp_path, KERNEL_BUG_TABLE)])
    assert "every kernel" in capsys.readouterr().out
    run_program(["explain", "DUR001"])
    assert "## Known kernels" not in capsys.readouterr().out

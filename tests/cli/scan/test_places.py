"""Hosts named by `--from` and `--expect`: keys, refusals, and files left by engines."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ext4audit.cli.output import FORMATS
from support.hosts.fixture_hosts import HOSTS
from support.hosts.fleets import Original
from support.program import run

ORIGINAL = Original(HOSTS / "healthy-debian-12" / "snapshot")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write snapshots of hosts that call themselves "lab", and work in their folder."""
    for name in ("db1.tar.gz", "a=b.tar", "fleet/db1.tgz", "fetch/db2/tmp/x.tar", "fetch/run.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"done" if name.endswith(".log") else ORIGINAL.tar("lab"))
    (tmp_path / "fetch" / "db3").mkdir()
    (tmp_path / "piped").write_bytes(ORIGINAL.tar("lab"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run a scan with a snapshot on standard input."""
    with (folder / "piped").open("rb") as piped:
        return run("scan", *arguments, stdin=piped)


def host_keys(text: str) -> list[str]:
    """Return the keys in lines of NDJSON."""
    return [json.loads(line)["source"]["key"] for line in text.splitlines()]


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("db1.tar.gz", "db1"),
        ("prod=db1.tar.gz", "prod"),
        ("a=b.tar", "a=b"),
        ("./a=b.tar", "a=b"),
        ("x=a=b.tar", "x"),
        ("prod=fetch/db2", "prod"),
        ("fleet", "db1"),
        ("fleet/", "db1"),
        ("-", "lab"),
        ("prod=-", "prod"),
    ],
)
def test_key_of_a_single_host(folder: Path, source: str, key: str) -> None:
    """The key is the given name, else the file's, else the host's own."""
    done = scan(folder, "-f", "ndjson", "--from", source)
    assert host_keys(done.stdout) == [key]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["db1.tar.gz", "fleet"], "two hosts have the name db1: db1.tar.gz and fleet/db1.tgz;"),
        (["lab=db1.tar.gz", "-"], "two hosts have the name lab: db1.tar.gz and -;"),
        (["x=fetch"], "x=fetch: NAME= is for one host, but fetch holds 2"),
        (["prod=none.tar"], "none.tar: No such file"),
        (["=db1.tar.gz"], "=db1.tar.gz: No such file"),
    ],
)
def test_invalid_host_name_is_a_usage_error(folder: Path, sources: list[str], message: str) -> None:
    """The exit code is 2, and nothing is written; the message names both sources."""
    words = [f"--from={source}" for source in sources]
    done = scan(folder, *words, "-f", "ndjson", "-o", "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (folder / "out").exists() or not host_keys((folder / "out").read_text())[1:]


def test_missing_expected_hosts_are_unread(folder: Path) -> None:
    """A host whose capture was forgotten must not look clean."""
    (folder / "fetch" / "hosts.txt").write_text("db2\ndb4  # new\n")
    formats = [fmt for fmt in FORMATS if fmt != "json"]  # JSON is for one host
    pairs = [word for fmt in formats for word in ("-f", fmt, "-o", f"out.{fmt}")]
    done = run("scan", "--from", "fetch", "--expect", "fetch/hosts.txt", *pairs)
    assert done.returncode == 3
    assert "ignored 1 file that is not evidence of a host: fetch/run.log" in done.stderr
    assert "not in fetch/hosts.txt: db3" in done.stderr
    assert host_keys((folder / "out.ndjson").read_text()) == ["db2", "db3", "db4"]
    for fmt in formats:
        text = (folder / f"out.{fmt}").read_text()
        assert "db4" in text, fmt
        assert "not found in any source" in text or fmt == "prometheus", fmt


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--expect", "hosts"], "--expect is for --from"),
        (["--from", "-", "--expect", "hosts"], "--expect needs a name for each source"),
        (["--from", "fleet", "--expect", "none"], "--expect none: No such file"),
        (["--from", "fleet", "--expect", "empty"], "--expect empty: lists no host"),
    ],
)
def test_invalid_host_list_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    """The exit code is 2: otherwise the hosts would look complete."""
    (folder / "hosts").write_text("db1\n")
    (folder / "empty").write_text("")
    done = scan(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_ansible_tree_has_one_file_per_host(folder: Path) -> None:
    """`ansible -t` writes such trees; an unreachable host is unread."""
    tree = folder / "tree"
    tree.mkdir()
    single = ORIGINAL.single("lab").decode()
    (tree / "db1.example.com").write_text(json.dumps({"changed": True, "stdout": single}))
    (tree / "db2").write_text(json.dumps({"msg": "No route to host", "unreachable": True}))
    done = run("scan", "--from", "tree", "-f", "ndjson")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert host_keys(done.stdout) == ["db1.example.com", "db2"]
    assert "the host is unreachable: No route to host" in lines[1]["error"]["message"]

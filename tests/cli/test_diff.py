"""`ext4audit diff`: the differences between two reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ext4audit.cli import run_program

Write = Callable[..., str]


def finding(severity: str = "high", fact: str = "", **more: Any) -> dict[str, Any]:
    """Build a finding."""
    return {"severity": severity, "fact": fact, "message": f"{fact or 'It'} is bad.", **more}


def report(
    *findings: dict[str, Any],
    name: str = "db1",
    rule: str = "DUR001",
    outcome: str | None = None,
    uuid: str = "u",
) -> dict[str, Any]:
    """Build a minimal report."""
    verdict = {
        "rule": rule,
        "filesystem": uuid,
        "findings": list(findings),
        "unknowns": [],
        "outcome": outcome or ("fail" if findings else "pass"),
    }
    return {
        "schema_version": "1.1",
        "host": {"name": name},
        "filesystems": [{"id": uuid, "device": "/dev/sda", "mount_points": ["/data"]}],
        "verdicts": [verdict],
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes reports into a file, one per line, and returns its path."""

    def put(name: str, *reports: dict[str, Any]) -> str:
        (tmp_path / name).write_text("".join(f"{json.dumps(each)}\n" for each in reports))
        return str(tmp_path / name)

    return put


def test_findings_and_sums(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """New ones come first, the worst on top; unchecked is neither fixed nor unchanged."""
    old = report(finding(fact="a"), finding("low", "b"), finding(fact="c"))
    old["verdicts"] += report(finding(fact="d"), rule="LAY001")["verdicts"]
    new = report(finding(fact="a"), finding("info", "e"), finding("medium", "b"))
    assert run_program(["diff", write("old", old), write("new", new)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "new: MEDIUM DUR001 on /dev/sda on /data: b is bad.",
        "new: INFO DUR001 on /dev/sda on /data: e is bad.",
        "fixed: HIGH DUR001 on /dev/sda on /data: c is bad.",
        "not checked again: HIGH LAY001 on /dev/sda on /data: d is bad.",
        "unchanged: HIGH DUR001 on /dev/sda on /data: a is bad.",
        "host db1: 2 new, 1 fixed, 1 not checked again, 1 unchanged",
    ]


ACCEPTED: dict[str, Any] = {"suppression": {"reason": "so", "expires": None, "owner": None}}


@pytest.mark.parametrize(
    ("old", "new", "words", "code"),
    [
        ([], [], (), 0),
        ([finding()], [finding()], (), 0),
        ([finding()], [], (), 0),
        ([], [finding("medium")], (), 1),
        ([], [finding("low")], (), 0),
        ([], [finding("low")], ("--fail-on", "low"), 1),
        ([], [finding("critical")], ("--fail-on", "never"), 0),
        ([finding("low")], [finding("high")], (), 1),
        ([finding("critical")], [finding("high")], (), 0),
        ([], [finding(**ACCEPTED)], (), 0),
        ([finding(**ACCEPTED)], [finding(**ACCEPTED)], (), 0),
        ([finding(**ACCEPTED)], [finding()], (), 1),
    ],
)
def test_only_new_unaccepted_findings_fail(
    old: list[dict[str, Any]],
    new: list[dict[str, Any]],
    words: tuple[str, ...],
    code: int,
    write: Write,
) -> None:
    """The threshold applies; a finding whose suppression has ended is new."""
    files = [write("old", report(*old)), write("new", report(*new))]
    assert run_program(["diff", *files, *words]) == code


def test_json_has_a_list_of_each_kind(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Each host is an object, with the data needed to find each finding again."""
    files = [write("old", report()), write("new", report(finding(fact="a", **ACCEPTED)))]
    assert run_program(["diff", *files, "-f", "json"]) == 0
    (host,) = json.loads(capsys.readouterr().out)
    assert host == {
        "host": "db1",
        "new": [
            {
                "rule": "DUR001",
                "superblock": "u",
                "fact": "a",
                "severity": "high",
                "subject": "/dev/sda on /data",
                "message": "a is bad.",
                "suppressed": True,
            }
        ],
        "fixed": [],
        "unchanged": [],
        "unchecked": [],
    }


def test_renamed_single_host(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Two reports of one host each are compared if they share a filesystem."""
    files = [write("old", report(finding())), write("new", report(finding(), name="db2"))]
    assert run_program(["diff", *files]) == 0
    assert "host db2: 0 new, 0 fixed, 0 not checked again, 1 unchanged" in capsys.readouterr().out


def test_single_host_with_another_filesystem(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have a finding about /data: the old one does not make the new one known."""
    of_host: dict[str, Any] = {
        "filesystem": None,
        "rule": "CMP004",
        "unknowns": [],
        "outcome": "fail",
    }
    old, new = report(name="db1", uuid="u"), report(name="db2", uuid="v")
    for each in (old, new):
        each["verdicts"].append({**of_host, "findings": [finding(fact="/data")]})
    assert run_program(["diff", write("old", old), write("new", new)]) == 1
    out = capsys.readouterr().out
    assert "host db2: 1 new, 0 fixed, 0 not checked again, 0 unchanged" in out
    assert "host db1: 0 new, 0 fixed, 1 not checked again, 0 unchanged" in out
    clean = report(name="db2", uuid="v")
    assert run_program(["diff", write("old", old), write("new", clean)]) == 3
    assert "host db1: " in capsys.readouterr().err


def sum_lines(*words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the line of sums of each host."""
    run_program(["diff", *words])
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith("host ")]


def test_hosts_are_paired_by_name(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """A new host has only new findings; a missing host has no fixed ones."""
    old = [report(finding(), name="a"), report(finding(), name="b")]
    new = [report(finding(), name="c"), report(name="a")]
    assert sum_lines(write("old", *old), write("new", *new), capsys=capsys) == [
        "host c: 1 new, 0 fixed, 0 not checked again, 0 unchanged",
        "host a: 0 new, 1 fixed, 0 not checked again, 0 unchanged",
        "host b: 0 new, 0 fixed, 1 not checked again, 0 unchanged",
    ]


def test_hosts_of_one_name_are_paired_by_superblock(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host called localhost does not hide another one."""
    one = report(finding(), name="localhost", uuid="u1")
    two = report(finding(fact="x"), name="localhost", uuid="u2")
    same = "host localhost: 0 new, 0 fixed, 0 not checked again, 1 unchanged"
    assert sum_lines(write("old", one, two), write("new", two, one), capsys=capsys) == [same, same]


def test_unread_host_is_reported(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Its findings do not count as fixed."""
    unread = {"schema_version": "1.1", "error": {"kind": "unreadable", "message": "gone"}}
    old, new = (
        write("old", report(finding(), name="a"), report(name="b")),
        write("new", report(name="b"), unread),
    )
    assert run_program(["diff", old, new]) == 0
    reported = capsys.readouterr()
    assert "host a: 0 new, 0 fixed, 1 not checked again, 0 unchanged" in reported.out
    assert f"{new}: 1 of its hosts could not be read" in reported.err


def test_hostile_host_name_is_escaped(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a terminal nor a GitHub log takes it for a command."""
    odd = report(finding(fact="\x1b[31m\n::error::x"), name="\x1b[0m\n::error::y")
    run_program(["diff", write("old", report()), write("new", odd)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert not any(line.startswith("::") for line in out.splitlines())


def test_output_to_a_file(write: Write, tmp_path: Path) -> None:
    """With -o nothing is printed."""
    files = [write("old", report()), write("new", report(finding()))]
    assert run_program(["diff", *files, "-o", str(tmp_path / "out")]) == 1
    assert (tmp_path / "out").read_text().startswith("new: HIGH DUR001")


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"schema_version": "1.1"}'])
@pytest.mark.parametrize("which", [0, 1])
def test_invalid_report_exits_2(
    text: str, which: int, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is compared."""
    files = [write("good", report()), write("good too", report())]
    (tmp_path / "bad").write_text(text)
    files[which] = str(tmp_path / "bad")
    assert run_program(["diff", *files]) == 2
    assert "`ext4audit scan -f json`" in capsys.readouterr().err


def test_dash_is_standard_output(
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in the other commands, no file of that name is created."""
    files = [write("old", report()), write("new", report())]
    monkeypatch.chdir(tmp_path)
    assert run_program(["diff", *files, "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("host db1: 0 new")
    assert not (tmp_path / "-").exists()


UNDETERMINED = {"outcome": "undetermined"}
LESS_COMPLETE_REPORTS: dict[str, dict[str, Any]] = {
    "judged": {**report(), "complete": False},
    "undetermined": {**report(**UNDETERMINED), "complete": False},
    "undetermined, which no threshold reaches": {**report(**UNDETERMINED), "complete": True},
    "not selected": {**report(rule="LAY001"), "complete": False},
    "gone": {**report(uuid="other"), "complete": False, "gaps": []},
    "gone or missed": {**report(uuid="other"), "complete": False, "gaps": [{"what": "mounts"}]},
}


@pytest.mark.parametrize(
    ("later", "words", "code"),
    [
        ("judged", (), 0),
        ("undetermined", (), 3),
        ("undetermined", ("--allow-incomplete",), 0),
        ("undetermined", ("--fail-on", "never"), 0),
        ("undetermined, which no threshold reaches", (), 0),
        ("not selected", (), 0),
        ("gone", (), 0),
        ("gone or missed", (), 3),
    ],
)
def test_less_complete_report_may_hide_new_findings(
    later: str, words: tuple[str, ...], code: int, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Removing evidence from the newer report never makes a comparison calmer."""
    files = [write("old", report()), write("new", LESS_COMPLETE_REPORTS[later])]
    assert run_program(["diff", *files, *words]) == code
    assert code == 0 or f"{files[0]} had evidence that {files[1]} lacks" in capsys.readouterr().err


def test_evidence_missing_from_both_reports_is_not_lost(write: Write) -> None:
    """If both reports lack it, they are compared as they are."""
    unknown = {**report(**UNDETERMINED), "complete": False}
    assert run_program(["diff", write("old", unknown), write("new", unknown)]) == 0
    partly = {**report(finding()), "complete": False}
    partly["verdicts"][0]["unknowns"] = [{"what": "a second file"}]
    assert run_program(["diff", write("old", partly), write("new", partly)]) == 0
    assert run_program(["diff", write("old", report(finding())), write("new", partly)]) == 3
    assert run_program(["diff", write("old", partly), write("new", unknown)]) == 3


def test_unread_host_lacks_all_evidence(write: Write) -> None:
    """The unread host is identified by its key."""
    source = {"source": {"key": "a"}}
    unread = {"schema_version": "1.1", "error": {"kind": "unreadable", "message": "x"}, **source}
    other = report(name="b")
    old, new = write("old", {**report(), **source}, other), write("new", other, unread)
    assert run_program(["diff", old, new]) == 3

"""`--baseline`: only new findings count, and fixed ones are reported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ext4audit.cli import run_program
from ext4audit.cli.policy.baseline import read_baselines
from support.hosts.fixture_hosts import HOSTS
from support.hosts.fleets import Original, write_fleet

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")


def scan(*words: str, to: Path, fmt: str = "json") -> int:
    """Scan into a file."""
    return run_program(["scan", *words, "-f", fmt, "-o", str(to)])


def read(path: Path) -> Any:
    """Return the report in a file."""
    return json.loads(path.read_text())


@pytest.fixture
def old_report(tmp_path: Path) -> Path:
    """Write the report of the host with barriers off."""
    assert scan("--from", NOBARRIER, to=tmp_path / "old.json") == 1
    return tmp_path / "old.json"


def test_findings_of_the_baseline_do_not_count(old_report: Path, tmp_path: Path) -> None:
    """The same host has the exit code of a host without findings, and shows them as known."""
    new = tmp_path / "new.json"
    assert (
        scan("--from", NOBARRIER, "--baseline", str(old_report), "--allow-incomplete", to=new) == 0
    )
    summary = read(new)["summary"]
    assert summary["known"] == sum(read(old_report)["summary"]["findings"].values()) > 0
    assert summary["fixed"] == 0


def edited_report(old: Path, **changes: Any) -> Path:
    """Change one finding in a report."""
    report = read(old)
    finding = next(f for v in report["verdicts"] for f in v["findings"] if v["rule"] == "DUR001")
    finding.update(changes)
    old.write_text(json.dumps(report))
    return old


def test_new_and_fixed_findings(old_report: Path, tmp_path: Path) -> None:
    """Here a finding is new because the fact differs from the baseline's."""
    edited_report(old_report, fact="another", message="It was so.")
    new = tmp_path / "new.json"
    assert scan("--from", NOBARRIER, "--baseline", str(old_report), to=new) == 1
    (fixed,) = read(new)["fixed"]
    assert (fixed["rule"], fixed["fact"], fixed["message"]) == ("DUR001", "another", "It was so.")
    (found,) = (f for v in read(new)["verdicts"] for f in v["findings"] if v["rule"] == "DUR001")
    assert not found["known"]


def test_summary_counts_known_and_fixed_findings(
    old_report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line counts known and fixed findings."""
    run_program(
        ["scan", "--from", NOBARRIER, "--baseline", str(edited_report(old_report, fact="x")), "-q"]
    )
    assert "in the baseline, 1 fixed" in capsys.readouterr().out


def test_report_with_a_baseline_is_a_baseline(old_report: Path) -> None:
    """Known findings stay known in later reports, even if written to the baseline's file."""
    for _ in range(2):
        words = ("--baseline", str(old_report), "--allow-incomplete")
        assert scan("--from", NOBARRIER, *words, to=old_report) == 0


def test_baseline_of_a_renamed_single_host(old_report: Path, tmp_path: Path) -> None:
    """A single report is the baseline of the single scanned host, whatever its name."""
    source = tmp_path / "renamed.json"
    source.write_bytes(Original(Path(NOBARRIER)).single("another-name"))
    words = ("--baseline", str(old_report), "--allow-incomplete")
    assert scan("--from", str(source), *words, to=tmp_path / "new.json") == 0


def test_host_with_another_name_and_the_same_filesystem(old_report: Path, tmp_path: Path) -> None:
    """It was renamed, or both come from one image: then its findings are another host's."""
    source, kept, new = (tmp_path / name for name in ("db2.json", "kept.json", "new.json"))
    source.write_bytes(Original(Path(NOBARRIER)).single("db2"))
    kept.write_text(old_report.read_text().replace('"name": "lab"', '"name": "db1"'))
    scan("--from", str(source), "--baseline", str(kept), to=new)
    (notice,) = read(new)["notices"]
    assert "is of 'lvm-linear-nobarrier', and counts because 'db2' has the UUID" in notice


def test_baseline_of_another_host_has_no_effect(old_report: Path, tmp_path: Path) -> None:
    """Both lack nofail for /data on different filesystems: CMP004 was treated as known."""
    other = str(HOSTS / "al2-dioread-nolock-nodelalloc" / "snapshot")
    new = tmp_path / "new.json"
    words = ("--baseline", str(old_report), "--select", "CMP004", "--fail-on", "low")
    assert scan("--from", other, *words, to=new) == 1
    assert read(new)["summary"]["known"] == 0
    assert ["is of 'lvm-linear-nobarrier'" in each for each in read(new)["notices"]] == [True]


@pytest.mark.parametrize("name", ["localhost", "unknown"])
def test_generic_host_name_does_not_identify_a_host(name: str, tmp_path: Path) -> None:
    """Both hosts have the name, and lack nofail for /data on different filesystems."""
    for fixture, path in (("lvm-linear-nobarrier", "a"), ("al2-dioread-nolock-nodelalloc", "b")):
        (tmp_path / path).write_bytes(Original(HOSTS / fixture / "snapshot").single(name))
    kept, new = tmp_path / "kept.json", tmp_path / "new.json"
    words = ("--select", "CMP004", "--fail-on", "low")
    assert scan("--from", str(tmp_path / "a"), *words, to=kept) == 1
    assert read(kept)["host"]["name"] == name
    for source, known in (("a", 1), ("b", 0)):
        scan("--from", str(tmp_path / source), "--baseline", str(kept), *words, to=new)
        assert read(new)["summary"]["known"] == known


@pytest.mark.parametrize("command", [("scan", "--from", NOBARRIER, "--baseline"), ("diff",)])
def test_two_baselines_of_one_host_are_refused(
    command: tuple[str, ...], old_report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the refusal, whichever report came first was used."""
    merged = tmp_path / "merged.ndjson"
    merged.write_text(2 * f"{json.dumps(read(old_report))}\n")
    more = () if command[0] == "scan" else (str(old_report),)
    assert run_program([*command, str(merged), *more]) == 2
    assert "several reports of lvm-linear-nobarrier" in capsys.readouterr().err


def test_plans_of_one_file_are_distinguished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They share key and device number: findings of the first plan hid those of the others."""
    head = 'kernel = "6.1.0-18-amd64"\nsize = "1T"\nmount-options = "nobarrier"\n'
    tables = [f'[[filesystem]]\nmount-point = "/{name}"\n' for name in ("a", "b", "c")]
    plan, out = tmp_path / "plan.toml", tmp_path / "plan.ndjson"
    words = ["plan", str(plan), "--select", "DUR001", "-f", "ndjson"]

    def known(*more: str) -> list[int]:
        run_program([*words, *more])
        text = capsys.readouterr().out
        out.write_text(text)
        return [json.loads(line)["summary"]["known"] for line in text.splitlines()]

    plan.write_text("".join((head, *tables[1:])))
    assert known() == [0, 0]
    plan.write_text("".join((head, *tables)))
    assert known("--baseline", str(out)) == [0, 1, 1]


def test_baseline_of_a_fleet_applies_by_host(
    old_report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a fleet a baseline applies to the host it names; hosts without one are reported.

    Every new sosreport has another file name, so no finding was known.
    """
    folder = tmp_path / "fleet"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.json").write_bytes(Original(Path(NOBARRIER)).single(name))
    out = tmp_path / "out.ndjson"
    assert scan("--from", str(folder), to=out, fmt="ndjson") == 1
    (folder / "three.json").write_bytes(Original(Path(NOBARRIER)).single("three"))
    new = tmp_path / "new.ndjson"
    assert scan("--from", str(folder), "--baseline", str(out), to=new, fmt="ndjson") == 1
    known = {
        report["host"]["name"]: report["summary"]["known"]
        for report in map(json.loads, new.read_text().splitlines())
    }
    assert re.findall("not in the baseline.*: (.*)", capsys.readouterr().err) == ["three"]
    assert known["three"] == 0
    assert known["one"] == known["two"] > 0
    assert scan("--from", str(folder), "--baseline", str(old_report), to=new, fmt="ndjson") == 1


def test_baseline_and_diff_match_hosts_by_key(tmp_path: Path) -> None:
    """Machines cloned from one image share name and superblocks; only the keys differ."""
    folder, out, new = tmp_path / "fleet", tmp_path / "out.ndjson", tmp_path / "new.ndjson"
    folder.mkdir()
    (folder / "db1.json").write_bytes(Original(Path(NOBARRIER)).single("localhost"))
    (folder / "other.json").write_bytes(Original(Path(HEALTHY)).single("localhost"))
    scan("--from", str(folder), to=out, fmt="ndjson")
    (folder / "db2.json").write_bytes((folder / "db1.json").read_bytes())
    assert scan("--from", str(folder), "--baseline", str(out), to=new, fmt="ndjson") == 1
    known = {
        report["source"]["key"]: report["summary"]["known"]
        for report in map(json.loads, new.read_text().splitlines())
    }
    assert known["db1"] > 0
    assert known["db2"] == 0
    assert run_program(["diff", str(out), str(new), "-f", "json", "-o", str(tmp_path / "d")]) == 1
    differences = {each["host"]: each for each in json.loads((tmp_path / "d").read_text())}
    assert (differences["db1"]["new"], differences["other"]["new"]) == ([], [])
    assert len(differences["db2"]["new"]) == known["db1"]


def test_unread_host_does_not_match_another(tmp_path: Path) -> None:
    """Each run could read only one of two machines, whose findings were taken for the other's."""
    first, second, new = (tmp_path / name for name in ("one.ndjson", "two.ndjson", "new.json"))
    for read_one, out in (("db1", first), ("db2", second)):
        folder = tmp_path / out.stem
        folder.mkdir()
        for name in ("db1", "db2"):
            whole = Original(Path(NOBARRIER)).single("localhost")
            (folder / f"{name}.json").write_bytes(whole if name == read_one else b"cut")
        scan("--from", str(folder), to=out, fmt="ndjson")
    alone = f"db2={tmp_path / 'two' / 'db2.json'}"
    assert scan("--from", alone, "--baseline", str(first), to=new) == 1
    assert read(new)["summary"]["known"] == 0
    run_program(["diff", str(first), str(second), "-f", "json", "-o", str(new)])
    db2, db1 = sorted(read(new), key=lambda each: str(each["host"]), reverse=True)
    assert (db1["host"], bool(db1["unchecked"]), db1["unchanged"]) == ("db1", True, [])
    assert (db2["host"], bool(db2["new"]), db2["unchanged"]) == ("db2", True, [])


def without_keys(path: Path) -> None:
    """Remove the keys from reports, as in versions without keys."""
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    for document in documents:
        del document["source"]["key"]
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents))


def test_hosts_without_keys_match_by_superblock(tmp_path: Path) -> None:
    """Many hosts are called localhost, and older reports have no keys."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    for number, fixture in enumerate((NOBARRIER, HEALTHY)):
        text = Original(Path(fixture)).single("localhost")
        (folder / f"{number}.json").write_bytes(text)
    out, new = tmp_path / "out.ndjson", tmp_path / "new.ndjson"
    scan("--from", str(folder), to=out, fmt="ndjson")
    without_keys(out)
    words = ("--baseline", str(out), "--allow-incomplete")
    assert scan("--from", str(folder), *words, to=new, fmt="ndjson") == 0
    assert len(read_baselines(str(out))["localhost"]) == 2
    for report in map(json.loads, new.read_text().splitlines()):
        assert report["summary"]["fixed"] == 0


def test_fleet_against_itself_has_no_new_findings(tmp_path: Path) -> None:
    """Twenty hosts are audited in as many processes as there are cores."""
    write_fleet(tmp_path / "fleet", 20)
    out, new = tmp_path / "out.ndjson", tmp_path / "new.ndjson"
    scan("--from", str(tmp_path / "fleet"), to=out, fmt="ndjson")
    words = ("--baseline", str(out), "--allow-incomplete", "--fail-on", "info")
    assert scan("--from", str(tmp_path / "fleet"), *words, to=new, fmt="ndjson") == 0


REPORT_WITH_INVALID_OUTCOME = (
    '{"schema_version": "1.1", "host": {"name": "x"}, "filesystems": [], "verdicts": '
    '[{"rule": "DUR001", "filesystem": null, "findings": [], "outcome": "odd"}]}'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("nonsense", "not a report"),
        ("[]", "not a JSON object"),
        ("3", "not a JSON object"),
        ("{}", "its schema_version is None"),
        ('{"schema_version": "2.0"}', "its schema_version is '2.0'"),
        ('{"schema_version": 1}', "its schema_version is 1"),
        ('{"schema_version": "1.1"}', "a member is missing"),
        ('{"schema_version": "1.0", "error": {}}', "no host could be read"),
        ("\udcff", "it is not UTF-8 (byte 0)"),
        ("[" * 100000, "it is nested too deep"),
        ('{"a": ' + "9" * 5000 + "}", "a number has thousands of digits"),
        ('{"schema_version": "1.1", "host": {"name": 3}, "filesystems": [], "verdicts": []}', "3"),
        (REPORT_WITH_INVALID_OUTCOME, "'odd' is not a valid Outcome"),
    ],
)
def test_invalid_baseline_exits_2(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misread baseline would make every finding new, or none."""
    path = tmp_path / "baseline"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert run_program(["scan", "--from", NOBARRIER, "--baseline", str(path)]) == 2
    reported = capsys.readouterr()
    assert f"{path}: not a report of `ext4audit scan -f json`" in reported.err
    assert words in reported.err
    assert not reported.out
    assert run_program(["diff", str(path), str(path)]) == 2
    assert capsys.readouterr().err.splitlines()[0] == reported.err.splitlines()[0]


@pytest.mark.parametrize("word", ["", "/nowhere", "/"])
def test_unreadable_baseline_exits_2(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty name is a missing file, not the absence of a baseline."""
    assert run_program(["scan", "--from", NOBARRIER, "--baseline", word]) == 2
    assert "internal" not in capsys.readouterr().err

"""`--profile`: products, and the filesystems they apply to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from ext4audit.cli import run_program
from ext4audit.cli.policy import active_profiles
from support.hosts.fixture_hosts import HOSTS

HEALTHY = str(HOSTS / "healthy-debian-12" / "snapshot")


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        ((), []),
        (("tidb",), [("tidb", None)]),
        (("TiDB",), [("tidb", None)]),
        (("tidb,kafka",), [("tidb", None), ("kafka", None)]),
        (("tidb, kafka=/srv/*", "etcd"), [("tidb", None), ("kafka", "/srv/*"), ("etcd", None)]),
        (("etcd=*/etcd",), [("etcd", "*/etcd")]),
        (("etcd=/a=b",), [("etcd", "/a=b")]),
    ],
)
def test_profile_option(words: tuple[str, ...], chosen: list[tuple[str, str | None]]) -> None:
    """Lists use commas and the option repeats; a name alone applies to every filesystem."""
    assert [(each.profile.name, each.place) for each in active_profiles(words)] == chosen


@pytest.mark.parametrize(
    ("word", "reported"),
    [
        ("tdb", "unknown profile 'tdb' (did you mean tidb?)"),
        ("xyz", "unknown profile 'xyz' (choose from tidb, "),
        ("", "unknown profile ''"),
        ("tidb,", "unknown profile ''"),
        ("tidb=", "a mount point starts with /"),
        ("tidb=data", "--profile tidb=data: a mount point starts with /"),
    ],
)
def test_unknown_profile_is_refused(word: str, reported: str) -> None:
    """A requirement that is silently not judged would look satisfied."""
    with pytest.raises(click.UsageError) as raised:
        active_profiles([word])
    assert reported in raised.value.message


def scan_with(tmp_path: Path, *words: str) -> Any:
    """Return the report of a healthy host."""
    out = tmp_path / "out.json"
    run_program(["scan", "--from", HEALTHY, *words, "-f", "json", "-o", str(out)])
    return json.loads(out.read_text())


def outcomes(report: Any, code: str) -> set[str]:
    """Return the outcomes of a rule."""
    return {verdict["outcome"] for verdict in report["verdicts"] if verdict["rule"] == code}


def test_profile_enables_its_rules(tmp_path: Path) -> None:
    """CMP007 and optional rules about the product are enabled; --select replaces them."""
    assert outcomes(scan_with(tmp_path), "CMP007") == set()
    assert outcomes(scan_with(tmp_path, "--profile", "neo4j"), "CMP007") == {"fail"}
    assert outcomes(scan_with(tmp_path, "--profile", "postgres"), "PRF007") == {"pass"}
    chosen = scan_with(tmp_path, "--profile", "neo4j", "--select", "DUR")
    assert outcomes(chosen, "CMP007") == set()


def test_profile_applies_to_matching_mount_points(tmp_path: Path) -> None:
    """Filesystems mounted elsewhere have no requirements; the report shows name and glob."""
    report = scan_with(tmp_path, "--profile", "neo4j=/nowhere/*")
    assert outcomes(report, "CMP007") == {"not_applicable"}
    assert report["profiles"] == [{"name": "neo4j", "mount_points": "/nowhere/*"}]


def test_profiles_of_the_policy(tmp_path: Path) -> None:
    """The command line replaces its choice."""
    (tmp_path / "policy").write_text('profile = ["neo4j"]\n')
    config = ("--config", str(tmp_path / "policy"))
    assert scan_with(tmp_path, *config)["profiles"][0]["name"] == "neo4j"
    chosen = scan_with(tmp_path, *config, "--profile", "etcd")
    assert [each["name"] for each in chosen["profiles"]] == ["etcd"]


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ('profile = ["neo4j"]\n[profile.ours]\nreason = "x"\n', True),
        ('profile = "neo4j"\n profile = "tidb"\n', False),
        ("[profile.ours]\n[profile.ours]\n", False),
        ("[profiles\n", False),
    ],
)
def test_a_name_that_is_a_value_and_a_table_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *, is_told: bool
) -> None:
    """Versions of Python word the error differently: the file itself decides on the advice."""
    (tmp_path / "policy").write_text(text)
    assert run_program(["scan", "--from", HEALTHY, "--config", str(tmp_path / "policy")]) == 2
    advice = ": choose by `profiles` beside [profile.NAME]"
    assert (advice in capsys.readouterr().err) == is_told


def test_profiles_apply_to_fleets(tmp_path: Path) -> None:
    """Profiles are passed to the worker processes."""
    out = tmp_path / "out.ndjson"
    sources = ("--from", f"db1={HEALTHY}", "--from", f"db2={HEALTHY}")
    run_program(["scan", *sources, "--profile", "neo4j", "-f", "ndjson", "-o", str(out)])
    reports = [json.loads(line) for line in out.read_text().splitlines()]
    assert [outcomes(report, "CMP007") for report in reports] == [{"fail"}, {"fail"}]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("--profile", "tidb=/nowhere"), True),
        (("--profile", "etcd,tidb=/nowhere/*"), True),
        (("--profile", "tidb=/"), False),
        (("--profile", "tidb=*"), False),
        (("--profile", "tidb"), False),
        (("--profile", "tidb=/nowhere", "/"), False),
    ],
    ids=str,
)
def test_unmatched_profile_is_reported(
    tmp_path: Path, words: tuple[str, ...], *, reported: bool
) -> None:
    """Like an unmatched suppression, it is only reported if all filesystems were audited."""
    notices = scan_with(tmp_path, *words)["notices"]
    assert [("tidb" in each, "no mount point" in each) for each in notices] == (
        [(True, True)] if reported else []
    )


@pytest.mark.parametrize(("place", "reported"), [("/nowhere", True), ("/", False)])
def test_unmatched_profile_of_a_fleet_is_reported_once(
    capfd: pytest.CaptureFixture[str], place: str, *, reported: bool
) -> None:
    """It is reported once, if no host has such a mount."""
    sources = ["--from", HEALTHY, "--from", str(HOSTS / "lvm-linear-nobarrier" / "snapshot")]
    run_program(["scan", *sources, "--profile", f"tidb={place}", "-f", "ndjson"])
    errors = capfd.readouterr().err
    assert errors.count("the profile tidb") == (1 if reported else 0)


@pytest.mark.parametrize(
    ("more", "words", "idle"),
    [
        ("", (), ["x"]),
        ("", ("--profile", "x"), []),
        ("", ("--profile", "tidb"), []),
        ('profiles = ["x"]\n', (), []),
        ('profiles = ["tidb"]\n', (), []),
    ],
)
def test_unselected_site_profile_is_reported(
    more: str, words: tuple[str, ...], idle: list[str], tmp_path: Path
) -> None:
    """Its requirements were not judged; if a run selects other profiles, it is not reported."""
    demands = 'reason = "so"\nrequires = ["noatime"]\n'
    path = tmp_path / "policy.toml"
    path.write_text(f'{more}[profile.x]\n{demands}[profile.y]\n{demands}mounts = ["/"]\n')
    notices = scan_with(tmp_path, "--config", str(path), *words)["notices"]
    assert [each.split()[2] for each in notices if "holds nowhere" in each] == idle

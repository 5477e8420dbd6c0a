"""The policy file: where it is found, what it selects, and when it is refused."""

from __future__ import annotations

import json
import os
import struct
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest

from ext4audit import cli
from ext4audit.cli import policy as policy_file
from ext4audit.cli import run_program
from ext4audit.cli.output import FORMATS
from ext4audit.cli.policy import read_policy
from support.examples import sample_of
from support.hosts.fixture_hosts import HOSTS
from support.program import run

NOBARRIER = str(HOSTS / "lvm-linear-nobarrier" / "snapshot")
ACCEPTED = '[[suppress]]\nrule = "DUR001"\nsubject = "*"\nreason = "the cache has a battery"\n'


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work three directories below a fresh one, on a host without its own policy."""
    for module in (cli, policy_file):
        monkeypatch.setattr(module, "OF_THE_HOST", str(tmp_path / "of the host"))
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path


def put(path: Path, word: str) -> None:
    """Write a policy that selects one rule."""
    path.write_text(f'select = "{word}"\n')


def test_the_nearest_file_counts_alone(below: Path) -> None:
    """The search goes up from the working directory; files farther up are ignored."""
    put(below / "of the host", "LAY001")
    assert read_policy(None).select == ("LAY001",)
    put(below / "ext4audit.toml", "DUR001")
    assert read_policy(None).select == ("DUR001",)
    (below / "a" / "b" / "ext4audit.toml").write_text('fail_on = "low"\n')
    assert (read_policy(None).select, read_policy(None).fail_on) == ((), "low")
    put(below / "named", "PRF001")
    assert read_policy(str(below / "named")).select == ("PRF001",)


def test_an_empty_file_ends_the_search(below: Path) -> None:
    """An empty policy disables all others, as does --config /dev/null."""
    put(below / "ext4audit.toml", "DUR001")
    (below / "a" / "ext4audit.toml").write_text("")
    assert read_policy(None).select == ()
    assert read_policy("/dev/null").select == ()


def test_a_directory_of_that_name_is_no_policy(below: Path) -> None:
    """The search continues in the parent directory."""
    (below / "a" / "ext4audit.toml").mkdir()
    put(below / "ext4audit.toml", "DUR001")
    assert read_policy(None).select == ("DUR001",)


def test_a_removed_working_directory_has_none(below: Path) -> None:
    """The host's policy is still found."""
    put(below / "of the host", "LAY001")
    (below / "a" / "b" / "c").rmdir()
    assert read_policy(None).select == ("LAY001",)


NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@AS_ROOT
@pytest.mark.parametrize("mode", [0o755, 0o777])
@pytest.mark.parametrize("given", ["file", "link", "directory", "target's directory"])
def test_a_strangers_file_is_refused(given: str, mode: int, below: Path) -> None:
    """Two directories up it could silence root's scan, even through a link."""
    below.chmod(mode)
    path, other = below / "ext4audit.toml", below / "other"
    other.mkdir()
    put(other / "mine", "DUR001")
    if given in {"link", "target's directory"}:
        path.symlink_to(other / "mine")
    else:
        put(path, "DUR001")
    strange = {"directory": below, "target's directory": other}.get(given, path)
    os.chown(strange, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(click.UsageError, match=r"ext4audit\.toml: it or its directory belongs to"):
        read_policy(None)
    assert read_policy(str(path)).select == ("DUR001",)


def test_the_hosts_file_is_refused_as_well(below: Path) -> None:
    """If a package leaves it world-writable, everybody could change the policy."""
    put(below / "of the host", "LAY001")
    (below / "of the host").chmod(0o666)
    with pytest.raises(click.UsageError, match="of the host: others may write to it"):
        read_policy(None)


@pytest.mark.parametrize("which", ["file", "directory"])
@pytest.mark.parametrize("mode", [0o757, 0o1777, 0o777])
def test_what_others_may_write_is_refused(which: str, mode: int, below: Path) -> None:
    """Anyone with write access there could silence findings."""
    path = below / "ext4audit.toml"
    put(path, "DUR001")
    assert read_policy(None).select == ("DUR001",)
    (path if which == "file" else below).chmod(mode)
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


@pytest.mark.parametrize("way", ["another link", "a linked directory"])
def test_each_link_on_the_way_is_looked_at(way: str, below: Path) -> None:
    """With write access to a link's directory one could redirect it to another file of root's."""
    home, shared = below / "home", below / "shared"
    home.mkdir()
    shared.mkdir()
    put(home / "mine", "DUR001")
    (shared / "next").symlink_to(home / "mine" if way == "another link" else home)
    tail = () if way == "another link" else ("mine",)
    (below / "ext4audit.toml").symlink_to((shared / "next").joinpath(*tail))
    assert read_policy(None).select == ("DUR001",)
    shared.chmod(0o777)
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


def test_links_that_lead_to_one_another_end(below: Path) -> None:
    """A loop of links is not a file, so no policy is found in this directory."""
    (below / "ext4audit.toml").symlink_to("other")
    (below / "other").symlink_to("ext4audit.toml")
    assert read_policy(None).path != str(below / "ext4audit.toml")


ACL = struct.Struct("<HHI")
"""Tag, permissions and id of an entry of system.posix_acl_access (linux/posix_acl_xattr.h)."""
NO_ID = 0xFFFFFFFF


@pytest.mark.parametrize("which", ["file", "directory"])
@pytest.mark.parametrize(("mask", "refused"), [(7, True), (5, False)])
def test_an_access_control_list_may_let_others_write(
    which: str, mask: int, below: Path, *, refused: bool
) -> None:
    """The mode shows the ACL mask as group permissions: a listed user can write."""
    path = below / "ext4audit.toml"
    put(path, "DUR001")
    entries = [(1, 7, NO_ID), (2, 7, NOBODY), (4, 5, NO_ID), (16, mask, NO_ID), (32, 5, NO_ID)]
    raw = struct.pack("<I", 2) + b"".join(ACL.pack(*entry) for entry in entries)
    try:
        os.setxattr(path if which == "file" else below, "system.posix_acl_access", raw)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    if not refused:
        assert read_policy(None).select == ("DUR001",)
        return
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


@AS_ROOT
@pytest.mark.parametrize("which", ["file", "directory"])
def test_only_the_callers_group_may_write(which: str, below: Path) -> None:
    """Many distributions use private groups; any other group counts as others."""
    path = below / "ext4audit.toml"
    put(path, "DUR001")
    shared = path if which == "file" else below
    shared.chmod(0o775)
    assert read_policy(None).select == ("DUR001",)
    os.chown(shared, 0, NOBODY)
    shared.chmod(0o775)
    with pytest.raises(click.UsageError, match="others may write"):
        read_policy(None)


@AS_ROOT
def test_the_user_who_became_root_is_trusted(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo ext4audit scan` in a user's own directory uses the user's own file."""
    path = below / "ext4audit.toml"
    put(path, "DUR001")
    path.chmod(0o664)
    for each in (path, below):
        os.chown(each, 4242, 4242)
    with pytest.raises(click.UsageError, match=r"another user \(4242\)"):
        read_policy(None)
    monkeypatch.setenv("SUDO_UID", "4242")
    monkeypatch.setenv("SUDO_GID", "4242")
    assert read_policy(None).select == ("DUR001",)
    monkeypatch.setattr(os, "geteuid", lambda: 4243)
    with pytest.raises(click.UsageError, match=r"another user \(4242\)"):
        read_policy(None)


def test_a_file_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO without a writer simulates a dead server."""
    os.mkfifo(tmp_path / "policy")
    monkeypatch.setattr("ext4audit.sources.timeouts.LONGEST_WAIT_SECONDS", 0.05)
    with pytest.raises(click.UsageError, match=r"policy: no answer within 0\.05 s"):
        read_policy(str(tmp_path / "policy"))


@pytest.mark.parametrize(("fmt", "sources"), sample_of(product(FORMATS, (1, 2)), __name__))
def test_every_format_names_the_policy_in_force(
    fmt: str, sources: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readers of a clean report must know what may have silenced it."""
    if fmt == "json" and sources > 1:
        return
    path = tmp_path / "team.toml"
    path.write_text(ACCEPTED)
    named = [f"--from=db{number}={NOBARRIER}" for number in range(sources)]
    run_program(["scan", *named, "-q", "-f", fmt, "--config", str(path)])
    assert "team.toml" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fial_on = 'low'", "unknown key 'fial_on' (did you mean fail_on?)"),
        ("select = 'DUR01'", "unknown rule 'DUR01' (did you mean DUR001?)"),
        ("profile = 'tdib'", "unknown profile 'tdib' (did you mean tidb?)"),
        ("select = ", "Invalid value"),
        ("\udcff = 1", "it is not UTF-8 (byte 0)"),
        (f"x = {'[' * 100000}", ""),
        (f"#{'x' * (1 << 20)}", "it is longer than 1 MiB"),
    ],
)
def test_what_cannot_be_ends_with_2_and_the_files_name(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of a job shows which file to correct."""
    path = tmp_path / "policy"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert run_program(["scan", "--from", NOBARRIER, "--config", str(path)]) == 2
    reported = capsys.readouterr()
    assert f"{path}: " in reported.err
    assert words in reported.err
    assert not reported.out


@pytest.mark.parametrize(
    "words", ["scan --knowledge", "scan --probe", "plan", "plan --from-kickstart"]
)
def test_a_file_that_is_no_text_is_refused_in_words(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is not that of Python's codec."""
    path = tmp_path / "binary"
    path.write_bytes(b"ab\xff")
    assert run_program([*words.split(), str(path)]) == 2
    reported = capsys.readouterr().err.splitlines()[0]
    assert reported.endswith("it is not UTF-8 (byte 2)")


def test_a_byte_order_mark_is_no_part_of_the_policy(tmp_path: Path) -> None:
    """PowerShell 5 and some Windows editors write one."""
    path = tmp_path / "policy"
    path.write_bytes(b'\xef\xbb\xbfselect = "DUR001"\n')
    assert read_policy(str(path)).select == ("DUR001",)


@pytest.mark.parametrize("word", ["", "/nowhere", "/", "/proc/self/mem"])
def test_a_file_that_cannot_be_read_is_refused(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """This includes an empty name: an unset variable must not select another policy."""
    assert run_program(["scan", "--from", NOBARRIER, "--config", word]) == 2
    assert "internal" not in capsys.readouterr().err


def scanned(tmp_path: Path, text: str, *words: str) -> tuple[int, Any]:
    """Scan with a policy; return the exit code and the report."""
    (tmp_path / "policy").write_text(text)
    out = tmp_path / "out.json"
    places = ["--config", str(tmp_path / "policy"), "-f", "json", "-o", str(out)]
    code = run_program(["scan", "--from", NOBARRIER, *words, *places])
    return code, json.loads(out.read_text())


def codes(report: Any) -> set[str]:
    """Return the rules of a report."""
    return {verdict["rule"] for verdict in report["verdicts"]}


@pytest.mark.parametrize(
    ("text", "words", "rules"),
    [
        ('select = "DUR001"', (), {"DUR001"}),
        ('select = "DUR001"', ("--select", "LAY001"), {"LAY001"}),
        ('select = ["DUR001", "LAY001"]', ("--ignore", "LAY001"), {"DUR001"}),
        ('select = "DUR001,LAY001"\nignore = "DUR001"', (), {"LAY001"}),
        ('ignore = "DUR001"', ("--select", "DUR001"), {"DUR001"}),
    ],
)
def test_the_command_line_wins(
    text: str, words: tuple[str, ...], rules: set[str], tmp_path: Path
) -> None:
    """--select replaces the file's select and ignore, --ignore adds to it."""
    assert codes(scanned(tmp_path, text, *words)[1]) == rules


def test_a_pedantic_policy_judges_by_every_rule(tmp_path: Path) -> None:
    """This includes rules that are off by default."""
    assert codes(scanned(tmp_path, "")[1]) < codes(scanned(tmp_path, "pedantic = true")[1])


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ('select = "DUR001"\nfail_on = "never"', (), 0),
        ('select = "DUR001"\nfail_on = "never"', ("--fail-on", "high"), 1),
        (f'select = "DUR001"\n{ACCEPTED}', (), 0),
    ],
)
def test_the_policy_decides_the_exit_code(
    text: str, words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """Its threshold and its suppressions decide."""
    assert scanned(tmp_path, text, *words, "--allow-incomplete")[0] == code


def test_a_suppressed_finding_stays_in_the_report(tmp_path: Path) -> None:
    """It is marked, counted separately, and has no other effect."""
    _, report = scanned(tmp_path, f'select = "DUR001"\n{ACCEPTED}owner = "ops"\n')
    (finding,) = (f for verdict in report["verdicts"] for f in verdict["findings"])
    reported = {"reason": "the cache has a battery", "expires": None, "owner": "ops"}
    assert finding["suppression"] == reported
    assert report["verdicts"][0]["suppression"] == reported
    assert report["summary"]["suppressed"] == 1
    assert set(report["summary"]["findings"].values()) == {0}
    assert report["notices"] == []


@pytest.mark.parametrize(
    ("expires", "words"), [("2020-01-31", "expired on 2020-01-31"), ("2999-01-31", None)]
)
def test_an_expired_suppression_is_reported_and_holds_no_more(
    expires: str, words: str | None, tmp_path: Path
) -> None:
    """The finding counts again, and the report says why."""
    code, report = scanned(tmp_path, f"{ACCEPTED}expires = {expires}\n", "--select", "DUR001")
    assert code == (1 if words else 0)
    assert len(report["notices"]) == (1 if words else 0)
    assert all(words in notice for notice in report["notices"] if words)


def test_a_suppression_without_a_match_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text shows it too: a cured finding no longer needs its suppression."""
    (tmp_path / "policy").write_text(ACCEPTED.replace('"*"', '"/elsewhere"'))
    run_program(["scan", "--from", NOBARRIER, "--config", str(tmp_path / "policy")])
    reported = capsys.readouterr().out
    assert "policy: the suppression of DUR001 for '/elsewhere' matches no finding" in reported


@pytest.mark.parametrize("words", [("-q",), ("-f", "csv"), ("-f", "json"), ("-f", "nagios")])
def test_where_no_text_shows_it_it_is_reported_on_standard_error(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that only write machine formats have a log, too."""
    (tmp_path / "policy").write_text(f"{ACCEPTED}expires = 2020-01-31\n")
    run_program(["scan", "--from", NOBARRIER, "--config", str(tmp_path / "policy"), *words])
    assert "DUR001 for '*' expired on 2020-01-31" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--select", "LAY001"), ("/nowhere",)])
def test_what_was_not_judged_may_still_match(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With another rule or filesystem selected, the audit could not find a match."""
    (tmp_path / "policy").write_text(ACCEPTED.replace('"*"', '"/elsewhere"'))
    run_program(["scan", *words, "--from", NOBARRIER, "--config", str(tmp_path / "policy")])
    reported = capsys.readouterr()
    assert "matches no finding" not in reported.out + reported.err


def test_a_fleet_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A suppression that matches on one host is not stale on the others."""
    text = "".join(ACCEPTED.replace("DUR001", code) for code in ("DUR001", "LAY001", "HLT003"))
    (tmp_path / "policy").write_text(text)
    healthy = str(HOSTS / "healthy-debian-12" / "snapshot")
    sources = [
        f"--from={name}={source}"
        for name, source in zip("abc", (NOBARRIER, healthy, healthy), strict=True)
    ]
    run_program(["scan", *sources, "--config", str(tmp_path / "policy")])
    notices = [line for line in capsys.readouterr().err.splitlines() if "suppression" in line]
    # DUR001 matches on the first host, and HLT003 lacked evidence there.
    assert len(notices) == 1
    assert "LAY001" in notices[0]


def test_the_file_is_found_by_the_program(tmp_path: Path) -> None:
    """It is found in the working directory, without an option."""
    put(tmp_path / "ext4audit.toml", "DUR001")
    done = run("scan", "--from", NOBARRIER, "-f", "json", cwd=tmp_path)
    assert codes(json.loads(done.stdout)) == {"DUR001"}

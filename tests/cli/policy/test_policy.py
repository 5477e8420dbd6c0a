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
def nested_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work three directories below a fresh one, on a host without its own policy."""
    for module in (cli, policy_file):
        monkeypatch.setattr(module, "OF_THE_HOST", str(tmp_path / "of the host"))
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path


def write_policy(path: Path, word: str) -> None:
    """Write a policy that selects one rule."""
    path.write_text(f'select = "{word}"\n')


def test_only_the_nearest_policy_applies(nested_folder: Path) -> None:
    """The search goes up from the working directory; files farther up are ignored."""
    write_policy(nested_folder / "of the host", "LAY001")
    assert read_policy(None).select == ("LAY001",)
    write_policy(nested_folder / "ext4audit.toml", "DUR001")
    assert read_policy(None).select == ("DUR001",)
    (nested_folder / "a" / "b" / "ext4audit.toml").write_text('fail_on = "low"\n')
    assert (read_policy(None).select, read_policy(None).fail_on) == ((), "low")
    write_policy(nested_folder / "named", "PRF001")
    assert read_policy(str(nested_folder / "named")).select == ("PRF001",)


def test_empty_policy_ends_the_search(nested_folder: Path) -> None:
    """An empty policy disables all others, as does --config /dev/null."""
    write_policy(nested_folder / "ext4audit.toml", "DUR001")
    (nested_folder / "a" / "ext4audit.toml").write_text("")
    assert read_policy(None).select == ()
    assert read_policy("/dev/null").select == ()


def test_directory_named_like_a_policy_is_ignored(nested_folder: Path) -> None:
    """The search continues in the parent directory."""
    (nested_folder / "a" / "ext4audit.toml").mkdir()
    write_policy(nested_folder / "ext4audit.toml", "DUR001")
    assert read_policy(None).select == ("DUR001",)


def test_removed_working_directory_has_no_policy(nested_folder: Path) -> None:
    """The host's policy is still found."""
    write_policy(nested_folder / "of the host", "LAY001")
    (nested_folder / "a" / "b" / "c").rmdir()
    assert read_policy(None).select == ("LAY001",)


NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o777])
@pytest.mark.parametrize("given", ["file", "link", "directory", "target's directory"])
def test_policy_of_another_user_is_refused(given: str, mode: int, nested_folder: Path) -> None:
    """Two directories up it could silence root's scan, even through a link."""
    nested_folder.chmod(mode)
    path, other = nested_folder / "ext4audit.toml", nested_folder / "other"
    other.mkdir()
    write_policy(other / "mine", "DUR001")
    if given in {"link", "target's directory"}:
        path.symlink_to(other / "mine")
    else:
        write_policy(path, "DUR001")
    strange = {"directory": nested_folder, "target's directory": other}.get(given, path)
    os.chown(strange, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(click.UsageError, match=r"ext4audit\.toml: it or its directory belongs to"):
        read_policy(None)
    assert read_policy(str(path)).select == ("DUR001",)


def test_writable_host_policy_is_refused(nested_folder: Path) -> None:
    """If a package leaves it world-writable, everybody could change the policy."""
    write_policy(nested_folder / "of the host", "LAY001")
    (nested_folder / "of the host").chmod(0o666)
    with pytest.raises(click.UsageError, match="of the host: others may write to it"):
        read_policy(None)


@pytest.mark.parametrize("which", ["file", "directory"])
@pytest.mark.parametrize("mode", [0o757, 0o1777, 0o777])
def test_policy_that_others_can_write_is_refused(
    which: str, mode: int, nested_folder: Path
) -> None:
    """Anyone with write access there could silence findings."""
    path = nested_folder / "ext4audit.toml"
    write_policy(path, "DUR001")
    assert read_policy(None).select == ("DUR001",)
    (path if which == "file" else nested_folder).chmod(mode)
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


@pytest.mark.parametrize("link", ["another link", "a linked directory"])
def test_every_link_to_the_policy_is_checked(link: str, nested_folder: Path) -> None:
    """With write access to a link's directory one could redirect it to another file of root's."""
    home, shared = nested_folder / "home", nested_folder / "shared"
    home.mkdir()
    shared.mkdir()
    write_policy(home / "mine", "DUR001")
    (shared / "next").symlink_to(home / "mine" if link == "another link" else home)
    tail = () if link == "another link" else ("mine",)
    (nested_folder / "ext4audit.toml").symlink_to((shared / "next").joinpath(*tail))
    assert read_policy(None).select == ("DUR001",)
    shared.chmod(0o777)
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


def test_circular_links_are_no_policy(nested_folder: Path) -> None:
    """A loop of links is not a file, so no policy is found in this directory."""
    (nested_folder / "ext4audit.toml").symlink_to("other")
    (nested_folder / "other").symlink_to("ext4audit.toml")
    assert read_policy(None).path != str(nested_folder / "ext4audit.toml")


ACL = struct.Struct("<HHI")
"""Tag, permissions and id of an entry of system.posix_acl_access (linux/posix_acl_xattr.h)."""
NO_ID = 0xFFFFFFFF


@pytest.mark.parametrize("which", ["file", "directory"])
@pytest.mark.parametrize(("mask", "refused"), [(7, True), (5, False)])
def test_policy_writable_by_an_acl_is_refused(
    which: str, mask: int, nested_folder: Path, *, refused: bool
) -> None:
    """The mode shows the ACL mask as group permissions: a listed user can write."""
    path = nested_folder / "ext4audit.toml"
    write_policy(path, "DUR001")
    entries = [(1, 7, NO_ID), (2, 7, NOBODY), (4, 5, NO_ID), (16, mask, NO_ID), (32, 5, NO_ID)]
    raw = struct.pack("<I", 2) + b"".join(ACL.pack(*entry) for entry in entries)
    try:
        os.setxattr(path if which == "file" else nested_folder, "system.posix_acl_access", raw)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    if not refused:
        assert read_policy(None).select == ("DUR001",)
        return
    with pytest.raises(click.UsageError, match="others may write to it or to its directory"):
        read_policy(None)


@needs_root
@pytest.mark.parametrize("which", ["file", "directory"])
def test_only_the_callers_group_may_have_write_access(which: str, nested_folder: Path) -> None:
    """Many distributions use private groups; any other group counts as others."""
    path = nested_folder / "ext4audit.toml"
    write_policy(path, "DUR001")
    shared = path if which == "file" else nested_folder
    shared.chmod(0o775)
    assert read_policy(None).select == ("DUR001",)
    os.chown(shared, 0, NOBODY)
    shared.chmod(0o775)
    with pytest.raises(click.UsageError, match="others may write"):
        read_policy(None)


@needs_root
def test_policy_of_the_sudo_user_is_trusted(
    nested_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo ext4audit scan` in a user's own directory uses the user's own file."""
    path = nested_folder / "ext4audit.toml"
    write_policy(path, "DUR001")
    path.chmod(0o664)
    for each in (path, nested_folder):
        os.chown(each, 4242, 4242)
    with pytest.raises(click.UsageError, match=r"another user \(4242\)"):
        read_policy(None)
    monkeypatch.setenv("SUDO_UID", "4242")
    monkeypatch.setenv("SUDO_GID", "4242")
    assert read_policy(None).select == ("DUR001",)
    monkeypatch.setattr(os, "geteuid", lambda: 4243)
    with pytest.raises(click.UsageError, match=r"another user \(4242\)"):
        read_policy(None)


def test_hanging_policy_file_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO without a writer simulates a dead server."""
    os.mkfifo(tmp_path / "policy")
    monkeypatch.setattr("ext4audit.sources.timeouts.LONGEST_WAIT_SECONDS", 0.05)
    with pytest.raises(click.UsageError, match=r"policy: no answer within 0\.05 s"):
        read_policy(str(tmp_path / "policy"))


@pytest.mark.parametrize(("fmt", "sources"), sample_of(product(FORMATS, (1, 2)), __name__))
def test_every_format_names_the_active_policy(
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
def test_invalid_policy_exits_2_and_names_the_file(
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
def test_binary_policy_is_a_clear_error(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is not that of Python's codec."""
    path = tmp_path / "binary"
    path.write_bytes(b"ab\xff")
    assert run_program([*words.split(), str(path)]) == 2
    reported = capsys.readouterr().err.splitlines()[0]
    assert reported.endswith("it is not UTF-8 (byte 2)")


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """PowerShell 5 and some Windows editors write one."""
    path = tmp_path / "policy"
    path.write_bytes(b'\xef\xbb\xbfselect = "DUR001"\n')
    assert read_policy(str(path)).select == ("DUR001",)


@pytest.mark.parametrize("word", ["", "/nowhere", "/", "/proc/self/mem"])
def test_unreadable_policy_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """This includes an empty name: an unset variable must not select another policy."""
    assert run_program(["scan", "--from", NOBARRIER, "--config", word]) == 2
    assert "internal" not in capsys.readouterr().err


def scan_with_policy(tmp_path: Path, text: str, *words: str) -> tuple[int, Any]:
    """Scan with a policy; return the exit code and the report."""
    (tmp_path / "policy").write_text(text)
    out = tmp_path / "out.json"
    places = ["--config", str(tmp_path / "policy"), "-f", "json", "-o", str(out)]
    code = run_program(["scan", "--from", NOBARRIER, *words, *places])
    return code, json.loads(out.read_text())


def rule_codes(report: Any) -> set[str]:
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
def test_command_line_overrides_the_policy(
    text: str, words: tuple[str, ...], rules: set[str], tmp_path: Path
) -> None:
    """--select replaces the file's select and ignore, --ignore adds to it."""
    assert rule_codes(scan_with_policy(tmp_path, text, *words)[1]) == rules


def test_pedantic_policy_enables_every_rule(tmp_path: Path) -> None:
    """This includes rules that are off by default."""
    assert rule_codes(scan_with_policy(tmp_path, "")[1]) < rule_codes(
        scan_with_policy(tmp_path, "pedantic = true")[1]
    )


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ('select = "DUR001"\nfail_on = "never"', (), 0),
        ('select = "DUR001"\nfail_on = "never"', ("--fail-on", "high"), 1),
        (f'select = "DUR001"\n{ACCEPTED}', (), 0),
    ],
)
def test_exit_code_by_threshold_and_suppressions(
    text: str, words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """Its threshold and its suppressions decide."""
    assert scan_with_policy(tmp_path, text, *words, "--allow-incomplete")[0] == code


def test_suppressed_finding_stays_in_the_report(tmp_path: Path) -> None:
    """It is marked, counted separately, and has no other effect."""
    _, report = scan_with_policy(tmp_path, f'select = "DUR001"\n{ACCEPTED}owner = "ops"\n')
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
def test_expired_suppression_is_reported_and_ignored(
    expires: str, words: str | None, tmp_path: Path
) -> None:
    """The finding counts again, and the report says why."""
    code, report = scan_with_policy(
        tmp_path, f"{ACCEPTED}expires = {expires}\n", "--select", "DUR001"
    )
    assert code == (1 if words else 0)
    assert len(report["notices"]) == (1 if words else 0)
    assert all(words in notice for notice in report["notices"] if words)


def test_unmatched_suppression_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The text shows it too: a cured finding no longer needs its suppression."""
    (tmp_path / "policy").write_text(ACCEPTED.replace('"*"', '"/elsewhere"'))
    run_program(["scan", "--from", NOBARRIER, "--config", str(tmp_path / "policy")])
    reported = capsys.readouterr().out
    assert "policy: the suppression of DUR001 for '/elsewhere' matches no finding" in reported


@pytest.mark.parametrize("words", [("-q",), ("-f", "csv"), ("-f", "json"), ("-f", "nagios")])
def test_notices_are_on_standard_error_for_machine_formats(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs that only write machine formats have a log, too."""
    (tmp_path / "policy").write_text(f"{ACCEPTED}expires = 2020-01-31\n")
    run_program(["scan", "--from", NOBARRIER, "--config", str(tmp_path / "policy"), *words])
    assert "DUR001 for '*' expired on 2020-01-31" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--select", "LAY001"), ("/nowhere",)])
def test_suppression_of_a_skipped_rule_is_not_unmatched(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With another rule or filesystem selected, the audit could not find a match."""
    (tmp_path / "policy").write_text(ACCEPTED.replace('"*"', '"/elsewhere"'))
    run_program(["scan", *words, "--from", NOBARRIER, "--config", str(tmp_path / "policy")])
    reported = capsys.readouterr()
    assert "matches no finding" not in reported.out + reported.err


def test_suppressed_findings_of_a_fleet_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host that is clean because all is accepted does not look like one without findings."""
    (tmp_path / "policy").write_text(f'select = "DUR001"\n{ACCEPTED}')
    sources = [f"--from=db{number}={NOBARRIER}" for number in range(2)]
    assert run_program(["scan", *sources, "-q", "--config", str(tmp_path / "policy")]) == 0
    assert " 2 clean; 2 suppressed; policy " in capsys.readouterr().out


def test_unmatched_suppression_of_a_fleet_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_policy_in_the_working_directory_is_found(tmp_path: Path) -> None:
    """It is found in the working directory, without an option."""
    write_policy(tmp_path / "ext4audit.toml", "DUR001")
    done = run("scan", "--from", NOBARRIER, "-f", "json", cwd=tmp_path)
    assert rule_codes(json.loads(done.stdout)) == {"DUR001"}

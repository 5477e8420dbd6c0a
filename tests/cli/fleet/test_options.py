"""Parts that need no host: options for Ansible, arbitrary host names, and errors."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from ext4audit import audit_snapshot
from ext4audit.cli import OutputFailed
from ext4audit.cli.fleet import command as fleet_command
from ext4audit.cli.fleet import options_of
from ext4audit.cli.fleet.fixing import (
    NOTHING,
    OMITTED,
    HostState,
    ansible_pattern,
    without_remedies,
)
from ext4audit.cli.fleet.gathering import (
    GatherOptions,
    Stop,
    answered_places,
    file_name,
    gathering,
    progress_text,
)
from ext4audit.finding import Disruption, Severity
from ext4audit.fixing import choose_remedies
from ext4audit.fixing.script import AuditedHost, build_script
from ext4audit.renderers.shared.fleet import FleetSums, FoundRule, HostLine
from ext4audit.sources import ArchiveError, ansible
from ext4audit.sources.ansible import Answer
from ext4audit.sources.ansible.gathering import Gathering
from ext4audit.sources.captured import key_of
from ext4audit.sources.fleet import hosts_in
from support.hosts.fixture_hosts import HOSTS

HOSTILE_NAMES = (
    "db1",
    "db[1:3]",
    "~.*",
    "a,b:c",
    "&!x",
    "{{ 7 * 7 }}",
    "../../etc/x",
    "-rf",
    "ä\n",
)


def ansible_options(*arguments: str) -> tuple[str, ...]:
    """Return the options that Ansible gets for a command line."""
    with fleet_command.make_context("fleet", list(arguments)) as context:
        return options_of(dict(context.params))


def test_options_are_passed_to_ansible() -> None:
    """Arguments after -- come last, unchanged."""
    asked = ("-i", "a,", "-i", "b.ini", "-l", "-x", "-b", "-K", "--forks", "7", "-e", "x=1")
    assert ansible_options(*asked, "--", "--check") == (
        "--inventory=a,",
        "--inventory=b.ini",
        "--limit=-x",
        "--extra-vars=x=1",
        "--forks=7",
        "--become",
        "--ask-become-pass",
        "--check",
    )


def test_host_as_argument_is_refused() -> None:
    """Ansible would take it for another playbook."""
    with pytest.raises(click.UsageError, match="unexpected argument db1"):
        ansible_options("db1")


def test_device_as_inventory_is_refused() -> None:
    """A device has no end, but the machine's memory has one."""
    with pytest.raises(click.UsageError, match="--inventory /dev/zero: a device is no inventory"):
        ansible_options("-i", "a,", "-i", "/dev/zero")
    assert ansible_options("-i", "/dev/null") == ("--inventory=/dev/null",)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_host_pattern_matches_only_one_name(name: str) -> None:
    """Ansible splits patterns at commas and colons, and expands brackets and globs."""
    made = ansible_pattern(name)
    assert made.startswith("~^")
    assert not re.search(r"[\s,:*&!\[{]", made)
    assert [each for each in HOSTILE_NAMES if re.search(made[1:], each)] == [name]


@pytest.mark.parametrize(
    "name", [*HOSTILE_NAMES, "db.tar", "db%2Etar", ".hidden", "web.example.com"]
)
def test_kept_snapshot_stays_in_its_folder(name: str) -> None:
    """`scan --from` finds a plain name; other names are quoted and cannot collide."""
    file = file_name(name)
    assert "/" not in file
    assert not file.startswith((".", "-"))
    assert unquote(key_of(file) or "", errors="surrogateescape") == name
    if name in {"db1", "web.example.com"}:
        assert key_of(file) == name


LONG_NAMES = ("x" * 252, "x" * 253, "ж" * 64, "ж" * 65)


def test_kept_snapshots_of_long_names_do_not_collide() -> None:
    """No file name has more than 255 bytes, and no two hosts share a file."""
    files = [file_name(name) for name in LONG_NAMES]
    assert max(map(len, files)) <= 255
    assert len({*files}) == len(LONG_NAMES)


def test_write_error_of_a_kept_snapshot_names_the_file(tmp_path: Path) -> None:
    """A full disk of --keep was reported as one of standard output."""
    given = tmp_path / "snapshot"
    given.touch()
    missing = tmp_path / "missing"
    wanted = GatherOptions((), {}, 1, str(missing), quiet=True)
    with pytest.raises(OutputFailed, match=rf"cannot write to {missing}/db1\.txt: No such file"):
        list(answered_places(OneAnsweringHost(given, missing), wanted, Stop()))


def test_kept_snapshot_replaces_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another filesystem, the snapshot was written to the link's target."""
    given, kept, other = tmp_path / "snapshot", tmp_path / "kept", tmp_path / "other"
    given.write_text("new")
    other.write_text("old")
    kept.mkdir()
    (kept / "db1.txt").symlink_to(other)
    monkeypatch.setattr(os, "rename", on_another_filesystem)
    list(
        answered_places(
            OneAnsweringHost(given), GatherOptions((), {}, 1, str(kept), quiet=True), Stop()
        )
    )
    assert other.read_text() == "old"
    assert [(each.name, each.read_text()) for each in kept.iterdir()] == [("db1.txt", "new")]
    assert not given.exists()


def test_snapshots_of_earlier_runs_are_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """db1 does not answer; its kept snapshot is moved, and those moved earlier stay."""
    wanted = GatherOptions((), {}, 1, str(tmp_path), quiet=False)
    for text, day in (("day 1", 1), ("day 2", 2), ("day 2, too", 2)):
        (tmp_path / "db1.txt").write_text(text)
        os.utime(tmp_path / "db1.txt", (day * 86400, day * 86400))
        (place,) = answered_places(OneUnreachableHost(), wanted, Stop())
        assert place is not None
        assert place.missing == "unreachable"
    assert [each.name for each in tmp_path.iterdir()] == [".earlier"]
    moved = {str(each.relative_to(tmp_path)): each.read_text() for each in tmp_path.rglob("*.txt")}
    assert moved == {
        ".earlier/19700102T000000Z/db1.txt": "day 1",
        ".earlier/19700103T000000Z/db1.txt": "day 2",
        ".earlier/19700103T000000Z-2/db1.txt": "day 2, too",
    }
    notice = f"earlier snapshots of hosts that did not answer are now in {tmp_path}/.earlier"
    assert capsys.readouterr().err.splitlines() == [f"ext4audit: {notice}"] * 3
    with pytest.raises(ArchiveError, match="holds no snapshot"):
        hosts_in(str(tmp_path))


class OneUnreachableHost(Gathering):
    """One host that does not answer."""

    def __init__(self) -> None:
        """Skip the setup."""

    def answers(self, *_: object) -> Iterator[Answer | None]:
        """Yield the reason."""
        yield Answer("db1", (), reason="unreachable")


def test_ctrl_c_before_the_first_host_writes_no_report() -> None:
    """A report without hosts looked clean: github had "audit complete", gitlab an empty list."""
    stop = Stop()
    stop.number = signal.SIGINT
    with pytest.raises(click.Abort):
        list(answered_places(InterruptedRun(), GatherOptions((), {}, 1, None, quiet=True), stop))


class InterruptedRun(Gathering):
    """A run that ends before its first host is contacted."""

    def __init__(self) -> None:
        """Skip the setup."""
        self.members = {}

    def answers(self, *_: object) -> Iterator[Answer | None]:
        """Yield nothing."""
        yield from ()


def test_second_ctrl_c_removes_the_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to end the program while Ansible was being stopped: the folder stayed."""
    close, handler = Gathering.close, signal.getsignal(signal.SIGINT)

    def interrupted(made: Gathering) -> None:
        signal.raise_signal(signal.SIGINT)
        close(made)

    monkeypatch.setattr(Gathering, "close", interrupted)
    with gathering(GatherOptions((), {}, 1, None, quiet=True)) as made:
        folder = Path(made.folder)
        assert folder.is_dir()
    assert not folder.exists()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("word", ["--step", "--ste"])
def test_ansible_does_not_prompt_before_tasks(word: str) -> None:
    """No terminal answers, so the run never ended."""
    context = fleet_command.make_context("fleet", ["-i", "a,", "--", word])
    with context, pytest.raises(click.UsageError, match="--step asks on a terminal"):
        fleet_command.invoke(context)


def on_another_filesystem(_source: object, _destination: object) -> None:
    """Refuse to rename a file, as the kernel does between filesystems."""
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


class OneAnsweringHost(Gathering):
    """One host; the folder of --keep may be removed before its answer arrives."""

    def __init__(self, given: Path, removed: Path | None = None) -> None:
        self._given, self._removed = given, removed

    def answers(self, *_: object) -> Iterator[Answer | None]:
        """Yield the answer."""
        if self._removed is not None:
            self._removed.rmdir()
        yield Answer("db1", (), path=str(self._given))


def test_error_without_ansible_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The core works without Ansible."""
    monkeypatch.setattr(ansible, "find_spec", lambda _name: None)
    with pytest.raises(ansible.AnsibleError, match=r"pip install 'ext4audit\[fleet\]'"):
        ansible.playbook_program()
    with (
        fleet_command.make_context("fleet", ["-i", "a,"]) as context,
        pytest.raises(click.UsageError, match=r"not installed; pip install"),
    ):
        fleet_command.invoke(context)


@pytest.mark.parametrize("arguments", [("-i", "a,"), ("fix", "-i", "a,")])
@pytest.mark.parametrize("module", ["ansible_runner", "psutil"])
def test_missing_module_of_the_extra_is_named(arguments: tuple[str, ...], module: str) -> None:
    """The core, the one file and the packages do not include the extra."""
    run = without_module(module, *arguments)
    assert run.returncode == 2
    assert re.search(r"is not installed; pip install 'ext4audit\[fleet\]'", run.stderr)
    assert without_module(module, *arguments, "--help").returncode == 0


def without_module(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `ext4audit fleet` with a module that cannot be imported."""
    start = f"import sys; sys.modules[{module!r}] = None; from ext4audit.__main__ import main"
    words = (sys.executable, "-c", f"{start}; main()", "fleet", *arguments)
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_hosts_are_counted_by_group_for_each_rule() -> None:
    """The group with the most such hosts comes first; unread hosts are also counted by group."""
    sums = FleetSums(group_by=("dc_*",))
    found = (FoundRule("DUR001", "barrier-disabled", Severity.CRITICAL),)
    for name, groups in (("a", ("dc_1", "web")), ("b", ("dc_2",)), ("c", ("dc_2", "web"))):
        sums.add(HostLine(name, (), 1, found=found, groups=groups))
    sums.add(HostLine("d", (), 3, unread="unreachable", groups=("dc_1",)))
    text = sums.text(ascii_only=True)
    assert "          in dc_2 2 of 2, dc_1 1 of 2\n" in text
    assert "Unread: d (unreachable)\n  in dc_1 1 of 2\n" in text
    assert "web" not in text


def test_progress_shows_failures_and_rate() -> None:
    """It shows hosts done, failing and unread, and the rate."""
    assert progress_text(5, 20, 2, 1, 2.0) == "5 of 20 hosts: 2 failing, 1 unread, 2.5 hosts/s"


@pytest.mark.parametrize(
    ("fixture", "state"),
    [
        ("lvm-linear-nobarrier", HostState(OMITTED, "2 omitted")),
        ("healthy-debian-12", HostState(NOTHING)),
    ],
)
def test_host_with_omitted_remedies_is_not_clean(fixture: str, state: HostState) -> None:
    """Its remedies exceed the disruption that --disruption allows."""
    report = audit_snapshot(HOSTS / fixture / "snapshot")
    chosen, left = choose_remedies(report, Severity.MEDIUM, Disruption.ONLINE, {})
    script = build_script(AuditedHost("db1", None, report.host.taken_at, "0"), chosen, left)
    assert without_remedies(script) == state

"""Help, errors, rules and pages on a terminal: its colours and its width."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from ext4audit.cli import COMMANDS
from ext4audit.rules import all_rules
from support.program import run
from support.terminals import on_terminal, on_terminal_new

HOST = Path(__file__).parents[3] / "fixtures" / "hosts" / "lvm-linear-nobarrier" / "snapshot"
COLORLESS = [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"EXT4AUDIT_COLOR": "never"}]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_the_same_with_colours(command: str) -> None:
    """Without escape sequences it equals the output to a pipe, line by line."""
    arguments = [*command.split(), "--help"]
    screen = on_terminal(*arguments, "--no-pager", columns=80).screen
    assert "\x1b[1mOptions:" in screen
    assert "\x1b[36mext4audit" in screen
    assert click.unstyle(screen) == run(*arguments).stdout


def test_new_interpreter_shows_the_same_help() -> None:
    """The other tests fork a process that has already loaded the program."""
    done = on_terminal("--help", "--no-pager")
    assert done == on_terminal_new("--help", "--no-pager")


@pytest.mark.parametrize("variables", COLORLESS, ids=str)
def test_help_without_colours_is_plain(variables: dict[str, str]) -> None:
    """A terminal without colours gets plain text."""
    assert "\x1b" not in on_terminal("--help", "--no-pager", env=variables).screen


def test_every_command_has_examples() -> None:
    """Each example calls the program."""
    for command in COMMANDS:
        examples = run(command, "--help").stdout.partition("Examples:\n")[2]
        assert f"ext4audit {command}" in examples, command


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({}, True), *((each, False) for each in COLORLESS), ({"CLICOLOR_FORCE": "1"}, True)],
    ids=str,
)
def test_errors_are_red_on_a_terminal(variables: dict[str, str], *, colored: bool) -> None:
    """Only the program's name is coloured, so that the message can be copied."""
    screen = on_terminal("explain", "nothing", with_stderr=True, env=variables).screen
    head = "\x1b[31m\x1b[1mext4audit:\x1b[0m" if colored else "ext4audit:"
    assert screen.startswith(f"{head} unknown rule 'nothing'")


def test_errors_in_a_pipe_are_plain() -> None:
    """Standard output may still be a terminal."""
    done = on_terminal("explain", "nothing")
    assert (done.code, done.screen) == (2, "")
    assert "\x1b" not in done.stderr


def test_forced_colours_reach_a_pipe() -> None:
    """CLICOLOR_FORCE works as for the report."""
    done = run("explain", "nothing", env={"CLICOLOR_FORCE": "1"})
    assert done.stderr.startswith("\x1b[31m")
    assert "\x1b[1m" in run("--help", env={"CLICOLOR_FORCE": "1"}).stdout
    assert "\x1b[1m" in run("explain", "DUR", "--color", "always").stdout


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_rules_fit_the_terminal(columns: int) -> None:
    """No line is wider, and no rule is missing."""
    screen = click.unstyle(on_terminal("rules", "--no-pager", columns=columns).screen)
    assert max(map(len, screen.splitlines())) <= columns
    shown = "".join(screen.split())
    for rule in all_rules():
        assert rule.code in shown
        assert rule.name in shown
    words = {word for rule in all_rules() for word in rule.summary.split() if len(word) < 20}
    assert words <= set(screen.split())


def test_rules_without_colour_fit_the_terminal() -> None:
    """The width depends neither on colour nor on COLUMNS and LINES in non-ASCII digits."""
    odd = {"COLUMNS": "²", "LINES": "²"}
    screen = on_terminal("rules", "--no-pager", "--color", "never", columns=60, env=odd).screen
    assert screen.count("DUR001") == 1
    assert "\x1b" not in screen
    assert max(map(len, screen.splitlines())) <= 60


def test_rule_page_is_rendered_on_a_terminal() -> None:
    """Headings lose their marks, and lines fit; a pipe gets the Markdown."""
    screen = on_terminal("explain", "DUR001", "--no-pager", columns=70).screen
    assert "\x1b[" in screen
    assert "## " not in screen
    assert "What it checks" in screen
    assert max(len(line) for line in click.unstyle(screen).splitlines()) <= 70
    source = on_terminal("explain", "DUR001", "--no-pager", "-f", "markdown").screen
    assert source == run("explain", "DUR001").stdout


def test_diff_is_coloured(tmp_path: Path) -> None:
    """New findings are red; without colours the text equals that of a pipe."""
    (tmp_path / "new.json").write_text(run("scan", "--from", str(HOST), "-f", "json").stdout)
    report = json.loads((tmp_path / "new.json").read_text())
    for verdict in report["verdicts"]:
        verdict["findings"] = []
    (tmp_path / "old.json").write_text(json.dumps(report))
    files = [str(tmp_path / name) for name in ("old.json", "new.json")]
    done = on_terminal("diff", *files, "--no-pager", columns=500)
    assert "\x1b[31mnew\x1b[0m: " in done.screen
    assert click.unstyle(done.screen) == run("diff", *files).stdout


@pytest.mark.parametrize(
    ("arguments", "doing"),
    [
        (("plan", "--size", "10G", "-q"), "simulating /dev/sdX on /data"),
        (("scan", "--from", str(HOST), "-q"), f"reading {HOST}"),
    ],
    ids=lambda case: case[0] if isinstance(case, tuple) else "",
)
def test_status_line_of_slow_commands(arguments: tuple[str, ...], doing: str) -> None:
    """The status appears on a terminal, but not with -q."""
    loud = tuple(each for each in arguments if each != "-q")
    assert doing[:60] in on_terminal(*loud, with_stderr=True, columns=250, rows=999).screen
    assert doing[:60] not in on_terminal(*arguments, with_stderr=True, columns=250).screen

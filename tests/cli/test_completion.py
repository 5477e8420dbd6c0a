"""`ext4audit completion`: what fits at the cursor, in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.cli.app import COMMANDS, app
from ext4audit.cli.complete import fits, split
from ext4audit.cli.complete_values import FILES, FILES_OF, NOTHING_OF
from ext4audit.cli.completion import SHELLS, script
from ext4audit.cli.entry import ASKED_BY_A_SHELL
from ext4audit.facts.profile import all_profiles
from ext4audit.rules import all_rules
from support.program import run, run_python
from support.shells.terminal import Shell

CODES = [rule.code for rule in all_rules()]
SEVERITIES = ["critical", "high", "medium", "low", "info", "never"]


def texts(line: str) -> list[str]:
    """Return the words that fit at the end of a line."""
    words, typed = split(line)
    return [fit.text for fit in fits(words, typed) if fit.kind == "word"]


def kinds(line: str) -> set[str]:
    """Return whether words or files fit at the end of a line."""
    words, typed = split(line)
    return {fit.kind for fit in fits(words, typed)}


@pytest.mark.parametrize(
    ("line", "fitting"),
    [
        ("ext4audit ", list(COMMANDS)),
        ("ext4audit sc", ["scan", "schema"]),
        ("/path/to/ext4audit SC", ["scan", "schema"]),
        ("sudo -u root ext4audit sca", ["scan"]),
        ("my-alias sca", ["scan"]),
        ("ext4audit -", ["--version", "-h", "--help"]),
        ("ext4audit --v", ["--version"]),
        ("ext4audit scan --fail-on ", SEVERITIES),
        ("ext4audit scan --fail-on=h", ["--fail-on=high"]),
        ("ext4audit scan -f j", ["json", "junit"]),
        ("ext4audit scan -vf j", ["json", "junit"]),
        ("ext4audit scan -fjson --c", ["--config", "--color"]),
        ("ext4audit scan --color always --c", ["--config"]),
        ("ext4audit scan --select X --sel", ["--select"]),
        ("ext4audit scan --select DUR00", [code for code in CODES if code.startswith("DUR00")]),
        ("ext4audit scan --select dur001", ["DUR001"]),
        ("ext4audit scan --select barr", ["barrier-disabled"]),
        ("ext4audit scan --select CAP,lay001", ["CAP,LAY001"]),
        ("ext4audit scan --ignore=DUR002,dur001", ["--ignore=DUR002,DUR001"]),
        ("ext4audit scan --select DUR001,DUR001", []),
        ("ext4audit plan --raid0 4 --rot", ["--rotational"]),
        ("ext4audit plan --rotational --non", []),
        ("ext4audit scan --profile postg", ["postgres"]),
        ("ext4audit scan --profile tidb=/data,kaf", ["tidb=/data,kafka"]),
        ("ext4audit explain ", CODES),
        ("ext4audit explain striped", ["striped-metadata-hotspot"]),
        ("ext4audit layout -f ", ["text", "json", "svg"]),
        ("ext4audit completion ", list(SHELLS)),
        ("ext4audit schema --", ["--unread", "--help"]),
        ('ext4audit scan --select "DUR001', ["DUR001"]),
        ("ext4audit scan 'it is", []),
        ("ext4audit nonsense --", []),
        ("ext4audit scan --nonsense=", []),
        ("ext4audit scan --verbose=", []),
        ("ext4audit rules ", []),
        ("ext4audit explain DUR001 ", []),
        ("ext4audit scan --timeout ", []),
        ("ext4audit scan --select '$(id),DUR00", []),
    ],
)
def test_words_that_fit(line: str, fitting: list[str]) -> None:
    """Commands, options that can still be given, their values, and lists of rules."""
    assert sorted(texts(line)) == sorted(fitting)


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("ext4audit scan ", ""),
        ("ext4audit scan /srv ", ""),
        ("ext4audit scan -- -", ""),
        ("ext4audit scan '/a b", ""),
        ("ext4audit scan -o ", ""),
        ("ext4audit scan --output=/tm", "--output="),
        ("ext4audit scan --profile tidb=/", "tidb="),
        ("ext4audit scan --profile=tidb,kafka=/", "--profile=tidb,kafka="),
        ("ext4audit diff a.json ", ""),
        ("ext4audit layout /dev/", ""),
        ("ext4audit plan ", ""),
    ],
)
def test_files_are_left_to_the_shell(line: str, before: str) -> None:
    """It quotes them, and knows the home directory."""
    words, typed = split(line)
    assert fits(words, typed) == [FILES.behind(before)]


def test_every_rule_and_profile_says_what_it_is() -> None:
    """The help beside a word is its summary, on one line."""
    words = fits(["scan", "--select"], "") + fits(["scan", "--profile"], "")
    assert [word.text for word in words] == [*CODES, *all_profiles()]
    assert all(word.says and "\n" not in word.says and "\t" not in word.says for word in words)
    summary = {rule.code: f"{rule.name}: {rule.summary}" for rule in all_rules()}
    assert all(summary.get(word.text, "").startswith(word.says) for word in words[: len(CODES)])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_value_is_completed_or_known_to_be_the_users(name: str) -> None:
    """A new option decides: a choice, files, words of the program, or nothing."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    for each in command.params:
        if isinstance(each.type, click.Choice) or getattr(each, "is_flag", False):
            continue
        assert each.metavar in FILES_OF | NOTHING_OF | {"RULES", "CODE|NAME", "NAME[=MOUNT]"}


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])))
def test_no_line_is_too_strange(line: str) -> None:
    """Whatever is typed, what comes back is words that need no quotes."""
    words, typed = split(f"ext4audit {line}")
    for fit in fits(words, typed):
        assert "\n" not in f"{fit.text}{fit.says}"
        assert fit.text.isascii()


def test_the_program_answers_a_shell_and_audits_nothing() -> None:
    """The question is in the environment; the answer's lines are kind, word, help."""
    done = run(env={ASKED_BY_A_SHELL: "ext4audit rul"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "word\trules\tList the rules\n"


def test_an_exported_question_does_not_stop_an_audit() -> None:
    """With arguments the program does what they say: silence and exit 0 would read "clean"."""
    done = run("scna", env={ASKED_BY_A_SHELL: "ext4audit "})
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_question_costs_no_audit() -> None:
    """A tab imports neither rules nor sources, until the word is a rule's."""
    code = (
        "import sys; from ext4audit.cli.guard import guarded; guarded([]); "
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = run_python("-c", code, env={ASKED_BY_A_SHELL: "ext4audit completion "})
    heavy = {"ext4audit.rules", "ext4audit.sources", "rich", "psutil", "click.shell_completion"}
    assert not heavy & set(done.stderr.split())


@pytest.fixture(scope="module", params=SHELLS)
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """Start each shell that is installed, among files."""
    folder = tmp_path_factory.mktemp("shell")
    for name in ("uniquely named.img", "unrelated", "report.json"):
        (folder / name).touch()
    started = Shell(request.param, folder)
    yield started
    started.close()


@pytest.mark.shells
@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("ext4audit comp", "ext4audit completion "),
        ("ext4audit scan --fail-on hi", "ext4audit scan --fail-on high "),
        ("ext4audit scan --fail-on=hi", "ext4audit scan --fail-on=high "),
        ("ext4audit scan --allow", "ext4audit scan --allow-incomplete "),
        ("ext4audit scan --select dur001,lay001", "ext4audit scan --select dur001,LAY001 "),
        ("ext4audit scan --select=CAP,lay001", "ext4audit scan --select=CAP,LAY001 "),
        ("ext4audit explain barrier-dis", "ext4audit explain barrier-disabled "),
        ("ext4audit scan repo", "ext4audit scan report.json "),
        ("ext4audit scan -o repo", "ext4audit scan -o report.json "),
        ("ext4audit scan --output=repo", "ext4audit scan --output=report.json "),
        ("ext4audit scan uniq", r"ext4audit scan uniquely\ named.img "),
        ("ext4audit scan --timeout re", "ext4audit scan --timeout re"),
        ("ext4audit rules re", "ext4audit rules re"),
        ("./.bin/ext4audit sch", "./.bin/ext4audit schema "),
    ],
)
def test_real_shells_complete(shell: Shell, typed: str, line: str) -> None:
    """A tab in bash, zsh and fish; files keep their quoting, and values are no files."""
    assert shell.completed(typed) == line


def test_bash_completes_where_equal_signs_break_no_words(tmp_path: Path) -> None:
    """COMP_WORDBREAKS is the user's to change."""
    call = (
        f"{script('bash')}\nCOMP_WORDBREAKS=' '; COMP_LINE='ext4audit scan --color=al'; "
        'COMP_POINT=${#COMP_LINE}; _ext4audit ext4audit --color=al; echo "${COMPREPLY[*]}"'
    )
    program = tmp_path / "ext4audit"
    program.write_text("#!/bin/sh\nprintf 'word\\t--color=always\\t\\n'\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", call], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "--color=always\n"


def test_the_script_of_bash_is_clean() -> None:
    """ShellCheck has nothing to say."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    subprocess.run(["shellcheck", "--shell=bash", "-"], input=script("bash"), text=True, check=True)


@pytest.mark.parametrize("name", SHELLS)
def test_the_command_prints_the_script(name: str) -> None:
    """As it is shipped."""
    done = run("completion", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script(name)

"""`ext4audit completion`: completions at the cursor, in real shells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, split_arg_string
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.cli import ASKED_BY_A_SHELL, COMMANDS, PROGRAM, app
from ext4audit.cli.completion import SHELLS, script
from ext4audit.facts.host import all_profiles
from ext4audit.rules import all_rules
from support.examples import share_of
from support.program import run, run_python
from support.shells.terminal import Shell

CODES = [rule.code for rule in all_rules()]
SEVERITIES = ["critical", "high", "medium", "low", "info", "never"]
NOT_COMPLETED = frozenset(
    "GLOB ID KIND N NAME PATTERN PID RELEASE SECONDS SIZE VARS VERSION WORDS".split()
)
"""Metavars of values that only the user knows."""


def items(line: str, shell: str = "zsh") -> list[CompletionItem[str]]:
    """Return the completions at the end of a line, with words split as by the shell."""
    *args, typed = split_arg_string(f"{line}\0")[1:]
    completer = SHELLS[shell](app, {}, PROGRAM, ASKED_BY_A_SHELL)
    return completer.get_completions(args, typed.removesuffix("\0"))


def completions(line: str) -> list[str]:
    """Return the words that complete the end of a line."""
    return [item.value for item in items(line) if item.type == "plain"]


def program_output(shell: str, words: str, number: int) -> str:
    """Return the program's output for the variables that a shell's script sets."""
    # fish passes the word at the cursor instead of its number.
    word = words.rpartition(" ")[2] if shell == "fish" else str(number)
    variables = {
        ASKED_BY_A_SHELL: f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": word,
    }
    done = run(env=variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("line", "fitting"),
    [
        ("ext4audit ", list(COMMANDS)),
        ("ext4audit sc", ["scan", "schema"]),
        ("/path/to/ext4audit SC", ["scan", "schema"]),
        ("my-alias sca", ["scan"]),
        ("ext4audit -", ["--no-pager", "--version", "-V", "-h", "--help"]),
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
        ("ext4audit fleet ", ["fix"]),
        ("ext4audit fleet --gr", ["--group-by"]),
        ("ext4audit fleet -b f", []),
        ("ext4audit fleet fix --ap", ["--apply"]),
        ("ext4audit fleet fix --disruption unm", ["unmount"]),
        ("ext4audit fix --choose prf001", ["PRF001"]),
        ("ext4audit fix --choose PRF001=dio", []),
        ("ext4audit fleet fix --choose=prf001", ["--choose=PRF001"]),
        ("ext4audit plan --os debian:1", [f"debian:{number}" for number in (11, 12, 13)]),
        ("ext4audit plan --os=Debian:12", ["--os=debian:12"]),
        ("ext4audit schema --", ["--unread", "--no-pager", "--help"]),
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
def test_completions(line: str, fitting: list[str]) -> None:
    """These are commands, remaining options, their values, and lists of rules."""
    assert sorted(completions(line)) == sorted(fitting)


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
def test_shell_completes_files(line: str, before: str) -> None:
    """The shell quotes them, and knows the home directory."""
    assert [(item.type, item.value) for item in items(line)] == [("file", before)]


def test_every_rule_and_profile_has_its_summary() -> None:
    """The help beside a word is the summary, on one line."""
    found = items("ext4audit scan --select ") + items("ext4audit scan --profile ")
    assert [item.value for item in found] == [*CODES, *all_profiles()]
    helps = [item.help or "" for item in found]
    assert all(text and "\n" not in text and "\t" not in text for text in helps)
    summaries = [f"{rule.name}: {rule.summary}" for rule in all_rules()]
    assert all(full.startswith(text) for full, text in zip(summaries, helps, strict=False))


def test_profiles_of_the_policy_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The policy's rules are not run; with an invalid policy, built-in profiles complete."""
    ran = tmp_path / "ran"
    (tmp_path / "site.py").write_text(f"open({str(ran)!r}, 'w')\n")
    site = 'rules = ["site.py"]\n[profile.tiered]\nreason = "so"\nrequires = ["noatime"]\n'
    (tmp_path / "ext4audit.toml").write_text(site)
    monkeypatch.chdir(tmp_path)
    assert [item.value for item in items("ext4audit scan --profile ti")] == ["tidb", "tiered"]
    assert not ran.exists()
    (tmp_path / "ext4audit.toml").write_text("profile = 3\n")
    assert [item.value for item in items("ext4audit scan --profile ti")] == ["tidb"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_value_has_a_completion_or_is_listed(name: str) -> None:
    """Each new option must choose: choices, files, words from the program, or none."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    for each in command.params:
        if isinstance(each.type, click.Choice) or getattr(each, "is_flag", False):
            continue
        assert (each._custom_shell_complete is None) == (each.metavar in NOT_COMPLETED)


@given(
    st.sampled_from(sorted(SHELLS)),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"])),
)
def test_any_line_completes_to_plain_words(shell: str, line: str) -> None:
    """For any line, completions are words that need no quotes."""
    for item in items(f"ext4audit {line}", shell):
        assert "\n" not in f"{item.value}{item.help}"
        assert item.value.isascii()


@pytest.mark.parametrize(
    ("shell", "words", "number", "printed"),
    [
        ("bash", "ext4audit rul", 1, "plain,rules"),
        ("zsh", "ext4audit rul", 1, "plain\nrules\nList the rules"),
        ("fish", "ext4audit rul", 1, "plain,rules\tList the rules"),
        ("fish", "sudo -u root ext4audit rul", 4, "plain,rules\tList the rules"),
        ("fish", "ext4audit scan ext4audit --qu", 3, "plain,--quiet\tShow the summary line only."),
        ("bash", "ext4audit scan --color = al", 4, "plain,always"),
        ("bash", "ext4audit scan --color =", 3, "plain,auto\nplain,always\nplain,never"),
        ("bash", "ext4audit scan --color=al", 2, "plain,--color=always"),
        ("bash", "ext4audit scan --ignore = CAP,dur001", 4, "plain,CAP,DUR001"),
        ("bash", "ext4audit scan --profile tidb = /data,kaf", 5, "plain,/data,kafka"),
        ("bash", "ext4audit scan --profile = tidb = /d", 6, "file,"),
        ("bash", "ext4audit nonsense --", 2, ""),
    ],
)  # fmt: skip
def test_completion_protocol(shell: str, words: str, number: int, printed: str) -> None:
    """It prints the replacement for the word as split by the shell, and audits nothing."""
    assert program_output(shell, words, number) == printed


@pytest.mark.parametrize(
    "question",
    [{}, {"COMP_WORDS": "ext4audit "}, {"COMP_WORDS": "ext4audit ", "COMP_CWORD": "one"}],
)
@pytest.mark.parametrize("instruction", ["bash_complete", "bash", "csh_complete", "1"])
def test_incomplete_completion_request_is_a_usage_error(
    instruction: str, question: dict[str, str]
) -> None:
    """Exit 0 would look clean, and 1 like findings."""
    done = run(env={ASKED_BY_A_SHELL: instruction, **question})
    assert (done.returncode, done.stdout) == (2, "")


def test_arguments_override_an_exported_completion_request() -> None:
    """With arguments the program obeys them: silence and exit 0 would look clean."""
    done = run(
        "scna",
        env={ASKED_BY_A_SHELL: "bash_complete", "COMP_WORDS": "ext4audit ", "COMP_CWORD": "1"},
    )
    assert done.returncode == 2
    assert done.stdout == ""


def test_completion_loads_no_audit_modules() -> None:
    """Completion imports neither rules nor sources, unless the word is a rule."""
    code = (
        "import sys; from ext4audit.cli import run_program; run_program([]); "
        "sys.stderr.write(' '.join(sys.modules))"
    )
    question = {"COMP_WORDS": "ext4audit completion ", "COMP_CWORD": "2"}
    done = run_python("-c", code, env={ASKED_BY_A_SHELL: "bash_complete", **question})
    heavy = {"ext4audit.rules", "ext4audit.sources", "rich"}
    assert not heavy & set(done.stderr.split())


@pytest.fixture(scope="module", params=list(SHELLS)[: share_of(len(SHELLS))])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """Start each installed shell, in CI all of them, in a folder with files."""
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
        ("ext4audit scan -vf jun", "ext4audit scan -vf junit "),
        ("ext4audit scan --profile tidb=/e,kaf", "ext4audit scan --profile tidb=/e,kafka "),
        ("ext4audit scan --profile=tidb=repo", "ext4audit scan --profile=tidb=report.json "),
        ("ext4audit scan --output=uniq", r"ext4audit scan --output=uniquely\ named.img "),
        ("ext4audit scan --allow", "ext4audit scan --allow-incomplete "),
        ("ext4audit scan --select dur001,lay001", "ext4audit scan --select dur001,LAY001 "),
        ("ext4audit scan --select=CAP,lay001", "ext4audit scan --select=CAP,LAY001 "),
        ("ext4audit explain barrier-dis", "ext4audit explain barrier-disabled "),
        ("ext4audit scan repo", "ext4audit scan report.json "),
        ("ext4audit scan -o repo", "ext4audit scan -o report.json "),
        ("ext4audit scan --output=repo", "ext4audit scan --output=report.json "),
        ("ext4audit scan uniq", r"ext4audit scan uniquely\ named.img "),
        ("ext4audit plan --os debian:12", "ext4audit plan --os debian:12 "),
        ("ext4audit plan --os=sles:15.7", "ext4audit plan --os=sles:15.7 "),
        ("ext4audit scan --timeout re", "ext4audit scan --timeout re"),
        ("ext4audit rules re", "ext4audit rules re"),
        ("./.bin/ext4audit sch", "./.bin/ext4audit schema "),
    ],
)
def test_real_shells_complete(shell: Shell, typed: str, line: str) -> None:
    """Tab completes in bash, zsh and fish; files stay quoted, other values get no files."""
    assert shell.completed(typed) == line


@pytest.mark.shells
def test_real_shells_start_the_program(shell: Shell) -> None:
    """A new interpreter answers like the forked copies that answer the other lines."""
    assert shell.completed("ext4audit scan --output=uniq", new=True).endswith(
        r"uniquely\ named.img "
    )


@pytest.mark.parametrize("name", SHELLS)
def test_completion_script_is_clicks(name: str) -> None:
    """A subclass patches it for some shells; click must still need these patches."""
    patched = {"bash": [], "zsh": ["compset -P"], "fish": ["--max 1", "string join"]}[name]
    assert PROGRAM in script(name)
    assert [part for part in patched if part not in script(name)] == []


@pytest.mark.parametrize("name", SHELLS)
def test_command_prints_the_script(name: str) -> None:
    """The output is the shipped script."""
    done = run("completion", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == script(name)

"""The completions and manual pages in share/ match what the program generates now."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from ext4audit.cli import COMMANDS, NAME, app
from ext4audit.facts import toml_reader
from ext4audit.policy import KEYS, REQUIRED, SUPPRESS_KEYS, parse_policy
from ext4audit.policy.profiles import SITE_KEYS
from ext4audit.rules import all_rules
from support.docs.generated_files import SHARE, generated, write, written
from support.docs.man_pages import GLYPHS, POLICY, escaped, prose
from support.docs.man_pages import KEYS as EXPLAINED
from support.docs.man_pages import PROFILE_KEYS as PROFILES_EXPLAINED
from support.docs.man_pages import SUPPRESS_KEYS as SUPPRESS_EXPLAINED
from support.program import run, run_python

PAGES = {name: text for name, text in generated().items() if name.startswith("man/")}
DIGEST = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from support.docs.generated_files import generated
print(hashlib.sha256(repr(sorted(generated().items())).encode()).hexdigest())
"""


def test_the_files_are_up_to_date(*, accept: bool) -> None:
    """`pytest --accept` writes the files; share/ contains nothing else."""
    if accept:
        write(SHARE, generated())
    assert written(SHARE) == generated()


@pytest.mark.parametrize(
    "changes",
    [
        {"COLUMNS": "40", "LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"COLUMNS": "300", "TERM": "dumb", "NO_COLOR": "1", "LANGUAGE": "de", "LANG": "de_DE"},
    ],
    ids=["narrow", "wide"],
)
def test_no_environment_changes_them(changes: dict[str, str]) -> None:
    """Width, locale and hash order do not influence them."""
    ours = hashlib.sha256(repr(sorted(generated().items())).encode()).hexdigest()
    done = run_python("-c", DIGEST, str(Path(__file__).parents[1]), env=changes)
    assert done.stdout == f"{ours}\n"


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_ascii_and_have_no_request_of_their_text(name: str) -> None:
    """Text from a command neither starts a line as a roff request nor contains an escape."""
    text = PAGES[name]
    assert text.isascii()
    known = re.compile(r"\.(TH|SH|PP|TP|nf|fi|\\\")( |$)")
    assert all(known.match(line) for line in text.splitlines() if line.startswith((".", "'")))
    assert not re.findall(r"\\(?![efR&\-(\[\"])", text)


@pytest.mark.parametrize(
    ("text", "roff"),
    [
        (".snapshot is a name", r"\&.snapshot is a name"),
        ("'quoted'", r"\(aqquoted\(aq"),
        (r"a\b --x ^~`", r"a\eb \-\-x \(ha\(ti\(ga"),
        ("naïve…", r"na\[u00EF]ve\[u2026]"),
    ],
)
def test_roff_prints_text_as_it_is(text: str, roff: str) -> None:
    """Options can be copied to a shell, and text is never interpreted as a request."""
    assert escaped(text) == roff


def test_backticks_are_bold() -> None:
    """Backticks mark what is typed, as in the help."""
    assert prose("that `scan -f json`\n  prints") == r"that \fBscan \-f json\fR prints"


@pytest.mark.parametrize("name", PAGES)
def test_man_prints_every_page_without_a_warning(name: str) -> None:
    """Each page is formatted in 80 columns of UTF-8, the check that distributions run."""
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", str(SHARE / name)],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


@pytest.mark.parametrize("name", PAGES)
def test_mandoc_has_nothing_to_say(name: str) -> None:
    """The missing date is intended: the same version gives the same bytes."""
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    done = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", str(SHARE / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_what_the_help_has(name: str) -> None:
    """A page has every option, the examples, and the exit codes."""
    page = PAGES[f"man/man1/ext4audit-{name}.1"]
    shown = page
    for char, glyph in GLYPHS.items():
        shown = shown.replace(glyph, char)
    told = run(name, "--help", env={"COLUMNS": "100"}).stdout
    options = re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", told, re.MULTILINE)
    assert options
    assert all(f"\\fB{option}\\fR" in shown for option in options)
    examples = told.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert all(f"\n{line.strip()}\n" in shown for line in examples)
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES"):
        assert f"\n.SH {section}\n" in page
    assert ("\n.SH FILES\n" in page) == ("--config" in options)
    for code in re.findall(r"[:,] (\d+) ", told.partition("Exit codes:")[2].partition("\n\n")[0]):
        assert f"\n.TP\n\\fB{code}\\fR\n" in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    """No option lacks a description in the help and on the page."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    options = [each for each in command.params if isinstance(each, click.Option)]
    assert [each.opts for each in options if not (each.help or "").strip()] == []


def test_the_page_of_the_policy_explains_every_key() -> None:
    """The example on the page is a valid policy."""
    assert tuple(EXPLAINED) == KEYS
    assert tuple(SUPPRESS_EXPLAINED) == SUPPRESS_KEYS
    assert set(PROFILES_EXPLAINED) == set(SITE_KEYS)
    assert set(REQUIRED) <= set(SUPPRESS_EXPLAINED)
    policy = parse_policy(toml_reader().loads(POLICY), all_rules(), lambda _word, _known: "")
    assert policy.suppressions
    assert policy.site_profiles
    assert policy.fail_on == "high"
    assert f"man/man5/{NAME}.5" in PAGES


def test_the_wheel_brings_them_along() -> None:
    """They are installed below the prefix, where bash, zsh, fish and man look for them."""
    project = toml_reader().loads((SHARE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["shared-data"] == {
        "share": "share",
        "docs/rules": "share/doc/ext4audit/rules",
    }
    assert "/share" in targets["sdist"]["include"]

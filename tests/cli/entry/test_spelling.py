"""Misspelt names get suggestions, in the same wording everywhere."""

from __future__ import annotations

import click
import pytest

from ext4audit.cli import COMMANDS, Choice, app
from ext4audit.cli.terminal.errors import usage_error_text
from support.program import run


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("scan --output", "--output takes a value"),
        ("scan --pedantic=1", "--pedantic takes no value"),
    ],
)
def test_the_words_of_click_do_not_matter(arguments: str, reported: str) -> None:
    """The option decides whether it takes a value: click may word and translate its messages."""
    words = arguments.split()
    error = click.BadOptionUsage(words[1].partition("=")[0], "Die Option ist falsch benutzt.")
    assert usage_error_text(error, words) == reported


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("scna", "no such command: scna (did you mean scan?)"),
        ("explian DUR001", "no such command: explian (did you mean explain?)"),
        ("xyzzy", "no such command: xyzzy"),
        ("--versoin", "no such option: --versoin (did you mean --version?)"),
        ("scan --selct DUR", "no such option: --selct (did you mean --select?)"),
        ("scan --selct=DUR", "no such option: --selct (did you mean --select?)"),
        ("scan --failon high", "no such option: --failon (did you mean --fail-on?)"),
        (
            "plan --nonrotational",
            "no such option: --nonrotational (did you mean --non-rotational?)",
        ),
        ("scan --zzzzzz", "no such option: --zzzzzz"),
        ("scan -x", "no such option: -x"),
        ("scan -f jsno", "--format: invalid value 'jsno' (did you mean json?)"),
        ("scan --format=JSON", "--format: invalid value 'JSON' (did you mean json?)"),
        ("layout x -f svgg", "--format: invalid value 'svgg' (did you mean svg?)"),
        ("layout x -f xml", "--format: invalid value 'xml' (choose from text, json, svg)"),
        ("scan --fail-on hihg", "--fail-on: invalid value 'hihg' (did you mean high?)"),
        ("diff a b --fail-on mdeium", "--fail-on: invalid value 'mdeium' (did you mean medium?)"),
        ("scan --color alwasy", "--color: invalid value 'alwasy' (did you mean always?)"),
        ("scan --color 1", "--color: invalid value '1' (choose from auto, always, never)"),
        ("completion bsh", "SHELL: invalid value 'bsh' (did you mean bash?)"),
        ("scan --select DUR01", "unknown rule 'DUR01' (did you mean DUR001?)"),
        ("scan --profile tdb", "unknown profile 'tdb' (did you mean tidb?)"),
        ("explain barier-disabled", "(did you mean barrier-disabled?)"),
        ("scan --output", "--output takes a value"),
        ("scan --pedantic=1", "--pedantic takes no value"),
        ("fleet fix --limit", "--limit takes a value"),
        ("fleet fix --apply=1", "--apply takes no value"),
        ("scan --help=1", "--help takes no value"),
        ("--no-pager=1 scan", "--no-pager takes no value"),
        ("--no-pager scan --verbose=3", "--verbose takes no value"),
        ("explain", "CODE|NAME|FAMILY is missing"),
        (
            "collect --timeout 0",
            "--timeout: 0 is not a number above 0 and of at most 86400 seconds",
        ),
        ("scan --deadline x", "--deadline: x is not a number above 0 and of at most 86400 seconds"),
        ("scan --mounts-of x", "--mounts-of: 'x' is not a valid integer"),
        ("scan --mounts-of 4194305", "--mounts-of: there is no /proc/4194305"),
        ("knowledge profils", "TABLE: invalid value 'profils' (did you mean profiles?)"),
        ("diff Monday.json b", "Monday.json: No such file or directory"),
        ("scan --from Makefile", "Makefile: No such file or directory"),
        ("probe . --observe 1 --size 1G", "--observe writes nothing, so --size has no effect"),
        ("layout x --members 1 --chunk 64K", "--members 1: raid0 takes 2 to 1920 members"),
    ],
)
def test_nearest_word_is_suggested(arguments: str, reported: str) -> None:
    """This covers commands, long options, choices, rules and profiles, but no single letters."""
    done = run(*arguments.split())
    assert done.returncode == 2
    line = done.stderr.splitlines()[0]
    assert line.startswith("ext4audit: ")
    assert line.endswith(reported)


@pytest.mark.parametrize(
    "arguments", ["scan --output", "scan -x", "scan --color 1", "scan a -v -q"]
)
def test_second_line_names_the_help_of_the_command(arguments: str) -> None:
    """It names the command that was typed."""
    assert run(*arguments.split()).stderr.endswith("\nTry 'ext4audit scan --help' for help.\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_choice_suggests_the_nearest_word(name: str) -> None:
    """Options with a choice of words use the type that suggests the nearest one."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    choices = [each.type for each in command.params if isinstance(each.type, click.Choice)]
    assert all(isinstance(each, Choice) for each in choices)

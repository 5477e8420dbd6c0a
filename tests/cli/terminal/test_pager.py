"""The pager: for long text on a terminal only."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.program import run
from support.terminals import on_terminal

PAGE = ("explain", "DUR001")
"""Arguments whose output has more than 24 lines."""


@pytest.fixture
def pager(tmp_path: Path) -> tuple[Path, str]:
    """Make a pager that stores its input and LESS; return the file and the pager's path."""
    kept, script = tmp_path / "kept", tmp_path / "pager"
    script.write_text(f'#!/bin/sh\n{{ echo "LESS=$LESS"; cat; }} > {kept}\n')
    script.chmod(0o755)
    return kept, str(script)


def test_long_text_goes_to_the_pager(pager: tuple[Path, str]) -> None:
    """It gets colours and git's default of LESS; the screen gets nothing else."""
    kept, path = pager
    done = on_terminal(*PAGE, env={"PAGER": path})
    assert (done.code, done.screen, done.stderr) == (0, "", "")
    head, _, text = kept.read_text().partition("\n")
    assert head == "LESS=FRX"
    assert "\x1b[" in text
    assert "barrier-disabled" in text


def test_less_variable_of_the_user_is_kept(pager: tuple[Path, str]) -> None:
    """The default does not replace the user's value."""
    kept, path = pager
    on_terminal(*PAGE, env={"PAGER": path, "LESS": "-S"})
    assert kept.read_text().startswith("LESS=-S\n")


@pytest.mark.parametrize("arguments", [("--help",), ("scan", "--help"), ("rules",)], ids=" ".join)
def test_help_and_rules_are_paged(pager: tuple[Path, str], arguments: tuple[str, ...]) -> None:
    """Both are longer than the terminal."""
    kept, path = pager
    assert on_terminal(*arguments, env={"PAGER": path}).code == 0
    assert kept.exists()


def test_pager_keeps_the_exit_code(pager: tuple[Path, str]) -> None:
    """A pager that succeeds does not hide findings."""
    kept, path = pager
    snapshot = Path(__file__).parents[3] / "fixtures" / "hosts" / "lvm-linear-nobarrier"
    done = on_terminal("scan", "--from", str(snapshot / "snapshot"), rows=5, env={"PAGER": path})
    assert done.code == 1
    assert "DUR001" in kept.read_text()


@pytest.mark.parametrize(
    ("arguments", "rows", "variables"),
    [
        (("--no-pager", *PAGE), 24, {}),
        ((*PAGE, "--no-pager"), 24, {}),
        (PAGE, 24, {"EXT4AUDIT_NO_PAGER": "1"}),
        (PAGE, 24, {"PAGER": "cat"}),
        (PAGE, 24, {"PAGER": ""}),
        (PAGE, 24, {"PAGER": "less -P 'it's'"}),
        (PAGE, 24, {"TERM": "dumb"}),
        (PAGE, 500, {}),
        (("--version",), 24, {}),
    ],
    ids=str,
)
def test_output_without_a_pager(
    pager: tuple[Path, str], arguments: tuple[str, ...], rows: int, variables: dict[str, str]
) -> None:
    """An option or a variable disables it, and text that fits the terminal needs none."""
    kept, path = pager
    done = on_terminal(*arguments, rows=rows, env={"PAGER": path, **variables})
    assert done.code == 0
    assert done.screen
    assert not kept.exists()


def test_pipe_gets_no_pager(pager: tuple[Path, str]) -> None:
    """PAGER has no effect then."""
    kept, path = pager
    done = run(*PAGE, env={"PAGER": path, "TERM": "xterm"})
    assert done.stdout.startswith("# DUR001")
    assert not kept.exists()

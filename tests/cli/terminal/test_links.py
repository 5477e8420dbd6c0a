"""Links from rule codes to their pages, on terminals that support links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ext4audit.cli.terminal.screen import with_links
from support.program import run
from support.terminals import on_terminal

LINK = re.compile(r"\x1b\]8;[^;]*;(?P<page>[^\x1b]+)\x1b\\(?P<text>[^\x1b]*)\x1b\]8;;\x1b\\")
SHORT = ("explain", "LAY", "--no-pager")


@pytest.mark.parametrize(
    ("variables", "linked"),
    [
        ({}, False),
        ({"VTE_VERSION": "5001"}, True),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "5000"}, False),
        ({"VTE_VERSION": "new"}, False),
        ({"VTE_VERSION": "9" * 5000}, False),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"KONSOLE_VERSION": "220401"}, True),
        ({"KITTY_WINDOW_ID": "1"}, True),
        ({"TERM": "xterm-kitty"}, False),
        ({"FORCE_HYPERLINK": "1"}, True),
        ({"FORCE_HYPERLINK": "0", "VTE_VERSION": "7600"}, False),
        ({"NO_COLOR": "1", "VTE_VERSION": "7600"}, False),
        ({"TERM": "dumb", "VTE_VERSION": "7600"}, False),
    ],
    ids=str,
)
def test_links_by_terminal_variables(variables: dict[str, str], *, linked: bool) -> None:
    """The terminal's variables decide, unless escape sequences are not allowed."""
    screen = on_terminal(*SHORT, env=variables).screen
    found = {each["text"]: each["page"] for each in LINK.finditer(screen)}
    assert "LAY001" in screen
    assert ("LAY001" in found) is linked
    assert ("\x1b]8;" in screen) is linked


def test_link_target_is_the_rule_page() -> None:
    """It is the file of the rule's page on this host."""
    found = LINK.search(with_links("see DUR001."))
    assert found is not None
    assert found["text"] == "DUR001"
    path = found["page"].removeprefix("file://").partition("/")[2]
    assert Path(f"/{path}").read_text().startswith("# DUR001 ")


@pytest.mark.parametrize(
    "text",
    [
        "XYZ001",
        "DUR001X",
        "CVE-DUR001",
        "DUR0011",
        "\x1b]8;;https://x/DUR001\x1b\\DUR001\x1b]8;;\x1b\\",
    ],
)
def test_other_text_is_unchanged(text: str) -> None:
    """Other words are not rule codes, and existing links are kept."""
    assert with_links(text) == text


def test_code_after_an_escape_sequence_is_a_link() -> None:
    """The final letter of an escape sequence is not part of the code."""
    assert "\x1b]8;" in with_links("\x1b[31mDUR001\x1b[0m")


@pytest.mark.parametrize("arguments", [("rules",), ("rules", "--color", "always")], ids=" ".join)
def test_pipe_gets_no_links(arguments: tuple[str, ...]) -> None:
    """This holds even with colours."""
    assert "\x1b]8;" not in run(*arguments, env={"VTE_VERSION": "7600"}).stdout


def test_machine_format_gets_no_links() -> None:
    """JSON on a terminal stays JSON."""
    done = on_terminal("rules", "-f", "json", "--no-pager", env={"VTE_VERSION": "7600"})
    assert "\x1b" not in done.screen

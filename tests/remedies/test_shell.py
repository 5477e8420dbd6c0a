from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from ext4audit.remedies import Unquotable, quote

SHELLS = [
    [path, *arguments]
    for name, *arguments in (("sh",), ("dash",), ("bash",), ("busybox", "ash"))
    if (path := shutil.which(name))
]
NAMES = [
    "/srv/my data",
    "/srv/two\nlines",
    "/srv/back\\slash",
    "/srv/$(touch pwned)`id`",
    "/srv/tab\there",
    "/srv/#hash 'single' \"double\"",
    "/srv/\x1b[31mred\x1b[0m",
    "/srv/\udcff\udcfe",
    "::error file=a::b%0A%s%d",
    "-rf",
    "-n\x07",
    "/srv/ünïcode/日本",
    "/srv/\x01123",
    "!history !!",
    "*?[a]~;&|<>(){}",
    "",
]


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: os.path.basename(shell[0]))  # noqa: PTH119 - an id
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_shell_expands_the_word_to_the_bytes_of_the_name(name: str, shell: list[str]) -> None:
    """Whatever a name holds, the shell gives back its bytes and runs nothing."""
    done = subprocess.run(
        [*shell, "-c", f"printf '%s|' {quote(name)} next"], capture_output=True, check=True
    )
    assert done.stdout == name.encode("utf-8", "surrogateescape") + b"|next|"


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_the_word_is_printable_ascii(name: str) -> None:
    """What a person reads is what runs: no control character reaches the terminal."""
    word = quote(name)
    assert all(" " <= character <= "~" for character in word)


@pytest.mark.parametrize("name", ["/srv/ends\n", "/srv/nul\0", "\ud800"], ids=ascii)
def test_unquotable_names_have_no_word(name: str) -> None:
    """`$()` strips a last newline, no word holds NUL, and a lone surrogate has no bytes."""
    with pytest.raises(Unquotable):
        quote(name)


def test_plain_name_is_not_quoted() -> None:
    """The usual mount point is printed without quotes."""
    assert quote("/var/lib/postgresql") == "/var/lib/postgresql"

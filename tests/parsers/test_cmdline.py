from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext4audit.parsers.cmdline import parse_kernel_arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64 root=UUID=4a1e8f2e ro quiet\n",
            ("BOOT_IMAGE=/vmlinuz-6.1.0-18-amd64", "root=UUID=4a1e8f2e", "ro", "quiet"),
        ),
        ('root="LABEL=a b" ro', ("root=LABEL=a b", "ro")),
        ('"root=LABEL=a b" ro', ("root=LABEL=a b", "ro")),
        ('rootflags="data=writeback, x', ("rootflags=data=writeback, x",)),
        ('dyndbg="file x.c +p; y" z', ("dyndbg=file x.c +p; y", "z")),
        ('a=b"c d"e f', ('a=b"c d"e', "f")),
        ("quiet -- single", ("quiet", "--", "single")),
        ("a\u00a0b \udcff", ("a\u00a0b", "\udcff")),
        ("\n", ()),
        ("", ()),
    ],
)
def test_arguments_end_at_blanks_outside_quotes(text: str, arguments: tuple[str, ...]) -> None:
    """Double quotes protect blanks; those round an argument or its value are dropped."""
    assert parse_kernel_arguments(text) == arguments


@given(st.text(alphabet='ab="\\ \n-'))
def test_no_argument_without_quotes_holds_a_blank(text: str) -> None:
    """Without quotes, arguments are the words of the line."""
    plain = text.replace('"', "")
    assert parse_kernel_arguments(plain) == tuple(plain.split())


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    """Every text has arguments, and none of them is empty but for quotes."""
    arguments = parse_kernel_arguments(text)
    assert all(arguments) or '"' in text
